"""Check whether a run is consistent, and diagnose its training: `gf.check` and `gf.doctor`."""

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
    """Check that equivalent ways to use a run give the same result. Return the largest difference for each check.

    The checks compare:

    - cached and uncached decoding
    - batched and single examples
    - padded and unpadded inputs
    - a model with and without hooks
    - a saved and a loaded model
    - resumed and uninterrupted training
    - an export and the original
    - a file and stdin

    `data`: the current path of the run's data if it has moved. `only`: names of checks (`cached,padded`). `export`: the
    folder of an export; unset, all exports recorded in the run. `model`: a user's own module, which the run's folder
    does not contain.
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
    """Diagnose a run from its log, its data and its weights. If data or weights are missing, use the log instead.

    `model`: a user's own module, which the run's folder does not contain.
    """
    choose_device(device)  # an unknown device is an error of its own, not a model that cannot be loaded
    opened = opened_run(run)
    if "imported" in opened.card():
        raise Misuse(f"{opened.path} was imported: there is no training to look at; use `check` instead")
    return diagnose(opened, lambda: run if isinstance(run, Loaded) else load(opened, device, model=model))
