"""What checks came to: a row for each, and all of them as a table."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.rendering.panels import Table
from glassformer.rendering.view import Renderable, View


class DoesNotApply(Exception):
    """Why a run cannot be checked in this respect."""


@dataclass(frozen=True)
class Deviation:
    """How far apart two ways to compute the same came, as a share of the largest number in it."""

    difference: float
    words: str
    """What was compared."""


@dataclass(frozen=True)
class CheckResult:
    """One check."""

    name: str
    difference: float | None
    """The largest, as a share of the largest number compared; None where nothing could be compared."""
    tolerance: float
    """What rounding may do; 0: bit for bit."""
    passed: bool | None
    """Whether the difference is small enough; None where the check does not apply."""
    words: str
    """What was compared, or why it was not, or what went wrong."""
    skipped: bool = False
    """Whether a package is missing that the check needs; `passed` is None then."""

    @property
    def result(self) -> str:
        return "skipped" if self.skipped else {True: "pass", False: "FAIL", None: "does not apply"}[self.passed]

    @property
    def row(self) -> list[str]:
        """Cells of the table of checks."""
        difference = "" if self.difference is None else f"{self.difference:.2g}"
        return [self.name, self.result, difference, f"{self.tolerance:.2g}", self.words]

    def to_dict(self) -> dict[str, Any]:
        finite = self.difference is not None and math.isfinite(self.difference)
        return {**asdict(self), "difference": self.difference if finite else None}


@dataclass(frozen=True)
class Checks(Renderable):
    """All checks of a run. In a notebook it shows itself."""

    run: str
    device: str
    checked: Sequence[CheckResult]

    @property
    def passed(self) -> bool:
        """Whether none failed."""
        return not self.failed

    @property
    def failed(self) -> list[CheckResult]:
        return [each for each in self.checked if each.passed is False]

    @property
    def words(self) -> str:
        counts = Counter(each.result for each in self.checked)
        words = f"{counts['pass']} of {counts['pass'] + counts['FAIL']} checks passed"
        words += f", {counts['skipped']} skipped" if counts["skipped"] else ""
        words += f", {counts['does not apply']} not applicable" if counts["does not apply"] else ""
        return words + (f"; failed: {', '.join(each.name for each in self.failed)}" if self.failed else "")

    def view(self) -> View:
        table = Table(
            columns=["check", "result", "largest difference", "allowed", "what"],
            rows=[each.row for each in self.checked],
        )
        note = f"{self.words}. Differences are shares of the largest number compared; 0 is bit for bit."
        return View(f"Is {Path(self.run).name} right?", [table], note, f"{self.run}, on {self.device}")

    def save(self, path: str | Path) -> None:
        """Write them to .html, .png, .svg, .pdf or .json."""
        self.view().save(path)

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "device": self.device,
            "passed": self.passed,
            "checks": [each.to_dict() for each in self.checked],
        }
