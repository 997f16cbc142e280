"""The words and lengths of texts that are wrong: what stands in them more often than in the rest."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.error_analysis.finding import CHANCE, Found, Rows, percent
from glassformer.error_analysis.groups import apart, error_rates, quarters
from glassformer.rendering.panels import Table, Words
from glassformer.statistics.overrepresentation import over_represented
from glassformer.text.display import cut

WORD = re.compile(r"\w+(?:['’]\w+)*")
LEAST = 5
"""Texts that a word must stand in to be looked at."""
MOST_LOOKED_AT = 20_000
"""Words, the most frequent ones."""
MOST_SHOWN = 12
RARE = 5
"""A word seen fewer times than this in training is rare."""


def words_of(text: str) -> list[str]:
    """Lower-cased."""
    return WORD.findall(text.lower())


def lengths_of(texts: Sequence[str]) -> tuple[NDArray[np.float64], str]:
    """In words, or where a text is one word in characters; and which of the two."""
    words = np.array([len(WORD.findall(text)) for text in texts], float)
    if len(words) and np.median(words) >= 2:
        return words, "words"
    return np.array([len(text) for text in texts], float), "characters"


def by_length(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> Found:
    """The error rate of short and long texts, by quarter."""
    lengths, unit = lengths_of(texts)
    found = error_rates("Errors by length", quarters(unit, lengths), wrong, noun)
    mistakes, rest = lengths[wrong], lengths[~wrong]
    if not len(mistakes) or not len(rest) or apart(mistakes, rest) >= CHANCE:
        return Found(found.panels)
    than = "longer" if mistakes.mean() > rest.mean() else "shorter"
    said = f"Errors are {than}: {mistakes.mean():.3g} {unit} on average against {rest.mean():.3g}."
    return Found(found.panels, said)


def over_represented_words(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> Found:
    """Words that stand in texts taken wrongly more often than in the rest, each counted once a text."""
    title = "Words over-represented among errors"
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    if not errors or not rest:
        which = f"None of the {rest:,} {noun}s is wrong" if not errors else f"All {errors:,} {noun}s are wrong"
        return Found([Words(title=title, text=f"{which}: there is nothing to set the words of errors against.")])
    here, there = Counter[str](), Counter[str]()
    for text, mistaken in zip(texts, wrong.tolist(), strict=True):
        (here if mistaken else there).update(set(words_of(text)))
    often = Counter({word: count for word, count in (here + there).items() if count >= LEAST})
    looked_at = [word for word, _ in often.most_common(MOST_LOOKED_AT)]
    if not looked_at:
        return Found([Words(title=title, text=f"No word stands in {LEAST} {noun}s or more.")])
    over = over_represented(
        {word: here[word] for word in looked_at}, {word: there[word] for word in looked_at}, errors, rest
    )
    shown = [row for row in over if row.lift > 1 and row.in_errors][:MOST_SHOWN]
    rows: Rows = []
    for row in shown:
        of_errors, of_rest = row.in_errors / errors, (row.in_all - row.in_errors) / rest
        counts = [row.in_errors, row.in_all, of_errors, of_rest]
        rows.append([cut(row.name, 40), *counts, row.rate.value, row.rate.low, row.rate.high, row.holm])
    sure = [row for row in shown if row.holm < CHANCE]
    if not sure:
        heard = f"None of the {len(looked_at):,} words seen in {LEAST} {noun}s or more is there more often than chance."
    else:
        heard = f"{len(sure)} of the {len(looked_at):,} words seen in {LEAST} {noun}s or more: more often than chance."
    table = Table(
        title=title,
        columns=["word", "wrong", f"{noun}s", "of errors", "of the rest", "error rate", "from", "to", "chance"],
        rows=rows,
        bars=("of errors", "of the rest", "error rate"),
        note=f"{heard} Chance: how often a word would stand in so many errors by chance alone, corrected for looking "
        "at all of them (Fisher, Holm).",
    )
    if not sure:
        return Found([table])
    best = sure[0]
    said = (
        f"Of the {len(looked_at):,} words seen in {LEAST} {noun}s or more, “{best.name}” stands in "
        f"{percent(best.in_errors / errors)} of errors against {percent((best.in_all - best.in_errors) / rest)} of the "
        "rest."
    )
    return Found([table], said)


def counts_of(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in the texts that were learned from."""
    counts = Counter[str]()
    for text in texts:
        counts.update(words_of(text))
    return counts


def rare_and_unknown(
    texts: Sequence[str],
    wrong: Bool[Array, " N"],
    noun: str,
    *,
    unknown: Int[Array, " N"] | None,
    seen: Mapping[str, int] | None,
) -> Found:
    """How many errors hold a token that the tokenizer does not know, or a word that training never or hardly had.

    `unknown`: such tokens of each text, where there can be any. `seen`: how often training had each word, where the
    data is still there.
    """
    traits: dict[str, NDArray[np.bool_]] = {}
    if unknown is not None:
        traits["a token unknown to the tokenizer"] = np.asarray(unknown) > 0
    if seen is not None:
        fewest = [min((seen.get(word, 0) for word in words_of(text)), default=RARE) for text in texts]
        traits["a word never seen in training"] = np.array([count == 0 for count in fewest], bool)
        traits[f"a word seen fewer than {RARE} times in training"] = np.array([count < RARE for count in fewest], bool)
    return trait_rates("Rare and unknown words in errors", traits, wrong, noun)


def trait_rates(title: str, traits: Mapping[str, NDArray[np.bool_]], wrong: Bool[Array, " N"], noun: str) -> Found:
    """Of what examples have or have not: its share among errors against the rest."""
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    if not traits or not errors:
        return Found()
    over = over_represented(
        {name: int((rows & wrong).sum()) for name, rows in traits.items()},
        {name: int((rows & ~wrong).sum()) for name, rows in traits.items()},
        errors,
        rest,
    )
    found = {row.name: row for row in over}
    rows: Rows = []
    for name in traits:
        if name not in found:
            rows.append([name, 0, 0, 0.0, 0.0, None, None, None, None])
            continue
        row = found[name]
        of_rest = (row.in_all - row.in_errors) / rest if rest else None
        shares = [row.in_errors / errors, of_rest, row.rate.value, row.rate.low, row.rate.high, row.holm]
        rows.append([name, row.in_errors, row.in_all, *shares])
    table = Table(
        title=title,
        columns=["it has", "wrong", f"{noun}s", "of errors", "of the rest", "error rate", "from", "to", "chance"],
        rows=rows,
        bars=("of errors", "of the rest", "error rate"),
        note=f"Error rate: of the {noun}s that have it, with its interval. Chance: how often it would be in so many "
        "errors by chance alone.",
    )
    if not over or over[0].holm >= CHANCE or not rest:
        return Found([table])
    worst = over[0]
    said = (
        f"{percent(worst.in_errors / errors)} of the errors have {worst.name}, against "
        f"{percent((worst.in_all - worst.in_errors) / rest)} of the rest."
    )
    return Found([table], said)
