"""Whether what was learned is better than knowing nothing."""

from collections.abc import Mapping

from glassformer.measures.intervals import share_interval
from glassformer.training.finding import WARNING, Finding

ENOUGH = 20
"""Examples: of fewer, even a good model cannot be told from one that knows nothing."""

ADVICE = (
    "a longer training, another model (glassformer compare), a rate ten times lower or higher; whether labels belong "
    "to their examples (glassformer data show)"
)


def no_better(metrics: Mapping[str, float], count: int, guessing: float | None, step: int) -> Finding | None:
    """Of an evaluation over so many examples: accuracy against the largest class, F1 against the most frequent labels,
    R² against 0, a loss against that of guessing evenly.
    """
    words, numbers = "", {}
    if "accuracy" in metrics and "majority" in metrics:
        right, always = metrics["accuracy"], metrics["majority"]
        interval = share_interval(round(right * count), count)
        if count >= ENOUGH and interval.low <= always:
            words = (
                f"Validation accuracy {right:.3f} (from {interval.low:.2f} to {interval.high:.2f}, over {count:,}) "
                f"cannot be told from that of always saying the largest class, {always:.3f}."
            )
            numbers = {"accuracy": right, "low": interval.low, "majority": always}
    elif "majority_micro_f1" in metrics:
        found, always = metrics["micro_f1"], metrics["majority_micro_f1"]
        if count >= ENOUGH and found <= always:
            words = f"Micro F1 is {found:.3f} on validation; always saying the most frequent labels has {always:.3f}."
            numbers = {"micro_f1": found, "majority": always}
    elif "r2" in metrics:
        if count >= ENOUGH and metrics["r2"] <= 0:
            words = f"R² is {metrics['r2']:.3f} on validation: always saying the mean would be as good."
            numbers = {"r2": metrics["r2"]}
    elif guessing is not None and metrics.get("loss", 0.0) >= guessing:
        words = f"The validation loss is {metrics['loss']:.3g}, and guessing evenly costs {guessing:.3g}."
        numbers = {"loss": metrics["loss"], "guessing": guessing}
    return Finding("no-better", step, WARNING, words, ADVICE, numbers) if words else None
