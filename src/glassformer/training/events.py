"""What the loop tells: one stream of events, for whoever listens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from glassformer.tasks.base import Evaluation
from glassformer.training.finding import Finding
from glassformer.training.finite import MOST_ROWS
from glassformer.training.layer_stats import LayerStats


@dataclass(frozen=True)
class Started:
    """How the training is about to run."""

    step: int
    """Updates already made: 0, or where a resumed run goes on."""
    steps: int | None
    """Updates to make in all; None when the time decides."""
    minutes: float | None
    notes: tuple[str, ...]
    """Choices made for the person, in words."""
    tokens_per_example: int | None = None
    """What an example counts as, where it has no words: its speed is told in examples."""


@dataclass(frozen=True)
class Stepped:
    step: int
    """Updates made so far, this one included."""
    loss: float
    """Mean loss of the batch, before the update."""
    lr: float
    gradient_norm: float | None
    tokens: int
    seconds: float
    """Spent in steps so far, validations left out."""
    done: float
    """How far through the budget the step began, 0 to 1."""
    layers: Mapping[str, LayerStats] | None = None
    """Gradients, weights and update of each layer, at the few steps where they are measured."""


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
    """What the model writes by now."""

    step: int
    text: str


@dataclass(frozen=True)
class Diverged:
    """A number is no longer finite: the training stops."""

    step: int
    """The update that could not be made, or after which it was seen."""
    what: str
    tensor: str
    """The first that is not finite."""
    batch: int
    """The step whose batch led to it."""
    rows: tuple[int, ...]
    """The examples of the batch, from 0, that lead to it each alone; none: only all together."""
    example: str
    """The first of them, as a person knows it."""
    size: int
    """How many examples the batch has."""
    lr: float
    """A rate to try."""

    @property
    def line(self) -> str:
        return (
            f"{self.what} ({self.where}first tensor that is not finite: {self.tensor}); "
            f"go on from the last good checkpoint with a lower rate: --resume --lr {self.lr:.1g}"
        )

    @property
    def where(self) -> str:
        """Which examples led there; where every one does, it is the weights, and none is named."""
        if not self.rows:
            return ""
        if len(self.rows) > 1 and len(self.rows) == min(self.size, MOST_ROWS):
            return f"with every example of the batch of step {self.batch}; "
        more = f" and {len(self.rows) - 1} more" if len(self.rows) > 1 else ""
        named = f", '{self.example}'" if self.example else ""
        return f"with example {self.rows[0] + 1}{more} of {self.size} in the batch of step {self.batch}{named}; "


@dataclass(frozen=True)
class FindingReported:
    """Something about the training that a person should know."""

    finding: Finding


@dataclass(frozen=True)
class Noted:
    """Something a person should know."""

    text: str


@dataclass(frozen=True)
class Failed(Noted):
    """Something that was asked for and is not done, though the training goes on."""


@dataclass(frozen=True)
class Ended:
    step: int
    reason: str
    """finished, patience, interrupted."""
    seconds: float
    signal: int | None = None
    """That this process was told to stop by."""


Event = Started | Stepped | Validated | Checkpointed | Sampled | Diverged | FindingReported | Noted | Ended
Listener = Callable[[Event], None]
