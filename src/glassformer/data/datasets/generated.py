"""Data sets generated from a seed: tasks with one right answer, ambiguous words, and posts to a social network."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from random import Random
from string import ascii_lowercase as LETTERS
from typing import Any

from glassformer.data.datasets.dataset import distinct, load_facts

# --- tasks with one right answer ---


def copy_rows(rows: int, seed: int, shortest: int, longest: int) -> Iterator[str]:
    """Yield texts such as abcd>abcd."""
    return (f"{word}>{word}" for word in _words(rows, seed, shortest, longest))


def reverse_rows(rows: int, seed: int, shortest: int, longest: int) -> Iterator[str]:
    """Yield texts such as abcd>dcba."""
    return (f"{word}>{turned}" for word, turned in reverse_pairs(rows, seed, shortest, longest))


def reverse_pairs(rows: int, seed: int, shortest: int, longest: int) -> Iterator[tuple[str, str]]:
    """Yield pairs such as abcd and dcba."""
    return ((word, word[::-1]) for word in _words(rows, seed, shortest, longest))


def add_rows(rows: int, seed: int, digits: int) -> Iterator[str]:
    """Yield texts such as 27+45=72."""
    return (f"{question}={answer}" for question, answer in add_pairs(rows, seed, digits))


def add_pairs(rows: int, seed: int, digits: int) -> Iterator[tuple[str, str]]:
    """Yield pairs such as 27+45 and 72."""

    def draw(random: Random) -> str:
        return f"{random.randrange(10**digits)}+{random.randrange(10**digits)}"

    questions = _different(draw, rows, seed, space=10 ** (2 * digits))
    return ((question, str(sum(map(int, question.split("+"))))) for question in questions)


def recall_rows(rows: int, seed: int, distance: int) -> Iterator[str]:
    """Yield texts such as k7c1f3?k7. No other pair has the queried letter, so there is only one answer."""

    def draw(random: Random) -> str:
        asked = random.choice(LETTERS)
        others = LETTERS.replace(asked, "")
        pair = f"{asked}{random.randrange(10)}"
        between = "".join(f"{random.choice(others)}{random.randrange(10)}" for _ in range(distance))
        return f"{pair}{between}?{pair}"

    space = len(LETTERS) * 10 * ((len(LETTERS) - 1) * 10) ** distance
    return _different(draw, rows, seed, space)


LENGTH, BALANCED, ONE_SIDED = 16, (7, 8, 9), (3, 4, 5, 11, 12, 13)
"""Number of letters in a text, and numbers of a's in balanced and in one-sided texts."""


def balance_rows(rows: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield texts with their class, such as abbabaabbaababba and balanced; half of the texts are one-sided.

    The output of one head at the end is a weighted average of the letters' values. It therefore only rises or only
    falls with the number of a's. Balanced texts lie between, so one head gets at most three of four texts right. The
    difference of two heads can rise and fall.
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
    """Yield random rows, none twice until all possible rows (`space`) were seen."""
    return distinct(partial(draw, Random(seed)), rows, set(), str, space)


# --- ambiguous words: the words before them show which sense is meant ---

SENSE_FACTS = load_facts("senses")
SENSES: dict[str, dict[str, tuple[str, str]]] = SENSE_FACTS["senses"]
"""The senses of each word, the things that come with each sense, and what the word then does."""
VERBS: dict[str, dict[str, tuple[str, str]]] = SENSE_FACTS["verbs"]
"""Senses in which the word is a verb: typical nouns of each, and endings of the sentence."""


def sense_rows(rows: int, seed: int, verbs: int = 0) -> Iterator[tuple[str, str, str]]:
    """Return distinct texts, each with its ambiguous word and the sense of that word, such as bank/river.

    `verbs` 1 adds the sense bank/rely, in which *bank* is a verb: "they should not bank on the result".
    """
    random = Random(f"senses {seed}")

    def draw() -> tuple[str, str, str]:
        word = random.choice(list(SENSES))
        senses = {**SENSES[word], **(VERBS.get(word, {}) if verbs else {})}
        sense = random.choice(list(senses))
        turns = SENSE_FACTS["turns" if sense in SENSES[word] else "verb_turns"]
        return _sense_text(random, word, *senses[sense], turns=turns), word, f"{word}/{sense}"

    return distinct(draw, rows, set(), itemgetter(0))


def _sense_text(random: Random, word: str, things: str, deeds: str, *, turns: Sequence[str]) -> str:
    a, b, c, d = random.sample(things.split(), 4)
    does = random.choice(deeds.split(", "))
    parts = (random.choice(SENSE_FACTS["scenes"]), random.choice(turns), random.choice(SENSE_FACTS["endings"]))
    who, when = SENSE_FACTS["who"], SENSE_FACTS["when"]
    filled = (
        part.format(a=a, b=b, c=c, d=d, word=word, does=does, who=random.choice(who), when=random.choice(when))
        for part in parts
    )
    return " ".join(filter(None, filled))


# --- posts: whether a post goes viral depends on its text, its numbers and chance ---

POST_FACTS = load_facts("posts")
LUCK = 1.1
"""Largest contribution of chance to a post's score."""
BAR = 0.86
"""Score above which a post goes viral; about a third of the posts reach it."""


def post_rows(rows: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield values in the order of the columns; hashtags and links are counts, and not part of the text."""
    random = Random(f"posts {seed}")
    for _ in range(rows):
        text, carries = _post_text(random)
        hour = random.randrange(24)
        followers = int(10 ** (1 + 1.5 * (random.random() + random.random() + random.random())))
        hashtags, links = random.randrange(7), min(random.randrange(4), random.randrange(4))
        carries += 0.4 * (len(str(followers)) - 3) + (0.4 if 17 <= hour <= 22 else -0.4 if hour <= 5 else 0.0)
        carries += (0.2 if 1 <= hashtags <= 3 else -0.2) - 0.2 * links
        luck = LUCK * (random.random() + random.random() - 1)
        yield text, str(hour), str(followers), str(hashtags), str(links), "yes" if carries + luck > BAR else "no"


def _post_text(random: Random) -> tuple[str, float]:
    """Return the text of a post, and its contribution to the score."""
    topic: dict[str, Any] = random.choice(POST_FACTS["topics"])
    carries, words = topic["carries"], POST_FACTS["words"]
    text = re.sub(r"\{(\w+)\}", lambda place: random.choice(words[place[1]]), random.choice(topic["posts"]))
    if random.random() < 0.5:
        opener = random.choice(POST_FACTS["openers"])
        carries, text = carries + opener["carries"], opener["text"] + text
    if random.random() < 0.5 and not text.endswith("?"):
        ending = random.choice(POST_FACTS["endings"])
        carries, text = carries + ending["carries"], text + ending["text"]
    return re.sub(r"\ba (?=[aeiou])", "an ", text), carries
