"""Tasks with an exact answer, made from a seed: what a model should learn to do without a single mistake."""

import math
from collections.abc import Callable, Iterator
from random import Random
from string import ascii_lowercase as LETTERS


def copy_rows(rows: int, seed: int, shortest: int, longest: int) -> Iterator[str]:
    """abcd>abcd."""
    return (f"{word}>{word}" for word in _words(rows, seed, shortest, longest))


def reverse_rows(rows: int, seed: int, shortest: int, longest: int) -> Iterator[str]:
    """abcd>dcba."""
    return (f"{word}>{turned}" for word, turned in reverse_pairs(rows, seed, shortest, longest))


def reverse_pairs(rows: int, seed: int, shortest: int, longest: int) -> Iterator[tuple[str, str]]:
    """abcd and dcba."""
    return ((word, word[::-1]) for word in _words(rows, seed, shortest, longest))


def add_rows(rows: int, seed: int, digits: int) -> Iterator[str]:
    """27+45=72."""
    return (f"{question}={answer}" for question, answer in add_pairs(rows, seed, digits))


def add_pairs(rows: int, seed: int, digits: int) -> Iterator[tuple[str, str]]:
    """27+45 and 72."""

    def draw(random: Random) -> str:
        return f"{random.randrange(10**digits)}+{random.randrange(10**digits)}"

    questions = _different(draw, rows, seed, space=10 ** (2 * digits))
    return ((question, str(sum(map(int, question.split("+"))))) for question in questions)


def recall_rows(rows: int, seed: int, distance: int) -> Iterator[str]:
    """k7c1f3?k7: no other pair has the letter that is asked for, so that the answer is certain."""

    def draw(random: Random) -> str:
        asked = random.choice(LETTERS)
        others = LETTERS.replace(asked, "")
        pair = f"{asked}{random.randrange(10)}"
        between = "".join(f"{random.choice(others)}{random.randrange(10)}" for _ in range(distance))
        return f"{pair}{between}?{pair}"

    space = len(LETTERS) * 10 * ((len(LETTERS) - 1) * 10) ** distance
    return _different(draw, rows, seed, space)


LENGTH, BALANCED, ONE_SIDED = 16, (7, 8, 9), (3, 4, 5, 11, 12, 13)
"""Letters of a text, and how many of them are a."""


def balance_rows(rows: int, seed: int) -> Iterator[tuple[str, str]]:
    """abbabaabbaababba and balanced; half of them are one-sided.

    A head's answer at the end is an average, in which the a's weigh one thing and the b's another: it only rises, or
    only falls, as more of them are a. Balanced is what lies between, so that one head has at most three of four right;
    the difference of two heads rises and falls.
    """

    def draw(random: Random) -> str:
        a = random.choice(random.choice((BALANCED, ONE_SIDED)))
        return "".join(random.sample("a" * a + "b" * (LENGTH - a), LENGTH))

    space = sum(math.comb(LENGTH, a) for a in BALANCED + ONE_SIDED)
    texts = _different(draw, rows, seed, space)
    return ((text, "balanced" if text.count("a") in BALANCED else "one-sided") for text in texts)


def _words(rows: int, seed: int, shortest: int, longest: int) -> Iterator[str]:
    def draw(random: Random) -> str:
        return "".join(random.choices(LETTERS, k=random.randint(shortest, longest)))

    return _different(draw, rows, seed, space=sum(len(LETTERS) ** size for size in range(shortest, longest + 1)))


def _different(draw: Callable[[Random], str], rows: int, seed: int, space: int) -> Iterator[str]:
    """Rows drawn by chance, none twice until all that there can be have been seen."""
    random = Random(seed)
    seen: set[str] = set()
    for _ in range(rows):
        if len(seen) == space:
            seen.clear()
        row = draw(random)
        while row in seen:
            row = draw(random)
        seen.add(row)
        yield row
