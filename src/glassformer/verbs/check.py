"""Whether a run is right, and what is wrong with its training: `gf.check` and `gf.doctor`."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from glassformer.checks import choose_checks
from glassformer.checks.result import Checks
from glassformer.checks.run import run_checks
from glassformer.checks.subject import load_subject
from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse
from glassformer.config.messages import Say, say, takes_listener
from glassformer.diagnosis.doctor import Findings, diagnose
from glassformer.families.base import AnyRun, Loaded, OwnModel
from glassformer.families.load import load, opened_run
from glassformer.runs.run import Run
from glassformer.training.device import choose_device


@check_arguments
@takes_listener
def check(
    run: "str | os.PathLike[str] | Run",
    *,
    data: str | None = None,
    only: str | Iterable[str] | None = None,
    export: str | os.PathLike[str] | None = None,
    model: OwnModel | None = None,
    device: str = "auto",
    say: Say = say,
) -> Checks:
    """Cached = uncached, batched = single, padded = unpadded, looked at = not, saved = loaded, resumed =
    uninterrupted, exported = original, file = stdin: the largest difference of each.

    `data`: where the run's data is now, if it has moved. `only`: some of the checks (`cached,padded`). `export`: the
    folder of an export; unset, all that the run says it was exported to. `model`: a person's own, which the run does
    not hold.
    """
    names = choose_checks(only)
    folder = None if export is None else Path(export)
    if folder is not None and not folder.is_dir():
        raise Misuse(f"--export {folder}: there is no such folder")
    subject = load_subject(run, data=data, device=device, model=model)
    return run_checks(replace(subject, export=folder), names)


@check_arguments
@takes_listener
def doctor(run: AnyRun, *, model: OwnModel | None = None, device: str = "auto", say: Say = say) -> Findings:
    """What a run's log, its data and its weights show. Where data or weights are not there, what was logged of them.

    `model`: a person's own, which a run does not hold.
    """
    choose_device(device)  # what is no device is refused, not taken for a model that cannot be looked at
    opened = opened_run(run)
    if "imported" in opened.card():
        raise Misuse(f"{opened.path} was imported: there is no training to look at; use `check` instead")
    return diagnose(opened, lambda: run if isinstance(run, Loaded) else load(opened, device, model=model))
