"""Counting tokens as a language model, or as a guess of those that are hidden: judged window by window, on what a model
is asked there, with what it sees.

The n-grams have interpolated, modified Kneser–Ney smoothing: p(w | h) = (c(hw) − D(c(hw)) + γ(h) p(w | h')) / c(h·),
where h' is h without its first token, and γ(h) is all that the discounts D took from what followed h. In the highest
order c counts occurrences; below, how many different tokens stood before hw, since a shorter n-gram is asked only where
the longer one is new. Beneath all, every token is alike.
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

USUAL = (0.5, 1.0, 1.5)
"""Discounts where there are too few n-grams seen once, twice, three or four times to tell: of letters, say."""


@dataclass(frozen=True)
class Counts:
    """What was counted of n-grams of one length."""

    counts: Ints
    """How often each n-gram occurs."""
    totals: Floats
    """The sum, by history, over all that followed it."""
    given: Floats
    """What the discounts took of that sum, by history."""
    discounts: Floats
    """What is taken of a count of 0, 1, 2, and 3 or more."""

    @staticmethod
    def of(counts: Ints, histories: Ints) -> "Counts":
        """`histories`: the number of each n-gram's history."""
        discounts = discounts_of(counts)
        taken = np.bincount(histories, discounts[np.minimum(counts, 3)])
        return Counts(counts, np.bincount(histories, counts).astype(float), taken.astype(float), discounts)

    def mixed(self, counts: Ints, histories: Ints, lower: Floats) -> Floats:
        """Probabilities of n-grams with these counts and histories (−1: unknown). `lower`: what shorter ones say."""
        known = (histories >= 0) & (histories < len(self.totals))
        places = np.where(known, histories, 0)
        totals = np.where(known, self.totals[places], 0.0)
        share = (counts - self.discounts[np.minimum(counts, 3)] + self.given[places] * lower) / np.maximum(totals, 1.0)
        return np.where(totals > 0, share, lower)


@dataclass(frozen=True)
class Order:
    """All n-grams of one length. A key is the number of an n-gram's history, times the vocabulary, plus its token."""

    keys: Ints
    """Sorted; the place of its key is an n-gram's number, by which longer ones know it as their history."""
    occurrences: Counts
    company: Counts | None = None
    """Counts of how many different tokens stood before; None: of the highest order, nobody asks."""


@dataclass
class KneserNey:
    """n-grams reach into no other document; START is met in histories, and never an answer."""

    vocab: int
    start: int | None
    orders: list[Order] = field(default_factory=list)

    @staticmethod
    def count(ids: Ints, vocab: int, start: int | None, highest: int) -> "KneserNey":
        """Count the n-grams of a text, of all lengths up to the highest."""
        model = KneserNey(vocab, start)
        begins = np.zeros(0, bool)
        numbers = np.zeros(len(ids), np.int64)  # of the n-gram that ends at each place; −1: none
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
                model._tell_company(numbers[firsts], begins)
            begins = np.zeros(len(keys), bool) if start is None else ids[firsts - length + 1] == start
            counts = np.where(keys == start, 0, counts) if length == 1 else counts
            model.orders.append(Order(keys, Counts.of(counts, keys // vocab)))
            numbers = np.full(len(ids), -1, np.int64)
            numbers[places] = inverse
        return model

    def _tell_company(self, shorter: Ints, begins: NDArray[np.bool_]) -> None:
        """Count the company of the longest order so far. `shorter`: each longer n-gram without its first token;
        `begins`: with START, before which nothing can stand: of these, occurrences count.
        """
        last = self.orders[-1]
        occurrences = last.occurrences.counts
        company = np.maximum(np.bincount(shorter, minlength=len(last.keys)), 1)  # the very first token has none
        company = np.where(begins | (occurrences == 0), occurrences, company)
        self.orders[-1] = replace(last, company=Counts.of(company, last.keys // self.vocab))

    def probabilities(self, ids: Ints, reach: Ints) -> list[Floats]:
        """Each token's probability in models of length 1, 2 … `reach`: how many tokens before it may be seen."""
        lower = np.full(len(ids), 1 / (self.vocab - (self.start is not None)))
        numbers = np.zeros(len(ids), np.int64)
        probabilities = []
        for length, order in enumerate(self.orders, 1):
            before = _one_earlier(numbers, length)
            keys = before * self.vocab + ids
            places = np.minimum(np.searchsorted(order.keys, keys), len(order.keys) - 1)
            met = (before >= 0) & (order.keys[places] == keys)
            seen = np.where(reach >= length - 1, before, -1)
            probabilities.append(
                order.occurrences.mixed(np.where(met, order.occurrences.counts[places], 0), seen, lower)
            )
            if order.company is not None:
                lower = order.company.mixed(np.where(met, order.company.counts[places], 0), seen, lower)
            numbers = np.where(met, places, -1)
        return probabilities

    def size(self, length: int) -> int:
        """How many n-grams up to this length were counted."""
        return sum(len(order.keys) for order in self.orders[:length])


def _one_earlier(numbers: Ints, length: int) -> Ints:
    """The history of each token: the n-gram that ends before it. A single token has the empty one, number 0."""
    return np.concatenate([[0 if length == 1 else -1], numbers[:-1]])[: len(numbers)]


def discounts_of(counts: Ints) -> Floats:
    """Discounts of a count of 0, 1, 2, and 3 or more, by how many n-grams have one of 1, 2, 3 and 4 (Chen, Goodman)."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if min(n1, n2, n3, n4) > 0:
        y = n1 / (n1 + 2 * n2)
        discounts = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        if all(0 < discount <= most for most, discount in enumerate(discounts, 1)):
            return np.array([0.0, *discounts])
    return np.array([0.0, *USUAL])


# --- how a task judges what was counted ---

HIGHEST = 6
"""The longest n-grams tried; the validation part chooses among these and shorter ones."""
MOST_COUNTED = 2**23
"""Tokens of the training part that are counted: what a few hundred megabytes hold."""
MOST_TRIED = 2**18
"""Tokens of the validation part on which the length is chosen."""

Probabilities = Callable[[Ints, Ints], Floats]
"""Each token's probability, given how many tokens before it may be seen."""


def judge_unigrams(task: LanguageModelling, part: str, vocab: int) -> tuple[Evaluation, int]:
    """How frequent each token is in training; each is counted once more, so that none is impossible."""
    counts = how_often(task.parts["train"].ids, vocab).astype(float) + 1
    if task.start is not None:
        counts[task.start] = 0.0
    shares = counts / counts.sum()
    return task.judge(part, records_of(task, part, lambda ids, _: shares[ids])), int((counts > 0).sum())


def judge_ngrams(task: LanguageModelling, part: str, vocab: int) -> tuple[Evaluation, int]:
    train = np.asarray(task.parts["train"].ids[:MOST_COUNTED], np.int64)
    model = KneserNey.count(train, vocab, task.start, HIGHEST)
    length = best_length(model, task)
    records = records_of(task, part, lambda ids, reach: model.probabilities(ids, reach)[length - 1])
    return task.judge(part, records), model.size(length)


def left_out(task: LanguageModelling) -> str:
    """What a reader of n-grams' scores should know: of a very long text they count the beginning."""
    whole = len(task.parts["train"].ids)
    return f"counted the first {MOST_COUNTED:,} of {whole:,} tokens" if whole > MOST_COUNTED else ""


def best_length(model: KneserNey, task: LanguageModelling) -> int:
    """The n of the n-grams with the least loss on the validation part."""
    ids = np.asarray(task.parts["validation"].ids[:MOST_TRIED], np.int64)
    asked = _asked(task, ids)
    losses = [-np.log(chances[asked]).sum() for chances in model.probabilities(ids, _reach(task, len(ids)))]
    return int(np.argmin(losses)) + 1


def records_of(task: LanguageModelling, part: str, probabilities: Probabilities) -> list[dict[str, Any]]:
    """Records as a model's evaluation has them, one for each window; nothing before its window is seen."""
    ids = np.asarray(task.parts[part].ids, np.int64)
    asked = _asked(task, ids)
    losses = -np.log(np.where(asked, probabilities(ids, _reach(task, len(ids))), 1.0))
    return [
        {
            "start": counted + 1,
            "tokens": int(asked[counted + 1 : end + 1].sum()),
            "loss": float(losses[counted + 1 : end + 1].sum()),
            "covered": end - counted,
        }
        for _, end, counted in task.windows(len(ids))
    ]


def _reach(task: LanguageModelling, count: int) -> Ints:
    """How many tokens of its window stand before each token, of so many."""
    reach = np.zeros(count, np.int64)
    for begin, end, counted in task.windows(count):
        reach[counted + 1 : end + 1] = np.arange(counted + 1, end + 1) - begin
    return reach


def _asked(task: LanguageModelling, ids: Ints) -> Any:
    """Which tokens are answers: neither the very first nor START."""
    asked = np.arange(len(ids)) > 0
    return asked if task.start is None else asked & (ids != task.start)


def judge_hidden(task: MaskedModelling, part: str) -> tuple[Evaluation, int]:
    """How frequent tokens are in training, as the guess of every hidden one; each is counted once more, so that none is
    impossible.
    """
    masking, ids = task.masking, task.parts[part].ids
    counts = np.zeros(masking.size)
    counts[masking.ordinary] = how_often(task.parts["train"].ids, masking.size)[masking.ordinary] + 1
    shares, likeliest = counts / counts.sum(), int(counts.argmax())
    records = []
    for begin, end, counted in task.windows(len(ids)):
        _, answers = masking.to_judge(np.asarray(ids[begin:end], np.int64), begin)
        answers = answers[counted - begin :]
        asked = answers[answers != NOTHING]
        records.append(
            {
                "start": counted,
                "tokens": len(asked),
                "loss": float(-np.log(shares[asked]).sum()),
                "right": int((asked == likeliest).sum()),
                "covered": end - counted,
            }
        )
    return task.judge(part, records), len(masking.ordinary)
