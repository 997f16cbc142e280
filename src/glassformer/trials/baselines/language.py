"""Counting tokens as a language model, or as a guess of those that are hidden: judged window by window, on what a model
is asked there, with what it sees.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.data.packing.store import how_often
from glassformer.data.packing.windows import NOTHING
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.trials.baselines.kneser_ney import Floats, Ints, KneserNey

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
