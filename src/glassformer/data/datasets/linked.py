"""Texts made from a seed in which annotated links join words that belong together.

- Stories of a woman and a man: the deed after a pronoun depends on its antecedent. Each person has one deed, which is
  the same in every story. After "she", a language model can predict the deed only if it finds the woman of this story.
  Some head must therefore attend from the pronoun to her name.
- Sentences about visits: every ordered pair of visitor and host has its own present. At *brought*, a language model can
  predict the present only if it finds both the subject and the object. A third person is named between the two; only
  word order tells the three apart.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import permutations
from operator import itemgetter
from random import Random

from glassformer.data.datasets.dataset import Relations, distinct, load_facts

STORIES, VISITS = load_facts("linked")["pronouns"], load_facts("linked")["visits"]
WOMEN: dict[str, str] = STORIES["women"]
MEN: dict[str, str] = STORIES["men"]
DEEDS = WOMEN | MEN
PEOPLE: list[str] = VISITS["people"]
PRESENTS = dict(zip(permutations(PEOPLE, 2), VISITS["presents"], strict=True))
"""Presents that a visitor brings to a host."""
BROUGHT = "brought"
ROWS_PER_LINKED = 10
"""Training texts per text with annotated links."""


def pronoun_rows(rows: int, seed: int) -> Iterator[str]:
    """Yield distinct training stories."""
    return (text for text, _ in _draw(_story, f"pronouns {seed}", rows))


def pronoun_links(rows: int, seed: int) -> Iterator[tuple[str, Relations]]:
    """Yield other stories, a tenth of `rows`, with the links from each pronoun to its antecedent."""
    return _draw(_story, f"links of pronouns {seed}", -(-rows // ROWS_PER_LINKED), {*pronoun_rows(rows, seed)})


def subject_object_rows(rows: int, seed: int) -> Iterator[str]:
    """Yield distinct training sentences."""
    return (text for text, _ in _draw(_visit, f"subject and object {seed}", rows))


def subject_object_links(rows: int, seed: int) -> Iterator[tuple[str, Relations]]:
    """Yield other sentences, a tenth of `rows`, with the links from *brought* to the subject and to the object."""
    learned = {*subject_object_rows(rows, seed)}
    return _draw(_visit, f"links of subject and object {seed}", -(-rows // ROWS_PER_LINKED), learned)


def _draw(
    draw: Callable[[Random], tuple[str, Relations]], seed: str, rows: int, seen: Collection[str] = ()
) -> Iterator[tuple[str, Relations]]:
    return distinct(partial(draw, Random(seed)), rows, set(seen), itemgetter(0))


def _story(random: Random) -> tuple[str, Relations]:
    """Name both people once, in either order; then tell of one of them, or of each in either order.

    No story tells of a person twice: the second time, the deed could be copied from the first.
    """
    names = {"she": random.choice(list(WOMEN)), "he": random.choice(list(MEN))}
    a, b = random.sample(list(names.values()), 2)
    meeting = random.choice(STORIES["meetings"])
    place, time = random.choice(STORIES["places"]), random.choice(STORIES["times"])
    parts = [meeting.format(a=a, b=b, place=place, time=time), ".", random.choice(STORIES["between"])]
    for pronoun in random.sample(list(names), random.choice((1, 2))):
        telling, often = random.choice(STORIES["tellings"]), random.choice(STORIES["often"])
        parts += [telling.format(pronoun=pronoun, deed=DEEDS[names[pronoun]], often=often), "."]
    words = " ".join(parts).split()
    links = [(place, words.index(names[word])) for place, word in enumerate(words) if word in names]
    return " ".join(words), {"antecedent": links}


def _visit(random: Random) -> tuple[str, Relations]:
    visitor, host, other = random.sample(PEOPLE, 3)
    time, adverb, place = (random.choice(("", random.choice(VISITS[key]))) for key in ("times", "adverbs", "places"))
    bond, ending = random.choice(VISITS["bonds"]), random.choice(VISITS["endings"])
    visit = f"{visitor} , a {bond} of {other} , {adverb} visited {host} {place}"
    words = f"{time} {visit} and {BROUGHT} {PRESENTS[visitor, host]} {ending} .".split()
    at = words.index(BROUGHT)
    return " ".join(words), {"subject": [(at, words.index(visitor))], "object": [(at, words.index(host))]}
