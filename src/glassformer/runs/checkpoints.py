"""Checkpoints: written aside, flushed, digested, renamed. A torn one is never mistaken for a whole one."""

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.config.parts import part_name, part_of
from glassformer.runs.files import digest, json_digest, read_json, save_tensors, write_text
from glassformer.runs.folders import flush, writing
from glassformer.runs.stored_tensors import Rows, StoredTensors, write_rows

FILES = ("weights.safetensors", "optimiser.safetensors")
AVERAGE = "average.safetensors"
"""The file of the average, there only where the weights are averaged."""
STATE = "state.json"


SHARD = re.compile(r"shard-\d{5,}-of-\d{5,}\.safetensors")
"""A file of a checkpoint that several processes write, each its shards of all tensors."""
STARTS = ("weights/", "optimiser/", "average/")
"""What the names in such a file begin with."""


class Checkpoint(NamedTuple):
    """What is not asked for is not read."""

    weights: StoredTensors
    optimiser: StoredTensors
    state: dict[str, Any]
    average: StoredTensors
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
        folder.mkdir(exist_ok=True)  # in a run that is still there
        with part_of(target) as temporary:
            temporary.mkdir()
            for name, tensors in contents.items():
                save_tensors(temporary / name, tensors)
                flush(temporary / name)
            _commit(temporary, target, state, {name: digest(temporary / name) for name in contents})
    prune_checkpoints(folder, step, keep)
    return target


def _commit(temporary: Path, target: Path, state: dict[str, Any], digests: dict[str, str]) -> None:
    """What was written aside becomes a checkpoint."""
    text = json.dumps({**state, "digests": {**digests, STATE: json_digest(state)}}, indent=2)
    (temporary / STATE).write_text(text, encoding="utf-8")
    flush(temporary / STATE)
    flush(temporary)
    if target.exists():
        shutil.rmtree(target)
    temporary.rename(target)
    flush(target.parent)


# --- of several processes ---


def begin_shards(folder: Path, step: int) -> Path:
    """Where all processes write their shards of a checkpoint; made by the first."""
    with writing(folder):
        folder.mkdir(exist_ok=True)  # in a run that is still there
        temporary = part_name(folder / f"step-{step}")
        temporary.mkdir()
    return temporary


def save_shard(temporary: Path, number: int, world: int, rows: Mapping[str, Rows]) -> None:
    """A process's rows of all tensors, in one file."""
    file = temporary / _shard_name(number, world)
    with writing(file):
        found = write_rows(file, rows)
        flush(file)
        write_text(_digest_file(temporary, number), found)


def commit_shards(temporary: Path, step: int, world: int, state: dict[str, Any]) -> Path:
    """All processes have written: it is a checkpoint now."""
    folder = temporary.parent
    with writing(folder):
        digests = {}
        for number in range(world):
            file = _digest_file(temporary, number)
            digests[_shard_name(number, world)] = file.read_text(encoding="utf-8")
            file.unlink()
        target = folder / f"step-{step}"
        _commit(temporary, target, state, digests)
    return target


def _shard_name(number: int, world: int) -> str:
    return f"shard-{number + 1:05}-of-{world:05}.safetensors"


def _digest_file(temporary: Path, number: int) -> Path:
    return temporary / f"process-{number}.sha256"


def prune_checkpoints(folder: Path, step: int, keep: int) -> None:
    """Of the checkpoints up to this step the newest stay, and none of later ones."""
    with contextlib.suppress(OSError):  # a disk that is gone is told by who writes next
        newest = [path for path in list_checkpoints(folder) if step_of(path) <= step][-keep:]
        for path in list_checkpoints(folder):
            if path not in newest:
                shutil.rmtree(path, ignore_errors=True)


def forget_checkpoint(folder: Path, step: int) -> None:
    shutil.rmtree(folder / f"step-{step}", ignore_errors=True)


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a checkpoint's state and the digests of its files; raise `RunError` if the state has changed."""
    try:
        state = read_json(path / STATE)
    except RunError:
        state = {}
    digests = state.pop("digests", None)
    if not isinstance(digests, dict) or digests.get(STATE) != json_digest(state):
        raise RunError(f"{path / STATE} is not as it was written")
    return state, digests


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; raise an error if one of its files has changed."""
    state, digests = read_state(path)
    shards = [name for name in digests if SHARD.fullmatch(name)]
    averaged = AVERAGE in digests or (path / AVERAGE).exists()
    for name in shards or ((*FILES, AVERAGE) if averaged else FILES):
        file = path / name
        if not file.is_file():
            raise RunError(f"{path} lacks {name}")
        if digest(file) != digests.get(name):
            raise RunError(f"{file} is not as it was written")
    if shards:
        files = [path / name for name in shards]
        weights, optimiser, average = (StoredTensors.of_files(files, start) for start in STARTS)
    else:
        weights, optimiser = (StoredTensors.of_files([path / name]) for name in FILES)
        average = StoredTensors.of_files([path / AVERAGE] if averaged else [])
    return Checkpoint(weights, optimiser, state, average)
