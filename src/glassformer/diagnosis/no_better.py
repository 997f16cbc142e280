"""Whether what was learned is better than knowing nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.statistics.intervals import share_interval
from glassformer.statistics.paired import difference, mcnemar
from glassformer.training.finding import WARNING, Finding

ENOUGH = 20
"""Examples: of fewer, even a good model cannot be told from one that knows nothing."""
CHANCE = 0.05
"""How often chance alone may show as much, for a difference to be none."""

Records = Sequence[Mapping[str, Any]]
Found = tuple[str, dict[str, Any]]
"""The words, and the numbers in them; no words: nothing was found."""
NOTHING: Found = ("", {})


def no_better(
    metrics: Mapping[str, float],
    records: Records,
    guessing: float | None,
    advise: Advice,
    step: int,
    largest: str | None = None,
) -> Finding | None:
    """Of an evaluation: accuracy against always saying the class that is `largest` in training, F1 against the most
    frequent labels, R² against 0, a loss against that of guessing evenly.
    """
    (words, numbers), count = NOTHING, len(records)
    if "accuracy" in metrics and "majority" in metrics:
        words, numbers = _paired(records, largest) if largest is not None else _alone(metrics, count)
    elif "majority_micro_f1" in metrics:
        found, always = metrics["micro_f1"], metrics["majority_micro_f1"]
        if count >= ENOUGH and found <= always:
            words = f"Micro F1 is {found:.3f} on validation; always saying the most frequent labels has {always:.3f}."
            numbers = {"micro_f1": found, "majority": always}
    elif "r2" in metrics:
        words, numbers = _numbers(metrics["r2"], records)
    elif guessing is not None and metrics.get("loss", 0.0) >= guessing:
        words = f"The validation loss is {metrics['loss']:.3g}, and guessing evenly costs {guessing:.3g}."
        numbers = {"loss": metrics["loss"], "guessing": guessing}
    longer, other = f"a longer training ({advise.longer()})", "another model (glassformer compare)"
    tries = joined(longer, advise.more_blocks(), other, advise.another_rate())
    advice = f"{tries}; whether labels belong to their examples (glassformer data show)"
    return Finding("no-better", step, WARNING, words, advice, numbers) if words else None


def _paired(records: Records, largest: str) -> Found:
    """Both on the same examples: only those count on which one is right and the other wrong."""
    right = np.array([one["predicted"] == one["label"] for one in records])
    always = np.array([one["label"] == largest for one in records])
    if len(records) < ENOUGH:
        return NOTHING
    test, accuracy, share = mcnemar(right, always), float(right.mean()), float(always.mean())
    if accuracy > share and test.p < CHANCE:
        return NOTHING
    what = "cannot be told from" if test.p >= CHANCE else "is below"
    words = (
        f"Validation accuracy {accuracy:.3f} (over {len(records):,}) {what} that of always saying '{largest}', "
        f"{share:.3f}: {test.only_first:,} examples only the model has right, {test.only_second:,} it alone has wrong "
        f"(p = {test.p:.2g})."
    )
    return words, {"accuracy": accuracy, "majority": share, "p": test.p}


def _alone(metrics: Mapping[str, float], count: int) -> Found:
    """Where the largest class is not known by name: the interval of the accuracy."""
    right, always = metrics["accuracy"], metrics["majority"]
    interval = share_interval(round(right * count), count)
    if count < ENOUGH or interval.low > always:
        return NOTHING
    words = (
        f"Validation accuracy {right:.3f} (from {interval.low:.2f} to {interval.high:.2f}, over {count:,}) "
        f"cannot be told from that of always saying the largest class, {always:.3f}."
    )
    return words, {"accuracy": right, "low": interval.low, "majority": always}


def _numbers(r2: float, records: Records) -> Found:
    """Squared errors against those of always saying the mean, on the same examples."""
    if len(records) < ENOUGH:
        return NOTHING
    true = np.array([one["number"] for one in records])
    wrong, spread = np.array([one["error"] for one in records]) ** 2, (true - true.mean()) ** 2
    if not spread.any():
        return NOTHING
    gain = difference(spread[None], wrong[None])
    low, high = gain.low / spread.mean(), gain.high / spread.mean()
    if low > 0:
        return NOTHING
    what = "cannot be told from 0" if high >= 0 else "is below 0"
    words = (
        f"R² is {r2:.3f} on validation (from {low:.2f} to {high:.2f}, over {len(records):,}), which {what}: always "
        f"saying the mean {'may be' if high >= 0 else 'would be'} as good."
    )
    return words, {"r2": r2, "low": float(low), "high": float(high), "p": gain.p}
