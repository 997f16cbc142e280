"""The words and lengths of texts that are wrong: what stands in them more often than in the rest."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.features.texts import Sequences
from glassformer.error_analysis.finding import CHANCE, ErrorFinding, percent
from glassformer.error_analysis.groups import among_errors, difference_p, error_rates, quartiles
from glassformer.rendering.panels import Cell, Rows, Table, Words
from glassformer.statistics.overrepresentation import Overrepresentation, over_represented
from glassformer.text.display import cut
from glassformer.text.tokenizer import Tokenizer

WORD = re.compile(r"\w+(?:['’]\w+)*")
LEAST = 5
"""Texts that a word must stand in to be looked at."""
MOST_LOOKED_AT = 20_000
"""Words that are looked at, the most frequent ones."""
MOST_SHOWN = 12
RARE = 5
"""A word seen fewer times than this in training is rare."""


def words_in(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return WORD.findall(text.lower())


def lengths_of(texts: Sequence[str]) -> tuple[NDArray[np.float64], str]:
    """How long each text is, in words, or where a text is one word in characters; and which of the two."""
    words = np.array([len(WORD.findall(text)) for text in texts], float)
    if len(words) and np.median(words) >= 2:
        return words, "words"
    return np.array([len(text) for text in texts], float), "characters"


def errors_by_length(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """The error rate of short and long texts, by quarter."""
    lengths, unit = lengths_of(texts)
    panels = error_rates("Errors by length", quartiles(unit, lengths), wrong, noun).panels
    mistakes, rest = lengths[wrong], lengths[~wrong]
    if not len(mistakes) or not len(rest) or difference_p(mistakes, rest) >= CHANCE:
        return ErrorFinding(panels)
    than = "longer" if mistakes.mean() > rest.mean() else "shorter"
    return ErrorFinding(
        panels, f"Errors are {than}: {mistakes.mean():.3g} {unit} on average against {rest.mean():.3g}."
    )


def over_represented_words(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """Words that stand in texts taken wrongly more often than in the rest, each counted once a text."""
    title = "Words over-represented among errors"
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    if not errors or not rest:
        which = f"None of the {rest:,} {noun}s is wrong" if not errors else f"All {errors:,} {noun}s are wrong"
        return ErrorFinding([Words(title=title, text=f"{which}: there is nothing to set the words of errors against.")])
    here, there = Counter[str](), Counter[str]()
    for text, mistaken in zip(texts, wrong.tolist(), strict=True):
        (here if mistaken else there).update(set(words_in(text)))
    often = Counter({word: count for word, count in (here + there).items() if count >= LEAST})
    looked_at = [word for word, _ in often.most_common(MOST_LOOKED_AT)]
    if not looked_at:
        return ErrorFinding([Words(title=title, text=f"No word stands in {LEAST} {noun}s or more.")])
    over = over_represented(
        {word: here[word] for word in looked_at}, {word: there[word] for word in looked_at}, errors, rest
    )
    top = [row for row in over if row.lift > 1 and row.in_errors][:MOST_SHOWN]
    rows = [_trait_row(cut(row.name, 40), row, errors, rest) for row in top]
    sure = [row for row in top if row.holm < CHANCE]
    if not sure:
        heard = f"None of the {len(looked_at):,} words seen in {LEAST} {noun}s or more is there more often than chance."
    else:
        heard = f"{len(sure)} of the {len(looked_at):,} words seen in {LEAST} {noun}s or more: more often than chance."
    note = (
        f"{heard} Chance: how often a word would stand in so many errors by chance alone, corrected for looking "
        "at all of them (Fisher, Holm)."
    )
    table = _trait_table(title, "word", rows, noun, note)
    if not sure:
        return ErrorFinding([table])
    best = sure[0]
    return ErrorFinding(
        [table],
        f"Of the {len(looked_at):,} words seen in {LEAST} {noun}s or more, “{best.name}” stands in "
        f"{percent(best.in_errors / errors)} of errors against {percent((best.in_all - best.in_errors) / rest)} of the "
        "rest.",
    )


def _trait_row(name: str, row: Overrepresentation, errors: int, rest: int) -> list[Cell]:
    of_rest = (row.in_all - row.in_errors) / rest if rest else None
    shares = [row.in_errors / errors, of_rest, row.rate.value, row.rate.low, row.rate.high, row.holm]
    return [name, row.in_errors, row.in_all, *shares]


def _trait_table(title: str, first: str, rows: Rows, noun: str, note: str) -> Table:
    columns = [first, "wrong", f"{noun}s", "of errors", "of the rest", "error rate", "from", "to", "chance"]
    return Table(title=title, columns=columns, rows=rows, bars=("of errors", "of the rest", "error rate"), note=note)


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in the texts that were learned from."""
    return Counter(word for text in texts for word in words_in(text))


def unknown_tokens(tokens: Sequences, tokenizer: Tokenizer | None) -> NDArray[np.int64] | None:
    """How many tokens of each text the tokenizer does not know; None where it knows every text."""
    if tokenizer is None or tokenizer.unk is None:
        return None
    sums = np.append(0, np.cumsum(tokens.ids == tokenizer.unk))
    return np.asarray(sums[tokens.starts[1:]] - sums[tokens.starts[:-1]])


def rare_and_unknown(
    texts: Sequence[str],
    wrong: Bool[Array, " N"],
    noun: str,
    *,
    unknown: Int[Array, " N"] | None,
    seen: Mapping[str, int] | None,
) -> ErrorFinding:
    """How many errors hold a token that the tokenizer does not know, or a word that training never or hardly had.

    `unknown`: such tokens of each text, where there can be any. `seen`: how often training had each word, where the
    data is still there.
    """
    traits: dict[str, NDArray[np.bool_]] = {}
    if unknown is not None:
        traits["a token unknown to the tokenizer"] = np.asarray(unknown) > 0
    if seen is not None:
        fewest = np.array([min((seen.get(word, 0) for word in words_in(text)), default=RARE) for text in texts])
        traits["a word never seen in training"] = fewest == 0
        traits[f"a word seen fewer than {RARE} times in training"] = fewest < RARE
    return errors_by_trait("Rare and unknown words in errors", traits, wrong, noun)


def errors_by_trait(
    title: str, traits: Mapping[str, NDArray[np.bool_]], wrong: Bool[Array, " N"], noun: str
) -> ErrorFinding:
    """The share among errors, against the rest, of what examples have or have not."""
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    if not traits or not errors:
        return ErrorFinding()
    over = among_errors(traits, wrong)
    by_name = {row.name: row for row in over}
    rows: Rows = [
        _trait_row(name, by_name[name], errors, rest)
        if name in by_name
        else [name, 0, 0, 0.0, 0.0, None, None, None, None]
        for name in traits
    ]
    note = (
        f"Error rate: of the {noun}s that have it, with its interval. Chance: how often it would be in so many "
        "errors by chance alone."
    )
    table = _trait_table(title, "it has", rows, noun, note)
    if not over or over[0].holm >= CHANCE or not rest:
        return ErrorFinding([table])
    return ErrorFinding(
        [table],
        f"{percent(over[0].in_errors / errors)} of the errors have {over[0].name}, against "
        f"{percent((over[0].in_all - over[0].in_errors) / rest)} of the rest.",
    )
