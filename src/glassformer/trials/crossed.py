"""What a cross-validation came to."""

from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MASKED, MULTILABEL, REGRESSION, TRANSLATION
from glassformer.pipeline.result import Trained
from glassformer.statistics.intervals import Interval
from glassformer.trials.results.metrics import titled
from glassformer.trials.strict import strict

PRIMARY = {
    CLASSIFICATION: "accuracy",
    MULTILABEL: "micro_f1",
    REGRESSION: "rmse",
    TRANSLATION: "chrf",
    LANGUAGE_MODEL: "bits_per_byte",
    MASKED: "loss",
}
"""What a fold is judged by; of language models, which may have other tokens in each, what does not depend on them."""
SHARED = "the folds share most of their training rows, so that the interval is approximate"
CHOSE = "each fold also chose the weights that it judges, so that scores are a little too good (training.keep last)"


@dataclass(frozen=True)
class Fold:
    """One of the trainings."""

    fold: int
    """Counted from 1, as its folder is."""
    run: str
    """Its folder, as seen from that of all."""
    metrics: dict[str, float]
    steps: int
    """Updates after which it was best."""
    total: int
    """Updates that it set out to make."""


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """What the folds came to."""

    out: str
    task: str
    model: str
    primary: str
    lower_is_better: bool
    folds: list[Fold]
    mean: float
    interval: Interval | None
    """Of the mean, by Student's t over the folds. They share training rows, so that it is approximate."""
    pooled: dict[str, float]
    """Over all rows together, each predicted once by the model that had not seen it."""
    chose: bool = False
    """Each fold was also the validation part that chose its weights, so that scores are a little too good."""
    reason: str = "finished"
    """Or interrupted; then the folds are those that were done."""
    refit: Trained | None = field(default=None, repr=False)

    def __fspath__(self) -> str:
        return self.out

    @property
    def words(self) -> str:
        """In a sentence."""
        if not self.folds:
            return "no fold was trained to its end"
        alike = self.interval is None or self.interval.low == self.interval.high  # which says nothing of another fold
        between = (
            ""
            if self.interval is None or alike
            else f" (95 %: {_end(self.interval.low)} to {_end(self.interval.high)})"
        )
        floats = {name: value for name, value in self.pooled.items() if isinstance(value, float)}
        whole = ", ".join(f"{titled(name)} {value:.4f}" for name, value in floats.items())
        over = f"{len(self.folds)} folds" + " (which also chose the weights)" * self.chose
        return f"{titled(self.primary)} {self.mean:.4f}{between} over {over}; all rows together: {whole}"

    @property
    def note(self) -> str:
        """How far to trust it."""
        return f"{SHARED}; {CHOSE}" if self.chose else SHARED

    def to_dict(self) -> dict[str, Any]:
        held = {name: value for name, value in asdict(self).items() if name != "refit"}
        refit = {} if self.refit is None else {"refit": self.refit.to_dict()}
        return strict({**held, "note": self.note, **refit})

    def __repr__(self) -> str:
        """What it says, and each fold's score."""
        lines = [f"fold {one.fold}  {one.metrics[self.primary]:.4f}  {self.out}/{one.run}" for one in self.folds]
        return "\n".join([self.words, *lines, self.note])

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>fold {one.fold}</td><td>{one.metrics[self.primary]:.4f}</td></tr>" for one in self.folds]
        return (
            f"<table><tr><th></th><th>{titled(self.primary)}</th></tr>{''.join(rows)}</table>"
            f"<p>{self.words}; {self.note}</p>"
        )


def _end(value: float) -> str:
    """Of an interval: the end of a scale is whole, 0 or 1."""
    return f"{value:.0f}" if value in (0.0, 1.0) else f"{value:.4f}"
