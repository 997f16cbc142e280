"""Opinions on restaurants, made from a seed: what they mean lies in the order of their words, not in their number."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

from glassformer.data.datasets.opinion_templates import TEMPLATES, TEST_TEMPLATES


@dataclass(frozen=True)
class Thing:
    """What an opinion is about, and the words that fit it."""

    noun: str
    number: str
    """one, some (what cannot be counted) or many."""
    good: tuple[str, ...]
    bad: tuple[str, ...]


VERBS_GOOD = ("loved", "enjoyed", "adored", "praised")
VERBS_BAD = ("hated", "disliked", "detested", "loathed")

GOOD = "good great lovely excellent wonderful superb delightful splendid marvellous brilliant impressive pleasant"
BAD = "bad awful terrible poor dreadful horrible disappointing mediocre miserable dismal appalling unpleasant"

FOOD = (f"{GOOD} delicious tasty fresh flavourful", f"{BAD} tasteless bland stale greasy")
PEOPLE = (f"{GOOD} kind friendly polite attentive helpful", f"{BAD} rude unfriendly grumpy careless arrogant")
SERVICE = (f"{GOOD} friendly attentive quick", f"{BAD} unfriendly careless slow")
PLACE = (f"{GOOD} cosy inviting elegant comfortable", f"{BAD} gloomy shabby dirty uncomfortable")
SIGHT = (f"{GOOD} charming cheerful elegant", f"{BAD} ugly dull gloomy")
MUSIC = (f"{GOOD} relaxing cheerful", f"{BAD} deafening dull")
PRICE = ("good great excellent pleasant fair reasonable", "bad awful terrible unpleasant unfair outrageous")
HOURS = (f"{GOOD} relaxing cheerful", f"{BAD} boring gloomy")

# A kind's number, its good and bad words, its nouns, and those of which only the test part speaks.
KINDS = (
    (
        "one",
        FOOD,
        "soup salad pizza curry dessert omelette sandwich pie burger starter stew",
        "risotto quiche casserole",
    ),
    ("some", FOOD, "food bread pasta fish rice chicken cheese cake", "lamb sushi"),
    ("many", FOOD, "vegetables noodles snacks pastries dumplings potatoes", "pancakes cookies"),
    ("many", PEOPLE, "waiters staff cooks hosts", "chefs bartenders"),
    ("some", SERVICE, "service", ""),
    ("one", PLACE, "terrace garden bar lounge cellar", "balcony courtyard"),
    ("one", SIGHT, "view fireplace", "fountain"),
    ("some", SIGHT, "decoration furniture", ""),
    ("many", SIGHT, "flowers paintings", "lamps"),
    ("some", MUSIC, "music", "jazz"),
    ("one", PRICE, "price bill", "discount"),
    ("many", PRICE, "prices", ""),
    ("one", HOURS, "evening lunch dinner meal breakfast party visit", "brunch banquet"),
)


def _things(nouns: int) -> tuple[Thing, ...]:
    return tuple(
        Thing(noun, number, tuple(good.split()), tuple(bad.split()))
        for number, (good, bad), *known_and_not in KINDS
        for noun in known_and_not[nouns].split()
    )


THINGS = _things(0)
TEST_THINGS = _things(1)

LITTLE_WORDS = {
    "one": {"a": "a ", "was": "was", "are": "is", "they": "it", "it": "it", "that": "that"},
    "some": {"a": "", "was": "was", "are": "is", "they": "it", "it": "it", "that": "that"},
    "many": {"a": "", "was": "were", "are": "are", "they": "they", "it": "them", "that": "those"},
}
"""The words that go with a thing, by its number."""

VERY = ("really ", "truly ", "quite ", "rather ", "", "", "", "")

DENIALS = ("not {} at all", "far from {}", "anything but {}", "hardly {}", "by no means {}")

OPENERS = (
    "to be honest, ", "I must say, ", "frankly, ", "in short, ", "well, ", "believe me, ", "all in all, ", "yes, ",
)  # fmt: skip
CLOSERS = (
    ", to be honest", ", I would say", ", if you ask me", ", I must say", ", believe me", ", and that is all",
    ", and I told them so", ", at least on a Sunday", ", a little to my surprise", ", and we were six at the table",
)  # fmt: skip


LABELS = ("positive", "negative")

LONGEST = 30
"""Words in a sentence, at most."""

SHARES = (0.3, 0.1, 0.35, 0.25)
"""How much of the sentences each group of templates makes."""

ORDER_PAIRS: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (
    (
        ("the food was good, not bad at all", "positive"),
        ("the food was bad, not good at all", "negative"),
    ),
    (
        ("I expected a dreadful evening but got a wonderful one", "positive"),
        ("I expected a wonderful evening but got a dreadful one", "negative"),
    ),
    (
        ("my friend found the soup tasteless, I found it delicious", "positive"),
        ("my friend found the soup delicious, I found it tasteless", "negative"),
    ),
    (
        ("the waiters used to be rude, now they are friendly", "positive"),
        ("the waiters used to be friendly, now they are rude", "negative"),
    ),
    (
        ("although the music was awful, the dessert was superb, and that is what counts", "positive"),
        ("although the dessert was superb, the music was awful, and that is what counts", "negative"),
    ),
    (
        ("they hated the curry, I loved it", "positive"),
        ("they loved the curry, I hated it", "negative"),
    ),
)
"""Sentences that only order can tell apart: the same words, the other label. None of them is in the data."""

_KEPT_BACK = {sentence for pair in ORDER_PAIRS for sentence, _ in pair}


def opinion_rows(rows: int, seed: int) -> list[tuple[str, str]]:
    """Sentences to learn from and their labels, half of them positive."""
    random = Random(f"opinions {seed}")
    return _rows(rows, random, lambda: _pair(random, _template(random, TEMPLATES), random.sample(THINGS, 2)))


def opinion_test_rows(rows: int, seed: int) -> list[tuple[str, str]]:
    """A quarter as many again, none of them in training: of each three, two in other templates, one on other things."""
    random = Random(f"test of opinions {seed}")

    def draw() -> tuple[str, str]:
        if random.random() < 2 / 3:
            return _pair(random, _template(random, TEST_TEMPLATES), random.sample((*THINGS, *TEST_THINGS), 2))
        things = random.choice(TEST_THINGS), random.choice(THINGS)
        return _pair(random, _template(random, TEMPLATES), things)

    return _rows(-(-rows // 4), random, draw)


def _rows(rows: int, random: Random, draw: Callable[[], tuple[str, str]]) -> list[tuple[str, str]]:
    """Different sentences from pairs of them, a positive and a negative one."""
    made: list[tuple[str, str]] = []
    seen = set(_KEPT_BACK)
    while len(made) < rows:
        pair = draw()
        if seen.isdisjoint(pair):
            seen.update(pair)
            made += zip(pair, LABELS, strict=True)
    made = made[:rows]
    random.shuffle(made)
    return made


def _template(random: Random, groups: Sequence[Sequence[str]]) -> str:
    """One of a group's, which is chosen by its share."""
    place, drawn = 0, random.random()
    while drawn >= SHARES[place] and place < len(groups) - 1:
        drawn -= SHARES[place]
        place += 1
    return random.choice(groups[place])


class _Phrases(SimpleNamespace):
    """A thing in a sentence, and a word for each place that a template may have for it."""

    def __format__(self, spec: str) -> str:
        return f"the {self.noun}"


_Filling = tuple[Thing, tuple[list[str], list[str]], tuple[str, str]]
"""A thing, two good and two bad words for it, a good and a bad verb."""


def _pair(random: Random, template: str, things: Sequence[Thing]) -> tuple[str, str]:
    """A positive and a negative sentence in the same words, wherever the template has as many good ones as bad."""
    first, second = (_filling(random, thing) for thing in things)
    very, (so, not_so) = random.choice(VERY), _forms(random)
    opener = random.choice(OPENERS) if random.random() < 0.12 else ""
    closer = random.choice(CLOSERS) if random.random() < 0.2 else ""

    def sentence(this: _Filling, other: _Filling, label: int) -> str:
        said = [_phrases(filling, label, so, not_so) for filling in (this, other)]
        core = template.format(this=said[0], other=said[1], very=very)
        whole = opener + core + closer
        return re.sub(r"\ba (?=[aeiou])", "an ", whole if len(whole.split()) <= LONGEST else core)

    turned = (second, first) if "{other" in template else (first, second)
    return sentence(first, second, 0), sentence(*turned, 1)


def _filling(random: Random, thing: Thing) -> _Filling:
    words = random.sample(thing.good, 2), random.sample(thing.bad, 2)
    return thing, words, (random.choice(VERBS_GOOD), random.choice(VERBS_BAD))


def _forms(random: Random) -> tuple[str, str]:
    """How `so` and `not_so` are said: by the word itself or, one of them at most, by denying its opposite."""
    drawn, denial = random.random(), random.choice(DENIALS)
    plain, other = random.choice(VERY) + "{}", random.choice(VERY) + "{}"
    return (denial, plain) if drawn < 0.25 else (plain, denial) if drawn < 0.45 else (plain, other)


def _phrases(filling: _Filling, label: int, so: str, not_so: str) -> _Phrases:
    thing, words, verbs = filling
    (yes, more), (no, _) = words[label], words[1 - label]
    return _Phrases(
        **LITTLE_WORDS[thing.number],
        one={"one": "one", "some": thing.noun, "many": "ones"}[thing.number],
        noun=thing.noun,
        yes=yes,
        more=more,
        no=no,
        so=so.format(no if so in DENIALS else yes),
        not_so=not_so.format(yes if not_so in DENIALS else no),
        verb_yes=verbs[label],
        verb_no=verbs[1 - label],
    )
