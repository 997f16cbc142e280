"""Findings together: as words, as a page, as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.wording import counted
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import View
from glassformer.runs.files import SEVERITIES
from glassformer.training.finding import Finding

UNSEEN = "not looked at"
"""How the log names what could not be looked at."""


@dataclass(frozen=True)
class Findings(View):
    """What the doctor found in a run; the worst first."""

    findings: Sequence[Finding] = ()
    looked: Sequence[str] = ()
    """What was looked at."""
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


def findings_view(name: str, findings: Iterable[Finding], looked: Sequence[str], missing: str = "") -> Findings:
    ordered = _worst_first(findings)
    at = ("; ".join(looked) or "nothing") + "." + (f" Not looked at: {missing}" if missing else "")
    return Findings(
        title=f"{name}: what the doctor found",
        panels=[findings_panel(ordered, missing), Words(title="Looked at", text=at)],
        note=summary(ordered, missing),
        about=name,
        findings=tuple(ordered),
        looked=tuple(looked),
        missing=missing,
    )


def summary(findings: Sequence[Finding], missing: str = "") -> str:
    """`missing`: what could not be looked at, and why; then nobody can say that all is well."""
    if not findings and missing:
        return f"Nothing found in what was looked at. Not looked at: {missing}"
    if not findings:
        return "Nothing found: as far as these checks go, the training is healthy."
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}
    return ", ".join(counted(count, name) for name, count in counts.items() if count) + "."


def findings_panel(findings: Sequence[Finding], missing: str = "") -> Panel:
    """A table; or, of nothing, words."""
    title = "What the doctor found"
    if not findings:
        return Words(title=title, text=summary(findings, missing))
    return Table(
        title=title,
        columns=["how bad", "step", "what", "try"],
        rows=[[finding.severity, finding.step, finding.words, finding.advice] for finding in findings],
    )


def logged_panel(metrics: Sequence[Mapping[str, Any]]) -> Panel:
    """What a run's log holds, for its report."""
    findings = [Finding.of(line) for line in metrics if line.get("event") == "finding"]
    missing = next((line["why"] for line in metrics if line.get("event") == UNSEEN), "")
    return findings_panel(_worst_first(findings), missing)


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.step))
