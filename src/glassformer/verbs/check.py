"""`glassformer check`: whether a run computes the same whichever way it is asked."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

import torch

from glassformer.checks.cached import cached
from glassformer.checks.export import exported
from glassformer.checks.folders import resumed, saved
from glassformer.checks.names import NAMES
from glassformer.checks.piped import piped
from glassformer.checks.result import Checked, Checks, DoesNotApply, Found
from glassformer.checks.scores import batched, looked_at, padded
from glassformer.checks.subject import Subject, subject_of
from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.config.say import Say, silent
from glassformer.exchange.comparison import TOLERANCE
from glassformer.families.base import OwnModel
from glassformer.runs.run import Run

ROUNDING = 2e-5
"""What the order of sums may do to scores, as a share of the largest."""
TRAINED_ELSEWHERE = 1e-2
"""And to weights after a few updates, where a device adds up in no fixed order."""

CHECKS: dict[str, Callable[[Subject], Found]] = {
    "cached": cached,
    "batched": batched,
    "padded": padded,
    "looked-at": looked_at,
    "saved": saved,
    "resumed": resumed,
    "exported": exported,
    "stdin": piped,
}
ANOTHER_PROGRAM = {"exported": TOLERANCE}
"""What is computed by other kernels than torch's may differ by more."""
EXACT = {"looked-at", "saved", "resumed"}
"""What a CPU computes bit for bit."""


def check(
    run: "str | os.PathLike[str] | Run",
    *,
    data: str | None = None,
    only: str | Iterable[str] | None = None,
    model: OwnModel | None = None,
    device: str = "auto",
    say: Say = silent,
) -> Checks:
    """Cached = uncached, batched = single, padded = unpadded, looked at = not, saved = loaded, resumed =
    uninterrupted, exported = original, file = stdin: the largest difference of each.

    `data`: where the run's data is now, if it has moved. `only`: some of the checks (`cached,padded`). `model`: a
    person's own, which the run does not hold.
    """
    chosen = _chosen(only)
    subject = subject_of(run, data=data, device=device, model=model, say=say)
    checked = []
    with _plain_numbers(subject.device):
        for name in chosen:
            say(f"{NAMES[name]} …")
            checked.append(_checked(name, subject))
    return Checks(str(subject.loaded.run.path), str(subject.device), checked)


def _chosen(only: str | Iterable[str] | None) -> list[str]:
    if only is None:
        return list(CHECKS)
    asked = [name.strip() for name in only.split(",")] if isinstance(only, str) else list(only)
    for name in asked:
        if name not in CHECKS:
            raise Misuse(unknown("check", name, CHECKS))
    return [name for name in CHECKS if name in asked]


def _checked(name: str, subject: Subject) -> Checked:
    """A check that breaks down has failed: one line says of what."""
    tolerance = ANOTHER_PROGRAM.get(name, ROUNDING)
    if name in EXACT:
        elsewhere = TRAINED_ELSEWHERE if name == "resumed" else ROUNDING
        tolerance = 0.0 if subject.device.type == "cpu" else elsewhere
    try:
        found = CHECKS[name](subject)
    except DoesNotApply as why:
        return Checked(NAMES[name], None, tolerance, None, str(why))
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), "")
        return Checked(NAMES[name], None, tolerance, False, f"{type(error).__name__}: {line}".rstrip(": "))
    return Checked(NAMES[name], found.difference, tolerance, found.difference <= tolerance, found.words)


@contextlib.contextmanager
def _plain_numbers(device: torch.device) -> Iterator[None]:
    """A GPU may round matrix products to fewer digits: here it must not."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
