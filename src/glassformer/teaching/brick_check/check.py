"""`gf.check_brick`: compare a user's brick with the reference, one row per check."""

import contextlib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from glassformer.checks.result import CheckResult, Checks, Deviation
from glassformer.config.errors import Misuse, refuse_unknown
from glassformer.config.plugins import import_file, kind_of_part, named_in, parts_in, split_name
from glassformer.encoders.base import Encoder
from glassformer.rendering.panels import Words
from glassformer.rendering.view import View
from glassformer.teaching.brick_check import attention, feed_forward, functions, norm, pooling, positions, recurrent
from glassformer.teaching.brick_check.contract import Contract, Facts, contract, padded, tokens
from glassformer.teaching.brick_check.forward import Forward, compare_forward
from glassformer.teaching.brick_check.names import Offer, sizes
from glassformer.teaching.brick_check.rows import ROWS, checked, gradients, shapes
from glassformer.teaching.brick_check.steps import Case
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE, StudentError

ENCODER_WIDTH = 12


def encoder_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x = tokens(ENCODER_WIDTH, drawn)
    tried = (True, False) if "causal" in facts.built_with else (bool(getattr(facts.module, "causal", True)),)
    plain = (Case("plain", {**facts.options, "causal": causal}, {"x": x}) for causal in tried)
    return [case for one in plain for case in padded(facts, one)]


ENCODER = contract(
    "encoder",
    inputs=encoder_cases,
    sizes={
        "input_width": Offer(ENCODER_WIDTH, "input_size", always=False),
        **sizes(width=ENCODER_WIDTH, layers=2, heads=3, hidden=24, context=16, causal=True, dropout=0.0),
    },
)
"""Contract of an encoder. There is no reference for its outputs, but every other check applies."""
KINDS_WITH_REFERENCE = (pooling, attention, norm, positions, feed_forward, recurrent, functions)
CONTRACTS: list[Contract] = [*(each for kind in KINDS_WITH_REFERENCE for each in kind.CONTRACTS), ENCODER]
"""All contracts. If several patterns match a name, the first one applies."""
KINDS = list(dict.fromkeys(contract.name for contract in CONTRACTS))
GROUPS = list(dict.fromkeys(contract.group for contract in CONTRACTS if contract.group))


@dataclass(frozen=True)
class BrickChecks(Checks):
    """Results of the checks of a brick; `run` is its name. A notebook displays them."""

    like: str = ""
    """Kind of the reference brick."""
    first_wrong: str = ""
    """Description of the first wrong tensor, with the expected number; empty if there is none."""
    hint: str = ""
    """Likely reason of the difference; empty if unknown."""

    def view(self) -> View:
        labelled = {"First wrong tensor": self.first_wrong, "Likely reason": self.hint}
        reasons = [Words(text=f"{label}: {text}.") for label, text in labelled.items() if text]
        view = super().view()
        return replace(view, panels=[*reasons, *view.panels], about=f"{self.run}, compared with {self.like}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "brick": self.run,
            "like": self.like,
            "passed": self.passed,
            "first_wrong": self.first_wrong or None,
            "hint": self.hint or None,
            "checks": [each.to_dict() for each in self.checked],
        }


def check_brick(brick: "Callable[..., Any] | str | os.PathLike[str]", like: str | None = None) -> BrickChecks:
    """Compare your brick with the reference implementation, using the same weights.

    The checks cover outputs, gradients, causality, padding and more. The result has all checks, the first wrong tensor
    and the likely reason.
    `brick`: a class, a function, or `FILE.py:Name`. `like`: the kind of brick, such as attention, layer-norm or lstm
    (default: inferred from its name).
    """
    checked_brick = find_brick(brick)
    results = []
    with torch.random.fork_rng(devices=[]):
        for contract in find_contracts(checked_brick, like):
            results.append(_check(Subject(checked_brick, contract), contract))
            if results[-1].passed:
                break
    return min(results, key=lambda each: (not each.passed, not each.hint, len(each.failed)))


def _check(subject: Subject, contract: Contract) -> BrickChecks:
    rows = [checked("builds", partial(_build, subject))]
    if rows[-1].passed:
        with contextlib.suppress(StudentError):  # the next row reports it
            subject.settle()
        rows.append(checked("shapes", partial(shapes, subject)))
    is_usable = bool(rows[-1].passed)
    if is_usable and contract.steps and not contract.is_function:
        weights = checked("weights", partial(_read_weights, subject))
        rows += [] if weights.passed else [weights]
    if not rows[-1].passed:
        forward = Forward(_skipped("forward", rows[-1].name))
    elif contract.steps:
        forward = compare_forward(subject)
    else:
        forward = Forward(CheckResult("forward", None, TOLERANCE, None, "there is no reference for an encoder"))
    rows.append(forward.row)
    for name, check in ROWS.items():
        if not is_usable:
            rows.append(_skipped(name, rows[1 if rows[0].passed else 0].name))
        elif check is gradients and contract.steps and not forward.row.passed:
            rows.append(_skipped(name, "forward"))
        else:
            rows.append(checked(name, partial(check, subject)))
    return BrickChecks(subject.brick.__name__, "cpu", rows, contract.name, forward.first_wrong, forward.hint)


def _build(subject: Subject) -> Deviation:
    if subject.contract.is_function:
        return Deviation(0.0, f"a function of {', '.join(sorted(subject.takes))}")
    subject.build()
    sizes = ", ".join(f"{name}={subject.contract.sizes[name].value}" for name in sorted(subject.built_with))
    return Deviation(0.0, f"{subject.brick.__name__}({sizes})")


def _read_weights(subject: Subject) -> Deviation:
    weights = subject.bridge.read(dict(subject.with_weights().named_parameters()))
    return Deviation(0.0, f"{len(weights)} weights")


def _skipped(name: str, failed: str) -> CheckResult:
    """Return the row of a check that was skipped because the check `failed` failed."""
    return CheckResult(name, None, TOLERANCE, None, f"{failed} comes first")


# --- which brick, and which contract ---


def find_brick(brick: "Callable[..., Any] | str | os.PathLike[str]") -> Callable[..., Any]:
    """Return the class or function to check.

    `FILE.py:Name` imports it from a file. `FILE.py` alone must register exactly one brick.
    """
    if isinstance(brick, str | os.PathLike):
        file, name = split_name(os.fspath(brick))
        module = import_file(file)
        registered = parts_in(module)
        if name is None and len(registered) != 1:
            raise Misuse(f"which brick of {brick}? Name it: {brick}:Attention")
        brick = registered[0] if name is None else named_in(module, file, name)
    if inspect.isclass(brick) and issubclass(brick, nn.Module):
        return brick
    if inspect.isfunction(brick):
        return brick
    raise Misuse(f"a brick is a class of nn.Module or a function, not {brick!r}"[:200])


def find_contracts(brick: Callable[..., Any], like: str | None) -> list[Contract]:
    """Return the contracts to try: a single contract, or all contracts of a group."""
    is_function = not inspect.isclass(brick)
    fitting = [contract for contract in CONTRACTS if contract.is_function == is_function]
    if like is None and not is_function and issubclass(brick, Encoder):  # type: ignore[arg-type]
        return [ENCODER]
    name = re.sub(r"[_\W]", "", brick.__name__).lower()
    kind = like or kind_of_part(brick)
    if kind is None:
        named = [contract for contract in fitting if re.fullmatch(contract.pattern, name)]
        if not named:
            raise Misuse(f"what should {brick.__name__} be? Say --like (like=) one of {', '.join(KINDS)}")
        if named[0] is attention.ATTENTION and attention.needs_memory(brick):
            return [attention.CROSS_ATTENTION]
        return named[:1]
    refuse_unknown("kind of brick", kind, [*KINDS, *GROUPS], Misuse)
    of_kind = [contract for contract in fitting if kind in (contract.name, contract.group)]
    if not of_kind:
        raise Misuse(f"there is no {kind} that is a {'function' if is_function else 'class'}")
    return [contract for contract in of_kind if re.fullmatch(contract.pattern, name)][:1] or of_kind
