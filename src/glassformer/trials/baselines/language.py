"""Unigram and n-gram models, for language modelling and for hidden tokens, scored on the same windows as models.

The n-grams have interpolated, modified Kneser–Ney smoothing: p(w | h) = (c(hw) − D(c(hw)) + γ(h) p(w | h')) / c(h·).
h' is h without its first token, and γ(h) is the sum of the discounts D over the tokens that followed h. In the highest
order c counts occurrences. In lower orders it counts the different tokens before hw (continuation counts), because a
shorter n-gram is used only where the longer one is new. Below the unigrams, all tokens are equally likely.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.packing.store import how_often
from glassformer.data.packing.windows import NOTHING
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling, MaskedModelling

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts if too few n-grams (of letters, for example) occur one, two, three or four times to estimate them."""


@dataclass(frozen=True)
class Counts:
    """Counts of the n-grams of one length."""

    counts: Ints
    """Count of each n-gram."""
    totals: Floats
    """Sum of the counts by history."""
    discounted: Floats
    """Sum of the discounts by history."""
    discounts: Floats
    """Discount of a count of 0, 1, 2, and 3 or more."""

    @staticmethod
    def of(counts: Ints, histories: Ints) -> "Counts":
        """Return the counts with their sums. `histories`: index of each n-gram's history."""
        discounts = discounts_of(counts)
        discounted = np.bincount(histories, discounts[np.minimum(counts, 3)])
        return Counts(counts, np.bincount(histories, counts).astype(float), discounted.astype(float), discounts)

    def interpolate(self, counts: Ints, histories: Ints, lower: Floats) -> Floats:
        """Return probabilities of n-grams with these counts and histories (−1: unknown).

        `lower`: their probabilities in the next lower order.
        """
        known = (histories >= 0) & (histories < len(self.totals))
        places = np.where(known, histories, 0)
        totals = np.where(known, self.totals[places], 0.0)
        share = (counts - self.discounts[np.minimum(counts, 3)] + self.discounted[places] * lower) / np.maximum(
            totals, 1.0
        )
        return np.where(totals > 0, share, lower)


@dataclass(frozen=True)
class Order:
    """All n-grams of one length. A key is the index of the history, times the vocabulary, plus the token."""

    keys: Ints
    """Sorted; the position of its key is the index of an n-gram, as longer n-grams refer to it."""
    occurrences: Counts
    continuations: Counts | None = None
    """Counts of the different tokens before each n-gram; None for the highest order."""


@dataclass
class KneserNey:
    """An n-gram model. START occurs in histories and is never predicted; n-grams do not cross documents."""

    vocab: int
    start: int | None
    orders: list[Order] = field(default_factory=list)

    @staticmethod
    def count(ids: Ints, vocab: int, start: int | None, highest: int) -> "KneserNey":
        """Count the n-grams of a text, of all lengths up to `highest`."""
        model = KneserNey(vocab, start)
        begins = np.zeros(0, bool)
        numbers = np.zeros(len(ids), np.int64)  # index of the n-gram that ends at each position; −1: none
        for length in range(1, highest + 1):
            before = _one_earlier(numbers, length)
            known = before >= 0 if length == 1 or start is None else (before >= 0) & (ids != start)
            places = np.flatnonzero(known)
            if not len(places):
                break
            keys, first, inverse, counts = np.unique(
                before[places] * vocab + ids[places], return_index=True, return_inverse=True, return_counts=True
            )
            firsts = places[first]
            if length > 1:
                model._count_continuations(numbers[firsts], begins)
            begins = np.zeros(len(keys), bool) if start is None else ids[firsts - length + 1] == start
            counts = np.where(keys == start, 0, counts) if length == 1 else counts
            model.orders.append(Order(keys, Counts.of(counts, keys // vocab)))
            numbers = np.full(len(ids), -1, np.int64)
            numbers[places] = inverse
        return model

    def _count_continuations(self, shorter: Ints, begins: NDArray[np.bool_]) -> None:
        """Count continuations in the longest order so far.

        `shorter`: each longer n-gram without its first token; `begins`: n-grams that begin with START, which nothing
        precedes, so that their occurrences count.
        """
        last = self.orders[-1]
        occurrences = last.occurrences.counts
        continuations = np.maximum(
            np.bincount(shorter, minlength=len(last.keys)), 1
        )  # nothing precedes the first token
        continuations = np.where(begins | (occurrences == 0), occurrences, continuations)
        self.orders[-1] = replace(last, continuations=Counts.of(continuations, last.keys // self.vocab))

    def probabilities(self, ids: Ints, reach: Ints) -> list[Floats]:
        """Return each token's probability in the models of each length, the shortest first.

        `reach`: number of tokens before each token that the model may see.
        """
        lower = np.full(len(ids), 1 / (self.vocab - (self.start is not None)))
        numbers = np.zeros(len(ids), np.int64)
        probabilities = []
        for length, order in enumerate(self.orders, 1):
            before = _one_earlier(numbers, length)
            keys = before * self.vocab + ids
            places = np.minimum(np.searchsorted(order.keys, keys), len(order.keys) - 1)
            known = (before >= 0) & (order.keys[places] == keys)
            histories = np.where(reach >= length - 1, before, -1)
            tables = [order.occurrences] if order.continuations is None else [order.occurrences, order.continuations]
            values = [table.interpolate(np.where(known, table.counts[places], 0), histories, lower) for table in tables]
            probabilities.append(values[0])
            lower = values[-1]
            numbers = np.where(known, places, -1)
        return probabilities

    def size(self, length: int) -> int:
        """Return the number of different n-grams up to this length."""
        return sum(len(order.keys) for order in self.orders[:length])


def _one_earlier(numbers: Ints, length: int) -> Ints:
    """Return the history of each token: the n-gram that ends before it; for single tokens the empty one, index 0."""
    return np.concatenate([[0 if length == 1 else -1], numbers[:-1]])[: len(numbers)]


def discounts_of(counts: Ints) -> Floats:
    """Estimate the discounts from the number of n-grams with counts of 1, 2, 3 and 4 (Chen and Goodman)."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if min(n1, n2, n3, n4) > 0:
        y = n1 / (n1 + 2 * n2)
        discounts = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        if all(0 < discount <= most for most, discount in enumerate(discounts, 1)):
            return np.array([0.0, *discounts])
    return np.array([0.0, *DEFAULT_DISCOUNTS])


# --- scores of a task ---

MAX_LENGTH = 6
"""Length of the longest n-grams; the validation part selects the length."""
MAX_COUNTED = 2**23
"""Maximum number of training tokens that are counted, which need a few hundred megabytes."""
MAX_VALIDATED = 2**18
"""Maximum number of validation tokens used to select the length."""

Probabilities = Callable[[Ints, Ints], Floats]
"""Function of the tokens and their reach (see `KneserNey.probabilities`) that returns each token's probability."""


def judge_unigrams(task: LanguageModelling, part: str, vocab: int) -> tuple[Evaluation, int]:
    """Evaluate token frequencies of the training part with add-one smoothing; return the number of tokens too."""
    counts = how_often(task.parts["train"].ids, vocab).astype(float) + 1
    if task.start is not None:
        counts[task.start] = 0.0
    shares = counts / counts.sum()
    return task.judge(part, records_of(task, part, lambda ids, _: shares[ids])), int((counts > 0).sum())


def judge_ngrams(task: LanguageModelling, part: str, vocab: int) -> tuple[Evaluation, int]:
    train = np.asarray(task.parts["train"].ids[:MAX_COUNTED], np.int64)
    model = KneserNey.count(train, vocab, task.start, MAX_LENGTH)
    length = best_length(model, task)
    records = records_of(task, part, lambda ids, reach: model.probabilities(ids, reach)[length - 1])
    return task.judge(part, records), model.size(length)


def coverage_note(task: LanguageModelling) -> str:
    """Return a remark if only the beginning of a long text was counted."""
    whole = len(task.parts["train"].ids)
    return f"counted the first {MAX_COUNTED:,} of {whole:,} tokens" if whole > MAX_COUNTED else ""


def best_length(model: KneserNey, task: LanguageModelling) -> int:
    """Return the length of the n-grams with the lowest loss on the validation part."""
    ids = np.asarray(task.parts["validation"].ids[:MAX_VALIDATED], np.int64)
    targets = _targets(task, ids)
    losses = [-np.log(values[targets]).sum() for values in model.probabilities(ids, _reach(task, len(ids)))]
    return int(np.argmin(losses)) + 1


def records_of(task: LanguageModelling, part: str, probabilities: Probabilities) -> list[dict[str, Any]]:
    """Return a record per window, as the evaluation of a model does; tokens before the window are not used."""
    ids = np.asarray(task.parts[part].ids, np.int64)
    targets = _targets(task, ids)
    losses = -np.log(np.where(targets, probabilities(ids, _reach(task, len(ids))), 1.0))
    return [
        {
            "start": counted + 1,
            "tokens": int(targets[counted + 1 : end + 1].sum()),
            "loss": float(losses[counted + 1 : end + 1].sum()),
            "covered": end - counted,
        }
        for _, end, counted in task.windows(len(ids))
    ]


def _reach(task: LanguageModelling, count: int) -> Ints:
    """Return, for each of `count` tokens, the number of tokens before it in its window."""
    reach = np.zeros(count, np.int64)
    for begin, end, counted in task.windows(count):
        reach[counted + 1 : end + 1] = np.arange(counted + 1, end + 1) - begin
    return reach


def _targets(task: LanguageModelling, ids: Ints) -> NDArray[np.bool_]:
    """Return a mask of the tokens to predict: all but the first and START."""
    targets = np.arange(len(ids)) > 0
    return targets if task.start is None else targets & (ids != task.start)


def judge_hidden(task: MaskedModelling, part: str) -> tuple[Evaluation, int]:
    """Evaluate token frequencies of the training part, with add-one smoothing, as a guess of every hidden token."""
    masking, ids = task.masking, task.parts[part].ids
    counts = np.zeros(masking.size)
    counts[masking.ordinary] = how_often(task.parts["train"].ids, masking.size)[masking.ordinary] + 1
    shares, most_frequent = counts / counts.sum(), int(counts.argmax())
    records = []
    for begin, end, counted in task.windows(len(ids)):
        _, answers = masking.to_evaluate(np.asarray(ids[begin:end], np.int64), begin)
        answers = answers[counted - begin :]
        hidden = answers[answers != NOTHING]
        records.append(
            {
                "start": counted,
                "tokens": len(hidden),
                "loss": float(-np.log(shares[hidden]).sum()),
                "right": int((hidden == most_frequent).sum()),
                "covered": end - counted,
            }
        )
    return task.judge(part, records), len(masking.ordinary)
