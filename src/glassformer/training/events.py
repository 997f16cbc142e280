"""Events of a training run, which the loop reports to its listeners, and findings of the doctor."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.config.messages import Say
from glassformer.runs.files import SEVERITIES
from glassformer.tasks.base import Evaluation
from glassformer.training.measurements import MAX_TRIED_ROWS, LayerStats

PROBLEM, WARNING, NOTE = SEVERITIES


def lower_rate(rate: float, usual: float) -> float:
    """Return the learning rate to try if `rate` is too high: a third of it, and at most the usual rate."""
    return min(usual, rate / 3)


@dataclass(frozen=True)
class Finding:
    """A finding of the doctor about a training run, which has at most one finding of each kind."""

    kind: str
    step: int
    """Number of updates made by then; 0 for findings before the first update."""
    severity: str
    """problem: training does not work; warning: quality suffers; note: worth knowing."""
    words: str
    """Description with its numbers."""
    advice: str
    """Remedy, with its flag."""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        return f"{self.words} Try: {self.advice}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(line: Mapping[str, Any]) -> "Finding":
        """Return the finding that `to_dict` converted."""
        return Finding(**{name: line[name] for name in Finding.__dataclass_fields__})


@dataclass(frozen=True)
class Started:
    """The beginning of the training loop."""

    step: int
    """Number of updates already made; 0 unless the run is resumed."""
    steps: int | None
    """Total number of updates; None if the budget of minutes decides."""
    minutes: float | None
    notes: tuple[str, ...]
    """Messages on settings that were chosen automatically."""
    tokens_per_example: int | None = None
    """Number of tokens that an example without words counts as; speeds are then in examples. None: in tokens."""


@dataclass(frozen=True)
class Stepped:
    step: int
    """Number of updates so far, including this one."""
    loss: float
    """Mean loss of the batch, before the update."""
    lr: float
    gradient_norm: float | None
    tokens: int
    seconds: float
    """Seconds spent in steps so far, without validations."""
    done: float
    """Part of the budget that was spent before this step, 0 to 1."""
    layers: Mapping[str, LayerStats] | None = None
    """Measurements of each layer; None at most steps, which are not measured."""


@dataclass(frozen=True)
class Validated:
    step: int
    evaluation: Evaluation
    best: bool
    seconds_after: float = 0.0
    """Estimated seconds of the evaluation that follows the last step."""


@dataclass(frozen=True)
class Checkpointed:
    step: int
    path: str


@dataclass(frozen=True)
class Sampled:
    """A text that the model generated during training."""

    step: int
    text: str


@dataclass(frozen=True)
class Diverged:
    """A number that is not finite, which stops training."""

    step: int
    """The update that was cancelled, or after which the number was found."""
    what: str
    tensor: str
    """Name of the first tensor that is not finite."""
    batch: int
    """Step whose batch is the cause."""
    rows: tuple[int, ...]
    """Examples of the batch, counted from 0, each of which is a cause by itself; empty if no single example is."""
    example: str
    """The first of these examples as text."""
    size: int
    """Number of examples in the batch."""
    lr: float
    """Learning rate to try."""

    @property
    def line(self) -> str:
        return (
            f"{self.what} ({self.where}first tensor that is not finite: {self.tensor}); "
            f"go on from the last good checkpoint with a lower rate: --resume --lr {self.lr:.1g}"
        )

    @property
    def where(self) -> str:
        """Phrase with the examples that are the cause. If all of them are, the weights are the cause: none is named."""
        count, batch = len(self.rows), f"the batch of step {self.batch}"
        if count == 0 or 1 < count == min(self.size, MAX_TRIED_ROWS):
            return f"with every example of {batch}; " if count else ""
        more = f" and {count - 1} more" if count > 1 else ""
        named = f", '{self.example}'" if self.example else ""
        return f"with example {self.rows[0] + 1}{more} of {self.size} in {batch}{named}; "


@dataclass(frozen=True)
class FindingReported:
    """A finding of the doctor."""

    finding: Finding


@dataclass(frozen=True)
class Noted:
    """A message to the user."""

    text: str


@dataclass(frozen=True)
class Failed(Noted):
    """A message that a requested task failed, although training continues."""


@dataclass(frozen=True)
class Ended:
    step: int
    reason: str
    """Reason for the end: finished, patience or interrupted."""
    seconds: float
    signal: int | None = None
    """Signal that asked this process to stop, if any."""


Event = Started | Stepped | Validated | Checkpointed | Sampled | Diverged | FindingReported | Noted | Ended
Listener = Callable[[Event], None]


def as_notes(listen: Listener) -> Say:
    """Return a receiver of progress messages that reports each line as a `Noted` event."""
    return lambda line: listen(Noted(line))
