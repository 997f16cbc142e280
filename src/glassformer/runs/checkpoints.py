"""Checkpoints: written under a temporary name, flushed, digested and renamed, so that a damaged one is recognised."""

import contextlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.config.json_types import JsonObject
from glassformer.config.parts import part_name, part_of
from glassformer.runs.files import digest, json_digest, read_json
from glassformer.runs.folders import flush, writing
from glassformer.runs.stored_tensors import Rows, StoredTensors, write_rows

STATE = "state.json"
SHARD = re.compile(r"shard-\d{5,}-of-\d{5,}\.safetensors")
"""A file with the rows of all tensors that one process wrote."""
PREFIXES = ("weights/", "optimiser/", "average/")
"""Prefixes of the names in such a file."""


class Checkpoint(NamedTuple):
    """A stored checkpoint; tensors are read when accessed."""

    weights: StoredTensors
    optimiser: StoredTensors
    state: JsonObject
    average: StoredTensors
    """Running average of the weights; empty if there is none."""


def step_of(path: Path) -> int:
    """Return the step of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first."""
    folders = [path for path in folder.glob("step-*") if path.is_dir() and re.fullmatch(r"step-\d+", path.name)]
    return sorted(folders, key=step_of)


def save_checkpoint(
    folder: Path,
    step: int,
    weights: Mapping[str, Tensor],
    optimiser: Mapping[str, Tensor],
    state: JsonObject,
    keep: int,
    average: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a checkpoint from one process.

    Of the checkpoints up to this step, the newest `keep` remain. Later ones, which are damaged, are deleted.
    """
    rows = {
        f"{start}{name}": Rows(tensor.detach().cpu())
        for start, tensors in zip(PREFIXES, (weights, optimiser, average or {}), strict=True)
        for name, tensor in tensors.items()
    }
    with part_of(folder / f"step-{step}"):
        temporary = begin_shards(folder, step)
        target = commit_shards(temporary, step, [save_shard(temporary, 0, 1, rows)], state)
    prune_checkpoints(folder, step, keep)
    return target


def begin_shards(folder: Path, step: int) -> Path:
    """Make the folder to which all processes write their shards of a checkpoint."""
    target = folder / f"step-{step}"
    with writing(target):
        folder.mkdir(exist_ok=True)  # without its parents, because the run must still exist
        temporary = part_name(target)
        temporary.mkdir()
    return temporary


def save_shard(temporary: Path, number: int, world: int, rows: Mapping[str, Rows]) -> str:
    """Write one process's rows of all tensors to one file and return its digest."""
    file = temporary / _shard_name(number, world)
    with writing(file):
        digest = write_rows(file, rows)
        flush(file)
    return digest


def commit_shards(temporary: Path, step: int, shards: Sequence[str], state: JsonObject) -> Path:
    """Turn the shards of all processes, with these digests, into a checkpoint."""
    target = temporary.parent / f"step-{step}"
    with writing(target):
        digests = {_shard_name(number, len(shards)): digest for number, digest in enumerate(shards)}
        text = json.dumps({**state, "digests": {**digests, STATE: json_digest(state)}}, indent=2)
        (temporary / STATE).write_text(text, encoding="utf-8")
        flush(temporary / STATE)
        flush(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        flush(target.parent)
    return target


def _shard_name(number: int, world: int) -> str:
    return f"shard-{number + 1:05}-of-{world:05}.safetensors"


def prune_checkpoints(folder: Path, step: int, keep: int) -> None:
    """Keep the newest checkpoints up to a step; delete older and later ones."""
    with contextlib.suppress(OSError):  # the next write reports a missing disk
        newest = [path for path in list_checkpoints(folder) if step_of(path) <= step][-keep:]
        for path in list_checkpoints(folder):
            if path not in newest:
                shutil.rmtree(path, ignore_errors=True)


def delete_checkpoint(folder: Path, step: int) -> None:
    shutil.rmtree(folder / f"step-{step}", ignore_errors=True)


def read_state(path: Path) -> tuple[JsonObject, dict[str, str]]:
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
    """Open a checkpoint; raise `RunError` if one of its files has changed."""
    state, digests = read_state(path)
    files = [path / name for name in digests if SHARD.fullmatch(name)]
    if not files:
        raise RunError(f"{path / STATE} is not as it was written")
    for file in files:
        if not file.is_file():
            raise RunError(f"{path} lacks {file.name}")
        if digest(file) != digests[file.name]:
            raise RunError(f"{file} is not as it was written")
    weights, optimiser, average = (StoredTensors.of_files(files, start) for start in PREFIXES)
    return Checkpoint(weights, optimiser, state, average)
