"""What the loop tells: one stream of events, for whoever listens."""

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.tasks.base import Evaluation


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


@dataclass(frozen=True)
class Validated:
    step: int
    evaluation: Evaluation
    best: bool


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
class Noted:
    """Something a person should know."""

    text: str


@dataclass(frozen=True)
class Ended:
    step: int
    reason: str
    """finished, patience, interrupted."""
    seconds: float


Event = Started | Stepped | Validated | Checkpointed | Sampled | Noted | Ended
Listener = Callable[[Event], None]
