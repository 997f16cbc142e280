"""What is wrong with a training: asked of a run, while it goes on or long after."""

from glassformer.config.errors import Misuse, Say, silent
from glassformer.diagnosis.doctor import diagnose
from glassformer.diagnosis.findings import Findings
from glassformer.families.base import AnyRun, Loaded, OwnModel
from glassformer.families.load import load, opened_run
from glassformer.training.device import choose_device


def doctor(run: AnyRun, *, model: OwnModel | None = None, device: str = "auto", say: Say = silent) -> Findings:
    """What a run's log, its data and its weights show. Where data or weights are not there, what was logged of them.

    `model`: a person's own, which a run does not hold.
    """
    choose_device(device)  # what is no device is refused, not taken for a model that cannot be looked at
    opened = opened_run(run)
    if "imported" in opened.card():
        raise Misuse(
            f"{opened.path} was imported: there is no training to look at; glassformer check {opened.path} looks at it"
        )
    return diagnose(opened, lambda: run if isinstance(run, Loaded) else load(opened, device, model=model), say)
