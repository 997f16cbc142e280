"""Moments of a training: the weights as they were at some two dozen updates, to watch a model learn.

Which updates these are: 0, 1, 2, 4, 8, … at first, then multiples of one distance, and the last. The distance is the
least power of two at which no more than `EVENLY` multiples fit into the run. Where the time decides how long a run is,
the distance grows with it, and moments that no longer stand apart by it are forgotten. So the moments of a longer run
are among those of a shorter one, and a run that goes on, or is given more to do, ends with the same as one in one go.
"""

import re
from pathlib import Path

from torch import Tensor

from glassformer.runs.files import read_tensors, write_tensors
from glassformer.runs.folders import writing
from glassformer.runs.run import Run

EVENLY = 24
"""Moments at even distances, at most; twelve at least, in a run that is long enough."""


def due(step: int, total: int | None) -> bool:
    """Whether the weights after this update are kept. `total`: updates in all; None: nobody knows yet."""
    whole = max(step, total or 0)
    distance = 1
    while whole > EVENLY * distance:
        distance *= 2
    doubled = step & (step - 1) == 0  # 0, 1, 2, 4, 8, …
    return step == total or doubled or step % distance == 0


def keep(run: Run, step: int, weights: dict[str, Tensor], *, total: int | None) -> None:
    """One more moment; those that stand too close by now are forgotten."""
    folder = _folder(run)
    with writing(folder):
        folder.mkdir(exist_ok=True)
    write_tensors(_file(run, step), weights)
    thin(run, max(step, total or 0), but=step)


def thin(run: Run, total: int, *, but: int | None = None) -> None:
    """Forget what a run of so many updates would not keep."""
    for step in steps_of(run):
        if step != but and not due(step, total):
            forget(run, step)


def rewind(run: Run, step: int, *, total: int | None) -> None:
    """The moments as they were after this update, for a run that goes on from there to `total`."""
    for later in steps_of(run):
        if later > step:
            forget(run, later)
    thin(run, max(step, total or 0))


def forget(run: Run, step: int) -> None:
    _file(run, step).unlink(missing_ok=True)


def steps_of(run: Run) -> list[int]:
    """The updates whose weights were kept, first to last."""
    matches = (re.fullmatch(r"step-(\d+)\.safetensors", path.name) for path in _folder(run).glob("*"))
    return sorted(int(match.group(1)) for match in matches if match)


def weights_at(run: Run, step: int) -> dict[str, Tensor]:
    """The weights as a validation after that update saw them."""
    return read_tensors(_file(run, step))


def _folder(run: Run) -> Path:
    return run.path / "history"


def _file(run: Run, step: int) -> Path:
    return _folder(run) / f"step-{step}.safetensors"
