"""Findings together: as words, as a page, as JSON."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.diagnosis import flat, gap, gradients, rate
from glassformer.diagnosis.patient import Patient
from glassformer.diagnosis.story import Story
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import View
from glassformer.training.finding import SEVERITIES, Finding

OF_THE_DATA = ("unknown and cut tokens, repeated examples, the sizes of the classes",)
OF_THE_MODEL = (
    "what is held out: enough of it, every class found, better than guessing",
    "the loss on the training part against validation",
    "dead units, heads, states and gates",
)
"""What is looked at, by what is needed for it."""
STRICT = "GLASSFORMER_STRICT"
"""Set in the environment: a model that cannot be looked at is an error."""
UNSEEN = "not looked at"
"""How the log names what could not be looked at."""


def from_the_log(story: Story, patient: Patient, *, ended: bool) -> list[str]:
    """What a log of this length can tell."""
    there = {
        "the first loss against that of guessing": bool(story.steps) and patient.judges_first,
        "whether the loss falls": len(story.losses) >= flat.ENOUGH,
        "whether the loss jumps": len(story.losses) >= 2 * rate.BEFORE,
        "the gradient of every layer that learns": len(story.layers) >= gradients.LEAST_STEPS,
        "validation after its best": len(story.validations) > gap.AFTER,
        "whether it was still falling at the end": ended and len(story.validations) > 1,
    }
    return [what for what, enough in there.items() if enough]


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
    note = in_short(ordered, missing)
    return Findings(
        title=f"{name}: what the doctor found",
        panels=[finding_panel(ordered, missing), Words(title="Looked at", text=_looked(looked, missing))],
        note=note,
        about=name,
        findings=tuple(ordered),
        looked=tuple(looked),
        missing=missing,
    )


def in_short(found: Sequence[Finding], missing: str = "") -> str:
    """`missing`: what could not be looked at, and why; then nobody can say that all is well."""
    if not found and missing:
        return f"Nothing found in what was looked at. Not looked at: {missing}"
    if not found:
        return "Nothing found: as far as these checks go, the training is healthy."
    counts = {severity: sum(one.severity == severity for one in found) for severity in SEVERITIES}
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count) + "."


def finding_panel(found: Sequence[Finding], missing: str = "") -> Panel:
    """A table; or, of nothing, words."""
    title = "What the doctor found"
    if not found:
        return Words(title=title, text=in_short(found, missing))
    rows: list[list[str | float | int | None]] = [[one.severity, one.step, one.words, one.advice] for one in found]
    return Table(title=title, columns=["how bad", "step", "what", "try"], rows=rows)


def logged_panel(metrics: Sequence[Mapping[str, Any]]) -> Panel:
    """For the report of a run: what its log holds."""
    found = [Finding.of(line) for line in metrics if line.get("event") == "finding"]
    missing = next((line["why"] for line in metrics if line.get("event") == UNSEEN), "")
    return finding_panel(sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.step)), missing)


def strict() -> bool:
    """Whether a model that cannot be looked at is an error."""
    return bool(os.environ.get(STRICT))


def in_a_line(error: Exception) -> str:
    """What went wrong in a model that may be a person's own."""
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"


def _looked(looked: Sequence[str], missing: str) -> str:
    return ("; ".join(looked) or "nothing") + "." + (f" Not looked at: {missing}" if missing else "")
