"""Findings together: as words, as a page, as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.inside.panels import Panel, Table, Words
from glassformer.inside.view import View
from glassformer.training.finding import SEVERITIES, Finding

FROM_THE_LOG = (
    "the first loss against that of guessing",
    "whether the loss falls, jumps, or was still falling at the end",
    "the gradient of every layer",
    "validation after its best",
)
OF_THE_DATA = ("unknown and cut tokens, repeated examples, the sizes of the classes",)
OF_THE_MODEL = (
    "what is held out: enough of it, every class found, better than guessing",
    "the loss on the training part against validation",
    "dead units, heads, states and gates",
)
"""What is looked at, by what is needed for it."""


@dataclass(frozen=True)
class Findings(View):
    """What the doctor found in a run; the worst first."""

    findings: Sequence[Finding] = ()
    looked: Sequence[str] = ()
    """At what."""
    missing: str = ""
    """Why something could not be looked at; empty: nothing."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "note": self.note,
            "about": self.about,
            "findings": [finding.to_dict() for finding in self.findings],
            "looked": list(self.looked),
            "missing": self.missing,
        }


def findings_of(name: str, found: Iterable[Finding], looked: Sequence[str], missing: str = "") -> Findings:
    ordered = sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.step))
    note = in_short(ordered)
    return Findings(
        title=f"{name}: what the doctor found",
        panels=[finding_panel(ordered), Words(title="Looked at", text=_looked(looked, missing))],
        note=note,
        about=name,
        findings=tuple(ordered),
        looked=tuple(looked),
        missing=missing,
    )


def in_short(found: Sequence[Finding]) -> str:
    if not found:
        return "Nothing found: as far as these checks go, the training is healthy."
    counts = {severity: sum(one.severity == severity for one in found) for severity in SEVERITIES}
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count) + "."


def finding_panel(found: Sequence[Finding], title: str = "What the doctor found") -> Panel:
    """A table; or, of nothing, words."""
    if not found:
        return Words(title=title, text=in_short(found))
    rows: list[list[str | float | int | None]] = [[one.severity, one.step, one.words, one.advice] for one in found]
    return Table(title=title, columns=["how bad", "step", "what", "try"], rows=rows)


def logged_panel(metrics: Sequence[Mapping[str, Any]]) -> Panel:
    """For the report of a run: what its log holds."""
    found = [Finding.of(line) for line in metrics if line.get("event") == "finding"]
    return finding_panel(sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.step)))


def _looked(looked: Sequence[str], missing: str) -> str:
    return "; ".join(looked) + "." + (f" Not looked at: {missing}" if missing else "")
