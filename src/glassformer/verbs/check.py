"""`glassformer check`: whether a run computes the same whichever way it is asked."""

import os
from collections.abc import Iterable

from glassformer.checks.result import Checks
from glassformer.checks.run import choose_checks, run_checks
from glassformer.checks.subject import load_subject
from glassformer.config.errors import Say, silent
from glassformer.families.base import OwnModel
from glassformer.runs.run import Run


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
    names = choose_checks(only)
    return run_checks(load_subject(run, data=data, device=device, model=model, say=say), names, say)
