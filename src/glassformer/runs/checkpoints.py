"""Checkpoints: written aside, flushed, digested, renamed. A torn one is never mistaken for a whole one."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.config.parts import part_of
from glassformer.runs.files import digest, read_json, read_tensors, save_tensors
from glassformer.runs.folders import flush, writing

FILES = ("weights.safetensors", "optimiser.safetensors")
AVERAGE = "average.safetensors"
"""The file of the average, there only where the weights are averaged."""
STATE = "state.json"


class Checkpoint(NamedTuple):
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]
    average: dict[str, Tensor]
    """The average of the weights, empty where there is none."""


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    folders = [path for path in folder.glob("step-*") if path.is_dir() and re.fullmatch(r"step-\d+", path.name)]
    return sorted(folders, key=step_of)


def save_checkpoint(
    folder: Path,
    step: int,
    weights: dict[str, Tensor],
    optimiser: dict[str, Tensor],
    state: dict[str, Any],
    keep: int,
    average: dict[str, Tensor] | None = None,
) -> Path:
    """One more checkpoint; the oldest go, so that `keep` stay, and later ones, which were passed over as torn."""
    target = folder / f"step-{step}"
    contents = {**dict(zip(FILES, (weights, optimiser), strict=True)), **({AVERAGE: average} if average else {})}
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        with part_of(target) as temporary:
            temporary.mkdir()
            for name, tensors in contents.items():
                save_tensors(temporary / name, tensors)
                flush(temporary / name)
            digests = {name: digest(temporary / name) for name in contents}
            text = json.dumps({**state, "digests": {**digests, STATE: _digest_of(state)}}, indent=2)
            (temporary / STATE).write_text(text, encoding="utf-8")
            flush(temporary / STATE)
            flush(temporary)
            if target.exists():
                shutil.rmtree(target)
            temporary.rename(target)
            flush(folder)
    prune_checkpoints(folder, step, keep)
    return target


def prune_checkpoints(folder: Path, step: int, keep: int) -> None:
    """Of the checkpoints up to this step the newest stay, and none of later ones."""
    newest = [path for path in list_checkpoints(folder) if step_of(path) <= step][-keep:]
    for path in list_checkpoints(folder):
        if path not in newest:
            shutil.rmtree(path, ignore_errors=True)


def forget_checkpoint(folder: Path, step: int) -> None:
    shutil.rmtree(folder / f"step-{step}", ignore_errors=True)


def load_checkpoint(path: Path) -> Checkpoint:
    """What a checkpoint holds, if every file is as it was written."""
    try:
        state = read_json(path / STATE)
    except RunError:
        state = {}
    digests = state.pop("digests", None)
    if not isinstance(digests, dict) or digests.get(STATE) != _digest_of(state):
        raise RunError(f"{path / STATE} is not as it was written")
    averaged = AVERAGE in digests or (path / AVERAGE).exists()
    for name in (*FILES, AVERAGE) if averaged else FILES:
        file = path / name
        if not file.is_file():
            raise RunError(f"{path} lacks {name}")
        if digest(file) != digests.get(name):
            raise RunError(f"{file} is not as it was written")
    weights, optimiser = (read_tensors(path / name) for name in FILES)
    return Checkpoint(weights, optimiser, state, read_tensors(path / AVERAGE) if averaged else {})


def _digest_of(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
