"""Budgets in CPU seconds, converted to updates, which do not depend on the load of the machine."""

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

WARM_UP, MIN_UPDATES, MAX_UPDATES = 3, 5, 50
"""Number of updates before measuring, since the first take longer; minimum and maximum number that are measured."""
MEASURED_SHARE = 0.05
"""Share of the budget after which measuring stops, if the minimum is reached."""
UPDATES = "updates"


class _Measured(Exception):
    """Enough updates were measured."""


@dataclass
class _Meter:
    """Listener that counts updates and the CPU seconds of this process."""

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
        if self.updates >= MAX_UPDATES or (self.updates >= MIN_UPDATES and self.spent >= MEASURED_SHARE * self.budget):
            raise _Measured


def row_updates(cpu_seconds: float, settings: Mapping[str, Any], folder: Path) -> int | None:
    """Return the number of updates for each seed of a row; None if this process was asked to stop.

    The first seed to measure it stores the number next to the job folders, of which `folder` is one, for all seeds.
    """
    kept = folder.parent / f"{folder.name.rpartition('-')[0]}.{UPDATES}.json"
    if not kept.is_file():
        updates = updates_within(cpu_seconds, settings, folder / "pilot")
        if updates is None:
            return None
        own = folder / f"{UPDATES}.json"
        write_json(own, {UPDATES: updates})
        with contextlib.suppress(FileExistsError):  # another seed stored it first
            os.link(own, kept)
        own.unlink()
    number = read_json(kept).get(UPDATES)
    if type(number) is not int or number < 1:
        raise RunError(f"{kept} is damaged: remove it to measure updates again")
    return number


def updates_within(cpu_seconds: float, settings: Mapping[str, Any], scratch: Path) -> int | None:
    """Measure how many updates one core makes in this time, without validations; None if asked to stop.

    A short training run with one thread measures it: with several, waiting threads would count.
    """
    meter = _Meter(cpu_seconds)
    updates = WARM_UP + MAX_UPDATES
    tried = {"training.threads": 1, "training.steps": updates, "training.validate_every": updates}
    try:
        train(None, out=scratch, draft=True, overwrite=True, listen=meter, log_to=(), **{**settings, **tried})
    except _Measured:
        return max(1, int(cpu_seconds * meter.updates / max(meter.spent, 1e-9)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return None
