"""Short stories of a woman and a man, made from a seed: what follows a pronoun depends on whom it stands for.

Everybody has one deed, the same in every story: mara paints, whoever she meets. After "she" a language model can know
what comes only if it finds the woman of this story, so that some head must look from the pronoun back to her name.
"""

from collections.abc import Iterator
from random import Random

from glassformer.data.datasets.dataset import Links, Relations

WOMEN = {
    "mara": "paints", "alma": "sings", "greta": "bakes", "lena": "writes", "nora": "swims", "tilda": "gardens",
    "ruth": "dances", "ines": "knits", "vera": "rides", "dora": "reads", "selma": "sews", "olga": "climbs",
}  # fmt: skip
MEN = {
    "tobin": "fishes", "anton": "cooks", "bruno": "runs", "carl": "sails", "emil": "carves", "felix": "jokes",
    "hugo": "hunts", "jonas": "teaches", "konrad": "whistles", "oskar": "travels", "pavel": "draws", "viktor": "skates",
}  # fmt: skip
DEEDS = WOMEN | MEN

MEETINGS = (
    "{a} met {b} {place}",
    "{a} saw {b} {place} {time}",
    "{time} {a} went for a walk with {b}",
    "{time} {a} and {b} were {place}",
    "{place} {a} and {b} had a long talk",
    "there was a letter from {a} to {b} {place}",
    "the friends {a} and {b} went home",
    "once {a} asked {b} for a book",
)
TELLINGS = (
    "{pronoun} {deed}",
    "{pronoun} {deed} {often}",
    "{often} {pronoun} {deed}",
    "everybody knows that {pronoun} {deed}",
    "they say that {often} {pronoun} {deed}",
    "one hears that {pronoun} {deed} {often}",
)
BETWEEN = ("", "it was a warm day .", "the sun was going down .", "nobody else was there .", "then it began to rain .")
PLACES = ("at the market", "in the old town", "by the river", "on the train", "at school", "behind the house")
TIMES = ("yesterday", "last week", "in spring", "one evening", "after lunch", "a year ago")
OFTEN = ("every day", "all day long", "on sundays", "in summer", "when it rains", "before breakfast")

LINKED = 10
"""Stories to learn from for each one that is made to look at."""


def pronoun_rows(rows: int, seed: int) -> Iterator[str]:
    """Stories to learn from, none twice."""
    return (text for text, _ in _different(Random(f"pronouns {seed}"), rows, set()))


def pronoun_links(rows: int, seed: int) -> Iterator[tuple[str, Relations]]:
    """Return other stories, a tenth of `rows`, with the links from each pronoun to its antecedent."""
    random = Random(f"links of pronouns {seed}")
    different = _different(random, -(-rows // LINKED), set(pronoun_rows(rows, seed)))
    return ((text, {"antecedent": links}) for text, links in different)


def _different(random: Random, rows: int, seen: set[str]) -> Iterator[tuple[str, Links]]:
    for _ in range(rows):
        text, links = _story(random)
        while text in seen:
            text, links = _story(random)
        seen.add(text)
        yield text, links


def _story(random: Random) -> tuple[str, Links]:
    """Both are named once, in either order; then one of them is told of, or each in either order.

    Nobody is told of twice: the second time, the deed could be copied from the first.
    """
    names = {"she": random.choice(list(WOMEN)), "he": random.choice(list(MEN))}
    a, b = random.sample(list(names.values()), 2)
    parts = [random.choice(MEETINGS).format(a=a, b=b, place=random.choice(PLACES), time=random.choice(TIMES)), "."]
    parts += random.choice(BETWEEN).split()
    for pronoun in random.sample(list(names), random.choice((1, 2))):
        telling = random.choice(TELLINGS)
        parts += [telling.format(pronoun=pronoun, deed=DEEDS[names[pronoun]], often=random.choice(OFTEN)), "."]
    words = " ".join(parts).split()
    links = [(place, words.index(names[word])) for place, word in enumerate(words) if word in names]
    return " ".join(words), links
