"""`gf.check_brick`: a brick of one's own, row by row."""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from glassformer.checks.result import CheckResult, Deviation
from glassformer.teaching.brick_check.contract import Contract
from glassformer.teaching.brick_check.finding import find_brick, find_contracts
from glassformer.teaching.brick_check.forward import Forward, compare_forward
from glassformer.teaching.brick_check.learning import gradients, overfits
from glassformer.teaching.brick_check.result import BrickChecks
from glassformer.teaching.brick_check.rows import ROWS, checked, shapes
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE, StudentError

ALL = {"gradients": gradients, **ROWS, "overfits one batch": overfits}
"""What follows forward."""


def check_brick(brick: "Callable[..., Any] | str | os.PathLike[str]", like: str | None = None) -> BrickChecks:
    """A brick of one's own held against ours with the same weights: what it gives, its gradients, causality,
    padding and more; the first tensor that is wrong, and the likely reason.

    `brick`: a class, a function, or `FILE.py:Name`. `like`: what it should be, such as attention, layer-norm, lstm;
    unset, its name says so.
    """
    found = find_brick(brick)
    results = []
    with torch.random.fork_rng(devices=[]):
        for contract in find_contracts(found, like):
            results.append(_check(found, contract))
            if results[-1].passed:
                break
    return min(results, key=lambda each: (not each.passed, not each.hint, len(each.failed)))


def _check(brick: Callable[..., Any], contract: Contract) -> BrickChecks:
    subject = Subject(brick, contract)
    rows = [checked("builds", partial(_builds, subject))]
    forward = Forward(_skipped("forward", "it is not built"))
    if rows[-1].passed is not False:
        with contextlib.suppress(StudentError):  # the next row says it
            subject.settle()
        rows.append(checked("shapes", partial(shapes, subject)))
    if rows[-1].passed is not False:
        forward = _forward(subject, rows)
    else:
        rows.append(_skipped("forward", f"{rows[-1].name} comes first"))
    reached = rows[-1].passed is not None or not contract.steps
    for name, row in ALL.items():
        if not reached and rows[1].passed is not True:
            rows.append(_skipped(name, f"{next(each.name for each in rows if each.passed is False)} comes first"))
        elif row is gradients and contract.steps and forward.row.passed is not True:
            rows.append(_skipped(name, "forward comes first"))
        else:
            rows.append(checked(name, partial(row, subject)))
    return BrickChecks(brick.__name__, "cpu", rows, contract.name, forward.first_wrong, forward.hint)


def _builds(subject: Subject) -> Deviation:
    if subject.contract.is_function:
        return Deviation(0.0, f"a function of {', '.join(sorted(subject.takes))}")
    subject.build()
    given = ", ".join(f"{name}={subject.contract.sizes[name].value}" for name in sorted(subject.built_with))
    return Deviation(0.0, f"{subject.brick.__name__}({given})")


def _forward(subject: Subject, rows: list[CheckResult]) -> Forward:
    """The row, and one of the weights where they cannot be brought over."""
    if not subject.contract.steps:
        rows.append(_skipped("forward", "there is no reference: what must hold of any encoder follows"))
        return Forward(rows[-1])
    if not subject.contract.is_function:
        try:
            subject.bridge.read(dict(subject.with_weights().named_parameters()))
        except StudentError as error:
            rows.append(CheckResult("weights", None, TOLERANCE, False, str(error)))
            rows.append(_skipped("forward", "weights come first"))
            return Forward(rows[-1])
    forward = compare_forward(subject)
    rows.append(forward.row)
    return forward


def _skipped(name: str, why: str) -> CheckResult:
    return CheckResult(name, None, TOLERANCE, None, why)
