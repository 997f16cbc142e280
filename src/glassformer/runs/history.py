"""Moments of a training run: stored weights of about two dozen updates, which show how a model learns.

The updates are 0, 1, 2, 4, 8, …, then multiples of a distance, and the last update. The distance is the smallest power
of two with at most `MAX_EVEN` multiples in the run. If a budget of minutes decides the length, the distance grows with
the run, and moments that are not multiples of it are deleted. A run that was resumed or extended therefore has the same
moments as an uninterrupted one.
"""

import re
from pathlib import Path

from torch import Tensor

from glassformer.runs.files import read_tensors, write_tensors
from glassformer.runs.folders import writing
from glassformer.runs.run import Run

MAX_EVEN = 24
"""Maximum number of moments at even distances; a run that is long enough has at least half as many."""


def due(step: int, total: int | None) -> bool:
    """Return whether to keep the weights of an update. `total`: number of updates of the run; None if unknown."""
    whole = max(step, total or 0)
    distance = 1
    while whole > MAX_EVEN * distance:
        distance *= 2
    doubled = step & (step - 1) == 0  # 0, 1, 2, 4, 8, …
    return step == total or doubled or step % distance == 0


def keep(run: Run, step: int, weights: dict[str, Tensor], *, total: int | None) -> None:
    """Store a moment and delete earlier ones that are now too close to each other."""
    folder = _folder(run)
    with writing(folder):
        folder.mkdir(exist_ok=True)
    write_tensors(_file(run, step), weights)
    thin(run, max(step, total or 0), newest=step)


def thin(run: Run, total: int, *, newest: int | None = None) -> None:
    """Delete the moments that a run of `total` updates would not keep, except `newest`."""
    for step in steps_of(run):
        if step != newest and not due(step, total):
            delete(run, step)


def rewind(run: Run, step: int, *, total: int | None) -> None:
    """Restore the moments of an earlier update, from which a run of `total` updates resumes."""
    for later in steps_of(run):
        if later > step:
            delete(run, later)
    thin(run, max(step, total or 0))


def delete(run: Run, step: int) -> None:
    """Delete the moment of an update."""
    _file(run, step).unlink(missing_ok=True)


def steps_of(run: Run) -> list[int]:
    """Return the updates with stored weights, in order."""
    matches = (re.fullmatch(r"step-(\d+)\.safetensors", path.name) for path in _folder(run).glob("*"))
    return sorted(int(match.group(1)) for match in matches if match)


def weights_at(run: Run, step: int) -> dict[str, Tensor]:
    """Return the weights that a validation after an update used."""
    return read_tensors(_file(run, step))


def _folder(run: Run) -> Path:
    return run.path / "history"


def _file(run: Run, step: int) -> Path:
    return _folder(run) / f"step-{step}.safetensors"
