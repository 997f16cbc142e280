"""Opinions on restaurants, generated from a seed. Their meaning depends on the order of the words."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

from glassformer.data.datasets.dataset import load_facts


@dataclass(frozen=True)
class Thing:
    """A subject of opinions, and the adjectives that fit it."""

    noun: str
    number: str
    """one, some (uncountable) or many."""
    good: tuple[str, ...]
    bad: tuple[str, ...]


FACTS = load_facts("opinions")


def _things(nouns: str) -> tuple[Thing, ...]:
    """Return the things with the nouns that are listed under this key."""
    return tuple(
        Thing(noun, kind["number"], *(_adjectives(FACTS["groups"][kind["group"]], side) for side in ("good", "bad")))
        for kind in FACTS["kinds"]
        for noun in kind.get(nouns, "").split()
    )


def _adjectives(group: dict[str, Any], side: str) -> tuple[str, ...]:
    common = "" if group.get("alone") else FACTS["adjectives"][side]
    return tuple(f"{common} {group[side]}".split())


THINGS = _things("nouns")
TEST_THINGS = _things("test_nouns")
DENIALS = tuple(FACTS["denials"])
LABELS = ("positive", "negative")
MAX_WORDS = 30
"""Maximum number of words in a sentence."""
SHARES = (0.3, 0.1, 0.35, 0.25)
"""Share of the sentences that each group of templates makes."""
TEMPLATES, TEST_TEMPLATES = (tuple(FACTS["templates"][part].values()) for part in ("training", "test"))
ORDER_PAIRS = [tuple(zip(pair, LABELS, strict=True)) for pair in FACTS["order_pairs"]]
"""Sentences with their labels, in pairs that only order tells apart. None of them is in the data."""
_KEPT_BACK = {sentence for pair in ORDER_PAIRS for sentence, _ in pair}


def opinion_rows(rows: int, seed: int) -> list[tuple[str, str]]:
    """Return training sentences with their labels, half of them positive."""
    random = Random(f"opinions {seed}")
    return _rows(rows, random, lambda: _pair(random, _template(random, TEMPLATES), random.sample(THINGS, 2)))


def opinion_test_rows(rows: int, seed: int) -> list[tuple[str, str]]:
    """Return a quarter as many test sentences: two of three in other templates, one about other things."""
    random = Random(f"test of opinions {seed}")

    def draw() -> tuple[str, str]:
        if random.random() < 2 / 3:
            return _pair(random, _template(random, TEST_TEMPLATES), random.sample((*THINGS, *TEST_THINGS), 2))
        things = random.choice(TEST_THINGS), random.choice(THINGS)
        return _pair(random, _template(random, TEMPLATES), things)

    return _rows(-(-rows // 4), random, draw)


def _rows(rows: int, random: Random, draw: Callable[[], tuple[str, str]]) -> list[tuple[str, str]]:
    """Return distinct sentences from pairs of a positive and a negative sentence."""
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
    """Return a template of a group that is chosen by its share."""
    place, drawn = 0, random.random()
    while drawn >= SHARES[place] and place < len(groups) - 1:
        drawn -= SHARES[place]
        place += 1
    return random.choice(groups[place])


class _Phrases(SimpleNamespace):
    """A thing in a sentence, and a word for each field of a template."""

    def __format__(self, spec: str) -> str:
        return f"the {self.noun}"


_Filling = tuple[Thing, tuple[list[str], list[str]], tuple[str, str]]
"""A thing, two good and two bad words for it, a good and a bad verb."""


def _pair(random: Random, template: str, things: Sequence[Thing]) -> tuple[str, str]:
    """Return a positive and a negative sentence, with the same words if the template allows it."""
    first, second = (_filling(random, thing) for thing in things)
    very, (so, not_so) = random.choice(FACTS["very"]), _forms(random)
    opener = random.choice(FACTS["openers"]) if random.random() < 0.12 else ""
    closer = random.choice(FACTS["closers"]) if random.random() < 0.2 else ""

    def sentence(this: _Filling, other: _Filling, label: int) -> str:
        phrases = [_phrases(filling, label, so, not_so) for filling in (this, other)]
        core = template.format(this=phrases[0], other=phrases[1], very=very)
        whole = opener + core + closer
        return re.sub(r"\ba (?=[aeiou])", "an ", whole if len(whole.split()) <= MAX_WORDS else core)

    turned = (second, first) if "{other" in template else (first, second)
    return sentence(first, second, 0), sentence(*turned, 1)


def _filling(random: Random, thing: Thing) -> _Filling:
    words = random.sample(thing.good, 2), random.sample(thing.bad, 2)
    return thing, words, (random.choice(FACTS["verbs_good"]), random.choice(FACTS["verbs_bad"]))


def _forms(random: Random) -> tuple[str, str]:
    """Return the forms of `so` and `not_so`: the word itself or, for at most one of them, the denied opposite."""
    drawn, denial = random.random(), random.choice(DENIALS)
    plain, other = random.choice(FACTS["very"]) + "{}", random.choice(FACTS["very"]) + "{}"
    return (denial, plain) if drawn < 0.25 else (plain, denial) if drawn < 0.45 else (plain, other)


def _phrases(filling: _Filling, label: int, so: str, not_so: str) -> _Phrases:
    thing, words, verbs = filling
    (yes, more), (no, _) = words[label], words[1 - label]
    return _Phrases(
        **FACTS["little_words"][thing.number],
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
