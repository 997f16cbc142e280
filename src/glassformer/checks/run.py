"""Checks by name, with their tolerances."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch

from glassformer.checks import NAMES
from glassformer.checks.command_line import check_stdin
from glassformer.checks.comparisons import (
    check_batched,
    check_cached,
    check_exported,
    check_looked_at,
    check_padded,
    check_resumed,
    check_saved,
)
from glassformer.checks.result import CheckResult, Checks, Deviation, DoesNotApply
from glassformer.checks.subject import Subject
from glassformer.config.errors import MissingPackage, error_line
from glassformer.config.messages import say
from glassformer.exchange.exporting import TOLERANCE

ROUNDING_TOLERANCE = 2e-5
"""Largest difference of scores that the order of summation explains, as a share of the largest score."""
GPU_TRAINING_TOLERANCE = 1e-2
"""Largest relative difference of weights after a few updates, on a device without a fixed order of summation."""

CHECKS: dict[str, Callable[[Subject], Deviation]] = {
    "cached": check_cached,
    "batched": check_batched,
    "padded": check_padded,
    "looked-at": check_looked_at,
    "saved": check_saved,
    "resumed": check_resumed,
    "exported": check_exported,
    "stdin": check_stdin,
}
OTHER_TOLERANCES = {"exported": TOLERANCE}
"""Tolerances of checks that use other kernels than PyTorch's."""
EXACT_ON_CPU = {"looked-at", "saved", "resumed"}
"""Checks that require bitwise equality on a CPU."""


def run_checks(subject: Subject, names: Iterable[str]) -> Checks:
    checked = []
    with _full_precision():
        for name in names:
            say(f"{NAMES[name]} …")
            checked.append(_run_check(name, subject))
    return Checks(str(subject.loaded.run.path), str(subject.device), checked)


def _run_check(name: str, subject: Subject) -> CheckResult:
    """Run one check. An exception counts as a failure, with the error as its description."""
    tolerance = OTHER_TOLERANCES.get(name, ROUNDING_TOLERANCE)
    if name in EXACT_ON_CPU:
        elsewhere = GPU_TRAINING_TOLERANCE if name == "resumed" else ROUNDING_TOLERANCE
        tolerance = 0.0 if subject.device.type == "cpu" else elsewhere
    try:
        deviation = CHECKS[name](subject)
    except DoesNotApply as why:
        return CheckResult(NAMES[name], None, tolerance, None, str(why))
    except MissingPackage as error:
        return CheckResult(NAMES[name], None, tolerance, None, str(error), skipped=True)
    except Exception as error:
        return CheckResult(NAMES[name], None, tolerance, False, error_line(error))
    return CheckResult(NAMES[name], deviation.difference, tolerance, deviation.difference <= tolerance, deviation.words)


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Disable TF32, with which a GPU rounds the inputs of matrix products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
