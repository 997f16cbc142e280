"""Results of checks, each as a row and together as a table."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from glassformer.config.json_types import JsonObject
from glassformer.rendering.panels import Table
from glassformer.rendering.view import Renderable, View


class DoesNotApply(Exception):
    """Raised by a check that does not apply to a run; the message is the reason."""


@dataclass(frozen=True)
class Deviation:
    """Difference between two computations of the same numbers, as a share of the largest number."""

    difference: float
    words: str
    """Description of the comparison."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check."""

    name: str
    difference: float | None
    """Largest difference as a share of the largest number compared; None if nothing was compared."""
    tolerance: float
    """Largest accepted difference; 0 requires bitwise equality."""
    passed: bool | None
    """Whether the difference is small enough; None if the check does not apply."""
    words: str
    """Description of the comparison, the reason why there is none, or the error."""
    skipped: bool = False
    """Whether a package that the check needs is missing; `passed` is then None."""

    @property
    def result(self) -> str:
        return "skipped" if self.skipped else {True: "pass", False: "FAIL", None: "does not apply"}[self.passed]

    @property
    def row(self) -> list[str]:
        """Return the cells of this check in the table of checks."""
        difference = "" if self.difference is None else f"{self.difference:.2g}"
        return [self.name, self.result, difference, f"{self.tolerance:.2g}", self.words]

    def to_dict(self) -> JsonObject:
        finite = self.difference is not None and math.isfinite(self.difference)
        return {**asdict(self), "difference": self.difference if finite else None}


@dataclass(frozen=True)
class Checks(Renderable):
    """Results of all checks of a run. A notebook displays them as a table."""

    run: str
    device: str
    checked: Sequence[CheckResult]

    @property
    def passed(self) -> bool:
        """Return whether no check failed."""
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
        """Write the table to a .html, .png, .svg, .pdf or .json file."""
        self.view().save(path)

    def to_dict(self) -> JsonObject:
        return {
            "run": self.run,
            "device": self.device,
            "passed": self.passed,
            "checks": [each.to_dict() for each in self.checked],
        }
