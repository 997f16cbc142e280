"""Short texts around a word of two meanings, made from a seed: which one is meant lies in the words that stand before.

All senses share their sentences; each has its own things and deeds. The word itself stands once in a text, and what it
does follows it: who guesses that must have found out what it means here.
"""

from collections.abc import Iterator, Sequence
from random import Random

from glassformer.data.datasets.dataset import load_facts

FACTS = load_facts("senses")
SENSES: dict[str, dict[str, tuple[str, str]]] = FACTS["senses"]
"""The senses of each word, the things that come with each sense, and what the word then does."""
VERBS: dict[str, dict[str, tuple[str, str]]] = FACTS["verbs"]
"""Senses in which the word is a verb: typical nouns of each, and endings of the sentence."""


def sense_rows(rows: int, seed: int, verbs: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield distinct texts, each with its ambiguous word and the sense of that word, such as bank/river.

    `verbs` 1 adds the sense bank/rely, in which *bank* is a verb: "they should not bank on the result".
    """
    random = Random(f"senses {seed}")
    seen: set[str] = set()
    while len(seen) < rows:
        word = random.choice(list(SENSES))
        senses = {**SENSES[word], **(VERBS.get(word, {}) if verbs else {})}
        sense = random.choice(list(senses))
        turns = FACTS["turns" if sense in SENSES[word] else "verb_turns"]
        text = _text(random, word, *senses[sense], turns=turns)
        if text not in seen:
            seen.add(text)
            yield text, word, f"{word}/{sense}"


def _text(random: Random, word: str, things: str, deeds: str, *, turns: Sequence[str]) -> str:
    a, b, c, d = random.sample(things.split(), 4)
    does = random.choice(deeds.split(", "))
    parts = (random.choice(FACTS["scenes"]), random.choice(turns), random.choice(FACTS["endings"]))
    who, when = FACTS["who"], FACTS["when"]
    filled = (
        part.format(a=a, b=b, c=c, d=d, word=word, does=does, who=random.choice(who), when=random.choice(when))
        for part in parts
    )
    return " ".join(filter(None, filled))
