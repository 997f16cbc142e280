"""Compare a brick's outputs with the reference; find the first wrong tensor and the likely reason."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.result import CheckResult
from glassformer.teaching.brick_check.contract import Contract
from glassformer.teaching.brick_check.steps import Case, Stages
from glassformer.teaching.brick_check.subject import Ran, Subject
from glassformer.teaching.brick_check.watch import alike, first_wrong
from glassformer.teaching.exercise import TOLERANCE, Mistake, StudentError, difference, first_apart

CLEAR_DIFFERENCE = 1e-3
"""Relative difference above any rounding error."""
MAX_UNKNOWN_SHARE = 0.7
"""Maximum share of nan in a tensor that is still compared."""


@dataclass(frozen=True)
class CaseRun:
    """Case, expected stages, and result of the student's brick."""

    case: Case
    expected: Stages
    ran: Ran

    @property
    def output(self) -> Tensor:
        """Return the output, with nan where the reference has nan."""
        right, given = self.expected["output"], self.ran.output.detach()
        return torch.where(right.isnan(), right, given.to(right.dtype)) if given.shape == right.shape else given

    @property
    def line(self) -> str | None:
        """Return a one-line description of the difference; None if there is none."""
        return difference(self.expected["output"], self.output, TOLERANCE)

    @property
    def deviation(self) -> float:
        """Return the largest difference, relative to the largest number."""
        return apart(self.expected["output"], self.output)


@dataclass(frozen=True)
class Forward:
    """Result of comparing a brick's outputs with the reference."""

    row: CheckResult
    first_wrong: str = ""
    hint: str = ""


def apart(expected: Tensor, given: Tensor) -> float:
    """Return the largest difference, relative to the largest number; infinite if shapes differ or a number is nan."""
    if expected.shape != given.shape:
        return math.inf
    known = ~expected.isnan()
    if not known.any():
        return 0.0
    expected, given = expected[known].detach().double(), given[known].detach().double()
    most = float((expected - given).abs().max())
    return most / max(1.0, float(expected.abs().max())) if math.isfinite(most) else math.inf


def compare_forward(subject: Subject) -> Forward:
    """Compare all cases with every variant of the reference, and store the best variant in the subject."""
    contract = subject.contract
    first, *_ = variants = subject.variants()
    tries: list[tuple[dict[str, Any], list[CaseRun] | StudentError]] = []
    for facts in variants:
        subject.settle_on({**subject.settled, **facts})
        tried, error = list[CaseRun](), None
        try:
            for case in subject.cases():
                tried.append(CaseRun(case, contract.expected(case), subject.run(case)))
        except StudentError as raised:
            error = raised
        is_wrong = any(one.line is not None for one in tried)  # wrong numbers are more informative than the error
        tries.append((facts, tried if error is None or is_wrong else error))
        if error is None and not is_wrong:
            what = ", ".join(dict.fromkeys(one.case.what for one in tried))
            chosen = {name: value for name, value in facts.items() if value != first[name] and name in contract.says}
            notes = [contract.says[name].format(value) for name, value in chosen.items()]
            words = "; ".join([f"{contract.signature}: {what}", *notes])
            return Forward(_row(max(one.deviation for one in tried), True, words))
    ranked = [(facts, *_ranked(contract, tried)) for facts, tried in tries]
    facts, _, best = min(ranked, key=lambda one: one[1])
    subject.settle_on({**subject.settled, **facts})
    return best


def _ranked(contract: Contract, tried: list[CaseRun] | StudentError) -> tuple[int, Forward]:
    """Return the rank of a variant, lower for a better explanation, and its comparison."""
    if isinstance(tried, StudentError):
        return 4, Forward(_row(None, False, str(tried)))
    failing = [one for one in tried if one.line is not None]
    clear = [one for one in failing if one.deviation > CLEAR_DIFFERENCE]
    wrong = clear[0] if clear else max(failing, key=lambda one: one.deviation)
    most = max(one.deviation for one in tried)
    words, name, given = first_wrong(contract, wrong.expected, wrong.ran.seen, wrong.ran.watch, wrong.ran.output)
    hint = _hint(contract, tried, wrong, name, given)
    line = f"first wrong tensor: {words}" if words else wrong.line
    where = "" if wrong.case.what == "plain" else f" ({wrong.case.what})"
    rank = 3 if not math.isfinite(most) else 2
    return (1 if hint else rank), Forward(_row(most, False, f"{line}{where}"), words, hint)


def _row(most: float | None, passed: bool, words: str) -> CheckResult:
    return CheckResult("forward", most, TOLERANCE, passed, words)


# --- the likely reason ---


def _hint(contract: Contract, tried: Sequence[CaseRun], wrong: CaseRun, stage: str, given: Tensor | None) -> str:
    """Return the hint of a known mistake that explains the output or the first wrong tensor; empty if none does."""
    known = contract.known_mistakes()
    matching = [mistake for mistake in known if _explains(mistake, wrong, "output", wrong.output)]
    others = [one for one in tried if one is not wrong]
    complete = [
        mistake for mistake in matching if all(_may_give(_made(mistake.wrong, one.case), one.output) for one in others)
    ]
    if not matching and given is not None and stage != "output":
        matching = [mistake for mistake in known if _explains(mistake, wrong, stage, given)]
    best = complete or matching
    return best[0].hint if best else ""


def _explains(mistake: Mistake, wrong: CaseRun, stage: str, actual: Tensor) -> bool:
    """Return whether a mistake turns the expected stage into the student's tensor."""
    made = _made(mistake.wrong, wrong.case)
    if made is None or stage not in made or alike(wrong.expected[stage], made[stage])[0]:
        return False
    return _gives(made[stage], actual)


def _made(wrong: Callable[..., Any], case: Case) -> Stages | None:
    try:
        return dict(wrong(case))
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):  # the mistake is impossible in this case
        return None


def _may_give(made: Stages | None, given: Tensor) -> bool:
    """Return whether a mistake is consistent with an output, or cannot be compared."""
    return made is None or _is_unknown(made["output"]) or _gives(made["output"], given)


def _is_unknown(made: Tensor) -> bool:
    return bool(made.isnan().float().mean() > MAX_UNKNOWN_SHARE)


def _gives(made: Tensor, given: Tensor) -> bool:
    """Return whether two outputs agree wherever the mistake's output is a number."""
    is_comparable = made.shape == given.shape and not _is_unknown(made)
    return is_comparable and first_apart(made, torch.where(made.isnan(), made, given), TOLERANCE) is None
