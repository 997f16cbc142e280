"""Calibration of a classifier, temperature scaling, and the confidence below which a person should decide."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.wording import counted
from glassformer.error_analysis.finding import ErrorFinding, percent, sentence, span
from glassformer.rendering.panels import Line, Lines, Panel, Rows, Table, Words
from glassformer.statistics import calibration
from glassformer.statistics.intervals import share_interval

MAX_POINTS = 200
"""Maximum number of points of a curve."""
ACCURACY = 0.95
"""Default of the share of answers that should be right."""
MIN_FITTED = 20
"""Minimum number of examples to fit a temperature and a threshold."""


@dataclass(frozen=True, eq=False)
class ScoredExamples:
    """A classifier's scores of some examples, and their true classes."""

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
        """Return the logarithms of the probabilities."""
        cooled = self.logits / temperature
        cooled = cooled - cooled.max(1, keepdims=True)
        return np.asarray(cooled - np.log(np.exp(cooled).sum(1, keepdims=True)))

    def loss(self, temperature: float = 1.0) -> float:
        return float(-self.logs(temperature)[np.arange(len(self)), self.answers].mean())

    def confidence(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """Return the probability of the most probable class."""
        return np.asarray(np.exp(self.logs(temperature).max(1)))

    def reliability(self, temperature: float = 1.0) -> list[calibration.Bin]:
        return calibration.reliability(self.confidence(temperature), self.right)

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.logits.argmax(1) == self.answers)


def halves(scored: ScoredExamples) -> tuple[ScoredExamples, ScoredExamples]:
    """Divide examples at random, but always in the same way, into a half to fit on and a half to evaluate."""
    order = np.random.default_rng(0).permutation(len(scored))
    middle = len(order) // 2
    return scored.select(np.sort(order[:middle])), scored.select(np.sort(order[middle:]))


def calibration_finding(
    examples: ScoredExamples,
    validation: ScoredExamples | None,
    noun: str,
    accuracy: float = ACCURACY,
    missing: str = "",
) -> ErrorFinding:
    """Return panels on calibration, and on the confidence from which answers can be trusted.

    `validation`: examples to fit temperature and threshold. Without them, `examples` are divided to fit on one half,
    unless `missing` is the reason why there are none.
    """
    fitted, temperature, where = validation, None, missing
    if fitted is not None:
        where = sentence("fitted on: validation", examples=counted(len(fitted), noun))
    elif not missing:
        fitted, examples = halves(examples)
        where = sentence("fitted on: half", examples=counted(len(fitted), noun))
    if fitted is not None and len(fitted) < MIN_FITTED:
        where, fitted = sentence("not fitted: few", examples=counted(len(fitted), noun), least=MIN_FITTED), None
    if fitted is not None:
        temperature = calibration.fit_temperature(fitted.logits, fitted.answers)
        if not calibration.MIN_TEMPERATURE * 1.01 < temperature < calibration.MAX_TEMPERATURE / 1.01:
            where, temperature = sentence("not fitted: endless", where=where), None
    temperatures = {"as it is": 1.0}
    if temperature is not None:
        temperatures["with temperature"] = temperature
    panels: list[Panel] = [
        _sureness(examples, temperatures, where),
        _reliability(examples, temperatures, noun),
        _when_sure(examples, noun, accuracy),
        Words(title="When a person should look instead", text=_threshold(examples, fitted, noun, accuracy)),
    ]
    return ErrorFinding(panels, _gap(examples))


def _gap(examples: ScoredExamples) -> str:
    """Return a sentence if the mean confidence differs significantly from the accuracy, else an empty text."""
    sure, right = float(examples.confidence().mean()), share_interval(int(examples.right.sum()), len(examples))
    if right.low <= sure <= right.high:
        return ""
    than = "surer than" if sure > right.value else "less sure than"
    return sentence("gap", than=than, sure=percent(sure), right=percent(right.value))


def _sureness(examples: ScoredExamples, temperatures: Mapping[str, float], where: str) -> Table:
    rows: Rows = []
    for name, value in temperatures.items():
        error, sure = calibration.expected_error(examples.reliability(value)), float(examples.confidence(value).mean())
        rows.append([name, value, examples.loss(value), error, sure, float(examples.right.mean())])
    return Table(
        title="As sure as it is right?",
        columns=["probabilities", "temperature", "loss", "calibration error", "sure", "right"],
        rows=rows,
        bars=("calibration error", "sure", "right"),
        note=sentence("temperature: fitted" if len(temperatures) > 1 else "temperature: none", where=where),
    )


def _reliability(examples: ScoredExamples, temperatures: Mapping[str, float], noun: str) -> Lines:
    series = [Line(name="as right as sure", x=[0, 1], y=[0, 1], faint=True)]
    for name, temperature in temperatures.items():
        bins = examples.reliability(temperature)
        x, y = [each.confidence for each in bins], [each.accuracy for each in bins]
        low, high = [each.interval.low for each in bins], [each.interval.high for each in bins]
        series.append(Line(name=name, x=x, y=y, low=low, high=high, dots=True))
    return Lines(
        title="How sure, and how right",
        series=series,
        x_name="probability of the answer",
        y_name="share that is right",
        note=sentence("reliability", examples=counted(len(examples), noun)),
    )


def _when_sure(examples: ScoredExamples, noun: str, accuracy: float) -> Lines:
    """Return the share of right answers if only the most confident ones count."""
    shares, accuracies = calibration.coverage(examples.confidence(), examples.right)
    places = np.unique(np.linspace(0, len(shares) - 1, MAX_POINTS).round().astype(int))
    wanted = Line(name=f"{percent(accuracy)} right", x=[float(shares[0]), 1.0], y=[accuracy, accuracy], faint=True)
    return Lines(
        title="Answering only when sure",
        series=[wanted, Line(name="right", x=shares[places].tolist(), y=accuracies[places].tolist())],
        x_name=f"share of the {noun}s that is answered, the surest first",
        y_name="share of these that is right",
    )


def _threshold(examples: ScoredExamples, fitted: ScoredExamples | None, noun: str, accuracy: float) -> str:
    """Return a sentence on the probability below which a person should decide, chosen on the `fitted` examples."""
    if fitted is None:
        return sentence("threshold: none")
    best = calibration.threshold_for(fitted.confidence(), fitted.right, accuracy)
    if best is None:
        return sentence("threshold: never", wanted=percent(accuracy))
    answered = examples.confidence() >= best.threshold
    left, hits = int((~answered).sum()), int((examples.right & answered).sum())
    rate = share_interval(hits, int(answered.sum()))
    return sentence(
        "threshold" if answered.any() else "threshold: all below",
        threshold=f"{math.floor(best.threshold * 1e6) / 1e6:.6g}",
        share=percent(left / len(examples)),
        noun=noun,
        left=left,
        all=len(examples),
        answered=int(answered.sum()),
        here=percent(rate.value),
        span=span(rate),
        there=percent(best.accuracy),
        wanted=percent(accuracy),
    )
