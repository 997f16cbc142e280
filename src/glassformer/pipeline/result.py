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
    """How many of the parameters were trained."""
    steps: int
    seconds: float
    """The time spent in updates, validations left out."""
    reason: str
    """Why it ended: finished, patience, or interrupted."""
    validation: dict[str, float]
    """The best weights on the whole validation part."""
    summary: str
    """These scores for a person to read; `words` in `to_dict`."""
    best: dict[str, float]
    """The best validation on the way, and its step."""
    test: dict[str, float] | None = None
    before_refit: dict[str, Any] | None = None
    """How good the training before a refit, which has seen all rows, was on rows held out."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False, compare=False)
    """The same parts with a record for each example; they are not part of `to_dict`."""

    @property
    def words(self) -> str:
        """The summary, by its old name."""
        return self.summary

    def __fspath__(self) -> str:
        return self.run

    def to_dict(self) -> dict[str, Any]:
        names = ["words" if one.name == "summary" else one.name for one in fields(self) if one.name != "evaluations"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

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
