"""A finding: what a training shows of itself, in plain words, with the number behind it and what to try."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.runs.files import SEVERITIES

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
