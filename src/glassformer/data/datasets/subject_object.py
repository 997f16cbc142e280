"""Sentences about visits, made from a seed: the present depends on the subject and on the object.

Every ordered pair of visitor and host has its own present. At *brought*, a language model can predict the present only
if it finds both the subject and the object and knows which is which. A third person is named between the two; only word
order tells the three apart.
"""

from collections.abc import Iterator
from itertools import permutations
from random import Random

from glassformer.data.datasets.dataset import Relations

PEOPLE = ("mara", "tobin", "alma", "bruno", "greta", "felix")
PRESENTS = dict(zip(permutations(PEOPLE, 2), (
    "apples", "bread", "butter", "candles", "cheese", "cherries", "coffee", "eggs", "figs", "fish", "flour", "flowers",
    "garlic", "grapes", "ham", "herbs", "honey", "jam", "lemons", "milk", "nuts", "oil", "olives", "pears", "plums",
    "rice", "salt", "soap", "tea", "wool",
), strict=True))  # fmt: skip
"""Presents that a visitor brings to a host."""
TIMES = ("yesterday", "last week", "in spring", "one evening", "after lunch", "a year ago")
ADVERBS = ("often", "once", "gladly", "finally", "secretly")
PLACES = ("at home", "by train", "in town", "after work", "at noon")
BONDS = ("friend", "sister", "neighbour", "cousin", "guest")
ENDINGS = ("", "again", "as always", "and a song", "for the winter")
BROUGHT = "brought"

ROWS_PER_LINKED = 10
"""Training sentences per sentence with annotated links."""


def subject_object_rows(rows: int, seed: int) -> Iterator[str]:
    """Return distinct training sentences."""
    return (text for text, _ in _different(Random(f"subject and object {seed}"), rows, set()))


def subject_object_links(rows: int, seed: int) -> Iterator[tuple[str, Relations]]:
    """Return other sentences, a tenth of `rows`, with the links from *brought* to the subject and to the object."""
    learned = set(subject_object_rows(rows, seed))
    return _different(Random(f"links of subject and object {seed}"), -(-rows // ROWS_PER_LINKED), learned)


def _different(random: Random, rows: int, seen: set[str]) -> Iterator[tuple[str, Relations]]:
    for _ in range(rows):
        text, links = _sentence(random)
        while text in seen:
            text, links = _sentence(random)
        seen.add(text)
        yield text, links


def _sentence(random: Random) -> tuple[str, Relations]:
    visitor, host, other = random.sample(PEOPLE, 3)
    time, adverb, place = (random.choice(("", random.choice(several))) for several in (TIMES, ADVERBS, PLACES))
    bond, ending = random.choice(BONDS), random.choice(ENDINGS)
    visit = f"{visitor} , a {bond} of {other} , {adverb} visited {host} {place}"
    words = f"{time} {visit} and {BROUGHT} {PRESENTS[visitor, host]} {ending} .".split()
    at = words.index(BROUGHT)
    return " ".join(words), {"subject": [(at, words.index(visitor))], "object": [(at, words.index(host))]}
