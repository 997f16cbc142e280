"""The checks by name, and what each may differ by."""

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

ROUNDING = 2e-5
"""What the order of sums may do to scores, as a share of the largest."""
TRAINED_ELSEWHERE = 1e-2
"""What it may do to weights after a few updates, where a device adds up in no fixed order."""

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
ANOTHER_PROGRAM = {"exported": TOLERANCE}
"""What is computed by other kernels than torch's may differ by more."""
EXACT = {"looked-at", "saved", "resumed"}
"""What a CPU computes bit for bit."""


def run_checks(subject: Subject, names: Iterable[str]) -> Checks:
    checked = []
    with _full_precision():
        for name in names:
            say(f"{NAMES[name]} …")
            checked.append(_run_check(name, subject))
    return Checks(str(subject.loaded.run.path), str(subject.device), checked)


def _run_check(name: str, subject: Subject) -> CheckResult:
    """A check that breaks down has failed: one line says of what."""
    tolerance = ANOTHER_PROGRAM.get(name, ROUNDING)
    if name in EXACT:
        elsewhere = TRAINED_ELSEWHERE if name == "resumed" else ROUNDING
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
    """A GPU may round matrix products to fewer digits: here it must not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
