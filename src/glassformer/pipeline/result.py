"""What a training came to."""

from dataclasses import dataclass, field, fields
from typing import Any

from glassformer.tasks.base import Evaluation


@dataclass(frozen=True)
class Trained:
    """What a training came to."""

    run: str
    task: str
    model: str
    parameters: int
    learned: int
    """Of these, what was trained."""
    steps: int
    seconds: float
    """Spent in updates, validations left out."""
    reason: str
    """Why it ended: finished, patience, or interrupted."""
    validation: dict[str, float]
    """The best weights on the whole validation part."""
    words: str
    """That for a person to read."""
    best: dict[str, float]
    """The best validation on the way, and its step."""
    test: dict[str, float] | None = None
    before_refit: dict[str, Any] | None = None
    """Of a refit, which has seen all rows: how good the training before it was, on rows held out."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False, compare=False)
    """The same parts with a record for each example; they are not part of `to_dict`."""

    def __fspath__(self) -> str:
        return self.run

    def to_dict(self) -> dict[str, Any]:
        held = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "evaluations"}
        return {name: value for name, value in held.items() if value is not None}

    def _repr_html_(self) -> str:
        rows = {
            name: str(getattr(self, name)) for name in ("run", "model", "parameters", "learned", "steps", "seconds")
        }
        rows |= {name: f"{value:.6g}" for name, value in self.validation.items()}
        return (
            "<table>"
            + "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
            + "</table>"
        )
