"""Traits of wrong examples (lengths, words and columns), with tests of their significance."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.columns.heuristics import hold_numbers, number_in
from glassformer.data.features.inputs import Features
from glassformer.data.features.texts import Sequences
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted
from glassformer.error_analysis.finding import MAX_ERRORS, SIGNIFICANCE, ErrorFinding, ends, percent, sentence, span
from glassformer.families.schema import table_in
from glassformer.rendering.panels import Rows, Table, Words
from glassformer.statistics.intervals import weighted_mean_interval
from glassformer.statistics.significance import Overrepresentation, difference_p, over_represented
from glassformer.text.display import cut
from glassformer.text.tokenizer import Tokenizer

MAX_VALUES = 12
"""Maximum number of values of a category column; the most frequent ones are shown."""
MAX_VALUE_CHARS = 40
"""Maximum number of characters of a value or word."""
WORD = re.compile(r"\w+(?:['’]\w+)*")
MIN_TEXTS = 5
"""Minimum number of texts with a word."""
RARE_BELOW = 5
"""Number of occurrences in training below which a word is rare."""


# --- groups ---


@dataclass(frozen=True, eq=False)
class Group:
    """Examples with a common trait."""

    of: str
    """The trait: the length, a column."""
    name: str
    rows: NDArray[np.bool_]
    """True for the examples of the group, at least one."""

    @property
    def size(self) -> int:
        return int(self.rows.sum())


def quartiles(of: str, values: Float[Array, " N"]) -> list[Group]:
    """Return up to four groups from the smallest values to the largest; equal values are in one group, NaN in none."""
    known = values[~np.isnan(values)]
    different = np.unique(known)
    borders = different
    if len(different) > 4:
        borders = np.unique(np.append(np.quantile(known, [0.25, 0.5, 0.75], method="lower"), different[0]))
    place = np.searchsorted(borders, values, side="right")
    groups = []
    for number in range(1, len(borders) + 1):
        rows = (place == number) & ~np.isnan(values)
        low, high = float(values[rows].min()), float(values[rows].max())
        groups.append(Group(of, f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}", rows))
    return groups


def value_groups(of: str, values: Sequence[str]) -> list[Group]:
    """Return a group for each of the most frequent values."""
    column = np.array(values, dtype=object)
    common = Counter(values).most_common(MAX_VALUES)
    return [Group(of, cut(value, MAX_VALUE_CHARS) or "(empty)", column == value) for value, _ in common]


def column_groups(features: Features | None, part: Labelled) -> list[Group]:
    """Return the quartiles of number columns and the values of category columns, as the run reads them."""
    table, groups = table_in(features), list[Group]()
    for name, values in (part.columns if table is None else table.cells(part.columns)).items():
        if hold_numbers(values):
            groups += quartiles(name, np.array([number_in(value) for value in values], float))
        else:
            groups += value_groups(name, [value.strip() for value in values])
    return groups


def error_rates(title: str, groups: Sequence[Group], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """Return the error rate of each group with Wilson's interval, and a sentence if one is significantly larger."""
    if not groups:
        return ErrorFinding()
    mean = percent(float(wrong.mean()))
    names = {f"{place}": group for place, group in enumerate(groups)}
    over = among_errors({name: group.rows for name, group in names.items()}, wrong)
    first, labels = _labels(groups)
    table = Table(
        title=title,
        columns=[*first, f"{noun}s", "wrong", "error rate", "from", "to", "chance"],
        rows=[
            [*label, row.in_all, row.in_errors, row.rate.value, row.rate.low, row.rate.high, row.holm]
            for label, row in zip(labels, (over[name] for name in names), strict=True)
        ],
        bars=("error rate",),
        note=sentence("rates: note", mean=mean),
    )
    worst = next(iter(over.values()))
    if worst.holm >= SIGNIFICANCE:
        return ErrorFinding([table])
    facts = {"rate": percent(worst.rate.value), "span": span(worst.rate), "examples": counted(len(wrong), noun)}
    return ErrorFinding([table], sentence("rates", group=names[worst.name], mean=mean, noun=noun, **facts))


def among_errors(rows: Mapping[str, NDArray[np.bool_]], wrong: Bool[Array, " N"]) -> dict[str, Overrepresentation]:
    """Return the error rate of each kind of examples, the most significant first; empty kinds are left out."""
    wrong_counts = {name: int((chosen & wrong).sum()) for name, chosen in rows.items()}
    other_counts = {name: int((chosen & ~wrong).sum()) for name, chosen in rows.items()}
    return over_represented(wrong_counts, other_counts, int(wrong.sum()), int((~wrong).sum()))


def means(title: str, groups: Sequence[Group], values: Float[Array, " N"], noun: str, measured: str) -> ErrorFinding:
    """Return the mean of each group with its interval over examples, and name the group that differs most."""
    if not groups:
        return ErrorFinding()
    first, labels = _labels(groups)
    intervals = [weighted_mean_interval(values[group.rows]) for group in groups]
    rows: Rows = [
        [*label, group.size, interval.value, *ends(interval)]
        for label, group, interval in zip(labels, groups, intervals, strict=True)
    ]
    columns = [*first, f"{noun}s", measured, "from", "to"]
    table = Table(title=title, columns=columns, rows=rows, note=sentence("means: note"))
    p_values = [difference_p(values[group.rows], values[~group.rows]) * len(groups) for group in groups]
    mean = float(values.mean())
    significant = [place for place, p in enumerate(p_values) if p < SIGNIFICANCE]
    if not significant:
        return ErrorFinding([table])
    farthest = max(significant, key=lambda place: abs(intervals[place].value - mean))
    facts = {"group": groups[farthest], "here": intervals[farthest].value, "all": mean, "measured": measured}
    return ErrorFinding([table], sentence("means: group", **facts))


def _labels(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Return the headings of the first columns of a table, and their cells for each group."""
    if len({group.of for group in groups}) == 1:
        return [groups[0].of], [[group.name] for group in groups]
    return ["column", "value"], [[group.of, group.name] for group in groups]


# --- lengths and words ---


def words_in(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def lengths_of(texts: Sequence[str]) -> tuple[NDArray[np.float64], str]:
    """Return the length of each text and its unit: words, or characters if most texts are one word."""
    words = np.array([len(WORD.findall(text)) for text in texts], float)
    if len(words) and np.median(words) >= 2:
        return words, "words"
    return np.array([len(text) for text in texts], float), "characters"


def errors_by_length(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """Return the error rate by quartile of length."""
    lengths, unit = lengths_of(texts)
    return error_rates("Errors by length", quartiles(unit, lengths), wrong, noun)


def over_represented_words(texts: Sequence[str], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """Find words that are in wrong texts more often than in the rest, each counted once per text."""
    title = "Words over-represented among errors"
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    if not errors or not rest:
        return ErrorFinding([Words(title=title, text=sentence("words: no errors"))])
    in_errors, in_rest = Counter[str](), Counter[str]()
    for text, mistaken in zip(texts, wrong.tolist(), strict=True):
        (in_errors if mistaken else in_rest).update(set(words_in(text)))
    counted_words = [word for word, count in (in_errors + in_rest).items() if count >= MIN_TEXTS]
    if not counted_words:
        return ErrorFinding([Words(title=title, text=sentence("words: rare", least=MIN_TEXTS, noun=noun))])
    over = over_represented(
        {word: in_errors[word] for word in counted_words}, {word: in_rest[word] for word in counted_words}, errors, rest
    )
    top = [row for row in over.values() if row.lift > 1 and row.in_errors][:MAX_ERRORS]
    sure = [row for row in top if row.holm < SIGNIFICANCE]
    words = f"the {len(counted_words):,} words seen in {MIN_TEXTS} {noun}s or more"
    rows: Rows = []
    for row in top:
        shares = [row.in_errors / errors, (row.in_all - row.in_errors) / rest]
        rate = [row.rate.value, row.rate.low, row.rate.high, row.holm]
        rows.append([cut(row.name, MAX_VALUE_CHARS), row.in_errors, row.in_all, *shares, *rate])
    table = Table(
        title=title,
        columns=["word", "wrong", f"{noun}s", "of errors", "of the rest", "error rate", "from", "to", "chance"],
        rows=rows,
        bars=("of errors", "of the rest", "error rate"),
        note=sentence("words: note", significant=len(sure) or "None", words=words),
    )
    if not sure:
        return ErrorFinding([table])
    best = sure[0]
    facts = {"errors": percent(best.in_errors / errors), "rest": percent((best.in_all - best.in_errors) / rest)}
    return ErrorFinding([table], sentence("words", words=words, name=best.name, **facts))


def unknown_tokens(tokens: Sequences, tokenizer: Tokenizer | None) -> NDArray[np.int64] | None:
    """Return the number of unknown tokens of each text; None if the tokenizer can encode every text."""
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
    train: Iterable[str] | None,
) -> ErrorFinding:
    """Return the error rates of texts with unknown tokens, or with words that are rare in training.

    `unknown`: number of unknown tokens of each text, if there can be any. `train`: the training texts, if available.
    """
    traits: dict[str, NDArray[np.bool_]] = {}
    if unknown is not None:
        traits["a token unknown to the tokenizer"] = unknown > 0
    if train is not None:
        seen = Counter(word for text in train for word in words_in(text))
        fewest = np.array([min((seen[word] for word in words_in(text)), default=RARE_BELOW) for text in texts])
        traits["a word never seen in training"] = fewest == 0
        traits[f"a word seen fewer than {RARE_BELOW} times in training"] = fewest < RARE_BELOW
    groups = [Group("contains", name, rows) for name, rows in traits.items() if rows.any()]
    return error_rates("Rare and unknown words in errors", groups, wrong, noun)
