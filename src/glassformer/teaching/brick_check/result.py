"""What holding a brick against ours came to."""

import math
from dataclasses import dataclass
from typing import Any

from glassformer.checks.result import Checks
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import View


@dataclass(frozen=True)
class BrickChecks(Checks):
    """The checks of a brick, which `run` names. In a notebook it shows itself."""

    like: str = ""
    """What it was held against."""
    first_wrong: str = ""
    """The first tensor that is wrong, and the right number."""
    hint: str = ""
    """The likely reason."""

    def view(self) -> View:
        table = Table(
            columns=["check", "result", "largest difference", "what"],
            rows=[[each.name, each.result, _number(each.difference), each.words] for each in self.checked],
        )
        reasons: list[Panel] = [Words(text="\n\n".join(self.reasons))] if self.reasons else []
        note = f"{self.words}. Differences are shares of the largest number compared."
        return View(f"Is {self.run} right?", [*reasons, table], note, f"{self.run}, held against {self.like}")

    @property
    def reasons(self) -> list[str]:
        """What is wrong, in one or two lines."""
        first = [f"First wrong tensor: {self.first_wrong}."] if self.first_wrong else []
        return [*first, *([f"Likely reason: {self.hint}."] if self.hint else [])]

    def to_dict(self) -> dict[str, Any]:
        return {
            "brick": self.run,
            "like": self.like,
            "passed": self.passed,
            "first_wrong": self.first_wrong or None,
            "hint": self.hint or None,
            "checks": [each.to_dict() for each in self.checked],
        }


def _number(difference: float | None) -> str:
    return "" if difference is None else f"{difference:.2g}" if math.isfinite(difference) else "no number"
