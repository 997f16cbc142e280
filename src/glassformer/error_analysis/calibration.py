"""Whether a classifier is as sure as it is right, what one temperature mends, and when a person should look instead."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.wording import counted
from glassformer.error_analysis.finding import ErrorFinding, percent, span
from glassformer.rendering.panels import Line, Lines, Panel, Table, Words
from glassformer.statistics.calibration import (
    COLDEST,
    HOTTEST,
    Bin,
    coverage,
    expected_error,
    fit_temperature,
    reliability,
    threshold_for,
)
from glassformer.statistics.intervals import share_interval

MOST_POINTS = 200
"""Points of a curve."""
ACCURACY = 0.95
"""The share of answers that should be right, where nobody says."""
FEWEST = 20
"""Examples that a temperature and a threshold are fitted on."""


@dataclass(frozen=True, eq=False)
class ScoredExamples:
    """A classifier's scores of some examples, and what is true of them."""

    logits: Float[Array, "N C"]
    answers: Int[Array, " N"]

    @staticmethod
    def of(scores: Float[Array, "N outputs"], answers: Int[Array, " N"]) -> "ScoredExamples":
        """Return the examples whose label is one of the classes; a single score is that of the second of two."""
        scores = scores.astype(np.float64)
        if scores.shape[1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], 1)
        known = answers < scores.shape[1]
        return ScoredExamples(scores[known], answers[known])

    def __len__(self) -> int:
        return len(self.answers)

    def select(self, rows: NDArray[np.int64]) -> "ScoredExamples":
        return ScoredExamples(self.logits[rows], self.answers[rows])

    def logs(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """The logarithms of the probabilities."""
        cooled = self.logits / temperature
        cooled = cooled - cooled.max(1, keepdims=True)
        return np.asarray(cooled - np.log(np.exp(cooled).sum(1, keepdims=True)))

    def loss(self, temperature: float = 1.0) -> float:
        return float(-self.logs(temperature)[np.arange(len(self)), self.answers].mean())

    def confidence(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """The probability of the likeliest class."""
        return np.asarray(np.exp(self.logs(temperature).max(1)))

    def reliability(self, temperature: float = 1.0) -> list[Bin]:
        return reliability(self.confidence(temperature), self.right)

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.logits.argmax(1) == self.answers)


def halves(scored: ScoredExamples) -> tuple[ScoredExamples, ScoredExamples]:
    """Two halves by chance, the same every time: one to fit on, one to be shown."""
    order = np.random.default_rng(0).permutation(len(scored))
    middle = len(order) // 2
    return scored.select(np.sort(order[:middle])), scored.select(np.sort(order[middle:]))


def calibration(
    examples: ScoredExamples,
    validation: ScoredExamples | None,
    noun: str,
    accuracy: float = ACCURACY,
    missing: str = "",
) -> ErrorFinding:
    """How sure, how right, and from which probability on. `validation`: the part on which temperature and threshold are
    fitted; without it, what is shown is that part itself, and is divided; or `missing` says why it is not there.
    """
    fitted, temperature, where = validation, None, missing
    if fitted is not None:
        where = f"the validation part ({counted(len(fitted), noun)})"
    elif not missing and len(examples) < 2:
        where = f"there is only {counted(len(examples), noun)}"
    elif not missing:
        fitted, examples = halves(examples)
        where = f"half of the validation part ({counted(len(fitted), noun)}; the other half is shown)"
    if fitted is not None and len(fitted) < FEWEST:
        where, fitted = f"{counted(len(fitted), noun)} are too few to fit a temperature on ({FEWEST} at least)", None
    if fitted is not None:
        temperature = fit_temperature(fitted.logits, fitted.answers)
        if not COLDEST * 1.01 < temperature < HOTTEST / 1.01:
            end = "colder" if temperature < 1 else "hotter"
            where, temperature = f"on {where}, ever {end} ones fit ever better", None
    panels: list[Panel] = [
        _sure(examples, temperature, where),
        _reliability(examples, temperature, noun),
        _when_sure(examples, noun, accuracy),
        Words(title="When a person should look instead", text=_threshold_in_words(examples, fitted, noun, accuracy)),
    ]
    return ErrorFinding(panels, _gap_in_words(examples, temperature))


def _gap_in_words(examples: ScoredExamples, temperature: float | None) -> str:
    """Where sureness is farther from accuracy than chance explains."""
    sure, right = float(examples.confidence().mean()), share_interval(int(examples.right.sum()), len(examples))
    if right.low <= sure <= right.high:
        return ""
    than = "surer than" if sure > right.value else "less sure than"
    sentence = f"The model is {than} it is right: {percent(sure)} sure on average, {percent(right.value)} right"
    if temperature is None:
        return f"{sentence}."
    before, after = (expected_error(examples.reliability(value)) for value in (1.0, temperature))
    if after < before:
        effect = f"takes the calibration error from {before:.3f} to {after:.3f}"
    else:
        effect = f"does not mend it here: the calibration error goes from {before:.3f} to {after:.3f}"
    return f"{sentence}; a temperature of {temperature:.2f} {effect}."


def _sure(examples: ScoredExamples, temperature: float | None, where: str) -> Table:
    temperatures = {"as it is": 1.0}
    how = f"No temperature was fitted: {where}."
    if temperature is not None:
        temperatures["with the temperature fitted there"] = temperature
        how = (
            f"The scores are divided by a temperature before they become probabilities; fitted on {where}, never on "
            "what is shown here. It changes no answer."
        )
        if examples.loss(temperature) > examples.loss():
            how += " Here it makes the loss larger: do not use it."
    return Table(
        title="As sure as it is right?",
        columns=["probabilities", "temperature", "loss", "calibration error", "sure", "right"],
        rows=[
            [
                name,
                value,
                examples.loss(value),
                expected_error(examples.reliability(value)),
                float(examples.confidence(value).mean()),
                float(examples.right.mean()),
            ]
            for name, value in temperatures.items()
        ],
        bars=("calibration error", "sure", "right"),
        note=f"{how} Calibration error: how far sureness and accuracy are apart on average, in ten bins (ECE).",
    )


def _reliability(examples: ScoredExamples, temperature: float | None, noun: str) -> Lines:
    curves = {"as it is": examples.reliability()}
    if temperature is not None:
        curves["with temperature"] = examples.reliability(temperature)
    return Lines(
        title="How sure, and how right",
        series=[
            Line(name="as right as sure", x=[0, 1], y=[0, 1], faint=True),
            *(
                Line(
                    name=name,
                    x=[each.confidence for each in bins],
                    y=[each.accuracy for each in bins],
                    low=[each.interval.low for each in bins],
                    high=[each.interval.high for each in bins],
                    dots=True,
                )
                for name, bins in curves.items()
            ),
        ],
        x_name="probability of the answer",
        y_name="share that is right",
        note=f"{counted(len(examples), noun)} in ten bins of probability, with the interval of each. Below the "
        "diagonal the model is surer than it is right.",
    )


def _when_sure(examples: ScoredExamples, noun: str, accuracy: float) -> Lines:
    """How many answers are right, if only the surest are given."""
    shares, accuracies = coverage(examples.confidence(), examples.right)
    places = np.unique(np.linspace(0, len(shares) - 1, MOST_POINTS).round().astype(int))
    return Lines(
        title="Answering only when sure",
        series=[
            Line(name=f"{percent(accuracy)} right", x=[float(shares[0]), 1.0], y=[accuracy, accuracy], faint=True),
            Line(name="right", x=shares[places].tolist(), y=accuracies[places].tolist()),
        ],
        x_name=f"share of the {noun}s that is answered, the surest first",
        y_name="share of these that is right",
    )


def _in_few_digits(threshold: float, *scored: ScoredExamples) -> str:
    """The threshold rounded down, in as few digits as say the same of all these examples: of a sure model, many."""
    values = np.concatenate([examples.confidence() for examples in scored])
    for digits in range(4, 16):
        lower = math.floor(threshold * 10**digits) / 10**digits
        if not ((values >= lower) & (values < threshold)).any():
            return f"{lower:.{digits}f}".rstrip("0").rstrip(".")
    return f"{threshold:.17g}"


def _threshold_in_words(examples: ScoredExamples, fitted: ScoredExamples | None, noun: str, accuracy: float) -> str:
    if fitted is None:
        return "No threshold was chosen, for there are no other examples to choose it on."
    best = threshold_for(fitted.confidence(), fitted.right, accuracy)
    if best is None:
        return (
            f"No probability is high enough: on the examples where it would be chosen, even the surest answers are not "
            f"right {percent(accuracy)} of the time."
        )
    if best.coverage == 1:
        return (
            f"Nobody needs to look: answering everything is right {percent(best.accuracy)} of the time where that was "
            f"looked up, at least the {percent(accuracy)} asked for; here it is "
            f"{percent(float(examples.right.mean()))}."
        )
    answered = examples.confidence() >= best.threshold
    left, there, hits = int((~answered).sum()), int(answered.sum()), int((examples.right & answered).sum())
    sentence = (
        f"Below a probability of {_in_few_digits(best.threshold, fitted, examples)} a person should look instead: that "
        f"is {percent(left / len(examples))} of the {noun}s ({left:,} of {len(examples):,})."
    )
    if not there:
        return f"{sentence} None is left to answer here."
    rate = share_interval(hits, there)
    return (
        f"{sentence} Of the other {there:,}, {percent(rate.value, exactly=True)} are right here ({span(rate)}); where "
        f"the threshold was chosen, {percent(best.accuracy, exactly=True)}, and {percent(accuracy)} was asked for."
    )
