"""The events of a training run, as the loop tells them to its listeners, and what the doctor finds in them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.config.messages import Say
from glassformer.runs.files import SEVERITIES
from glassformer.tasks.base import Evaluation
from glassformer.training.measurements import MAX_TRIED_ROWS, LayerStats

PROBLEM, WARNING, NOTE = SEVERITIES


def lower_rate(rate: float, usual: float) -> float:
    """A rate to try where this one is too high: a third of it; from far above, the usual one."""
    return min(usual, rate / 3)


@dataclass(frozen=True)
class Finding:
    """One thing that a training shows; of each kind it has one at most."""

    kind: str
    step: int
    """Updates made by then; 0: seen before the first."""
    severity: str
    """note: worth knowing; warning: it costs quality; problem: the training does not do what it should."""
    words: str
    """What is so, with its numbers."""
    advice: str
    """What to try, with the flag."""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        return f"{self.words} Try: {self.advice}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(line: Mapping[str, Any]) -> "Finding":
        """What `to_dict` gave."""
        return Finding(**{name: line[name] for name in Finding.__dataclass_fields__})


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
        """The examples that led there; none is named if every one does, for then it is the weights."""
        count, batch = len(self.rows), f"the batch of step {self.batch}"
        if count == 0 or 1 < count == min(self.size, MAX_TRIED_ROWS):
            return f"with every example of {batch}; " if count else ""
        more = f" and {count - 1} more" if count > 1 else ""
        named = f", '{self.example}'" if self.example else ""
        return f"with example {self.rows[0] + 1}{more} of {self.size} in {batch}{named}; "


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


def as_notes(listen: Listener) -> Say:
    """Return a receiver of progress messages that reports each line as a `Noted` event."""
    return lambda line: listen(Noted(line))
