"""A budget in CPU seconds: how many updates of a training they are. Seconds on a clock buy fewer on a machine that has
other things to do; the work of one core for an update is the same.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import RunError
from glassformer.runs.files import read_json, write_json
from glassformer.training.events import Event, Stepped
from glassformer.verbs.train import train

WARM_UP, FEWEST, MOST = 3, 5, 50
"""Updates that are not measured, since the first take longer; the fewest that are, and the most."""
SHARE = 0.05
"""The part of the budget that measuring may take, beside it, once there are enough."""
UPDATES = "updates"


class _Enough(Exception):
    """Enough was measured."""


@dataclass
class _Meter:
    """Counts updates, and the CPU seconds that this process spent on them."""

    budget: float
    began: float = 0.0
    spent: float = 0.0
    updates: int = 0

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Stepped):
            return
        now = time.process_time()
        if event.step <= WARM_UP:
            self.began = now
            return
        self.updates, self.spent = event.step - WARM_UP, now - self.began
        if self.updates >= MOST or (self.updates >= FEWEST and self.spent >= SHARE * self.budget):
            raise _Enough


def row_updates(cpu_seconds: float, settings: Mapping[str, Any], folder: Path) -> int | None:
    """The updates of each seed of a row: the first that has measured them keeps the number beside the folders of jobs,
    of which `folder` is one, so that all make as many, however often they begin. None: it was asked to stop.
    """
    kept = folder.parent / f"{folder.name.rpartition('-')[0]}.{UPDATES}.json"
    if not kept.is_file():
        updates = updates_within(cpu_seconds, settings, folder / "pilot")
        if updates is None:
            return None
        own = folder / f"{UPDATES}.json"
        write_json(own, {UPDATES: updates})
        with contextlib.suppress(FileExistsError):  # another seed was faster
            os.link(own, kept)
        own.unlink()
    number = read_json(kept).get(UPDATES)
    if type(number) is not int or number < 1:
        raise RunError(f"{kept} is damaged: remove it, and updates are measured again")
    return number


def updates_within(cpu_seconds: float, settings: Mapping[str, Any], scratch: Path) -> int | None:
    """How many updates such a training makes in so many seconds of one core, validations left out; None: it was asked
    to stop. Some are made first, on one thread, lest threads that wait for each other count.
    """
    meter = _Meter(cpu_seconds)
    tried = {"training.threads": 1, "training.steps": WARM_UP + MOST, "training.validate_every": WARM_UP + MOST}
    try:
        train(None, out=scratch, draft=True, overwrite=True, listen=meter, log_to=(), **{**settings, **tried})
    except _Enough:
        return max(1, int(cpu_seconds * meter.updates / max(meter.spent, 1e-9)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return None
