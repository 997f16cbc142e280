"""A folder's weights: one file, or, where they are many, shards that an index names, as Hugging Face writes them.

Several files cannot be renamed at once. So new shards and their index are written into a folder, and that is renamed to
`.weights-new` once it is whole: from then on these are the weights, and each file is looked for there first. They are
moved up one by one, by their writer or by whoever writes here next.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from glassformer.config.errors import RunError, read_failure
from glassformer.config.limits import parse_json
from glassformer.runs.files import (
    REMEDY,
    digest,
    read_json,
    read_metadata,
    read_tensors,
    save_tensors,
    tensor_shapes,
    write_json,
    write_tensors,
)
from glassformer.runs.folders import move_up, whole_folder, writing

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
NEW = ".weights-new"
"""Shards that are whole and wait to be moved up."""
SHARDS = "model-*-of-*.safetensors"
NAMES = (WHOLE, INDEX, SHARDS)
"""All files that may hold weights, or say where they are."""
SHARD_BYTES = 5 * 10**9
"""What a shard holds at most, as in Hugging Face's libraries; a tensor that is larger is a shard of its own."""
PYTORCH = {"format": "pt"}
"""What transformers wants to read in a file of safetensors."""
NOTES = "glassformer"
"""The one entry beside a run's weights: safetensors writes several in any order, and equal files are to be equal bytes.
"""

Value = TypeVar("Value")


# --- writing ---


def write(folder: Path, weights: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """The weights of a folder, with notes on them. Killed at any moment, those of before are there, or these."""
    with writing(folder / WHOLE):
        complete(folder)
        if len(_divide(weights)) == 1:
            write_tensors(folder / WHOLE, weights, {NOTES: json.dumps(notes)})
            (folder / INDEX).unlink(missing_ok=True)  # as long as there is one, its shards count
            written = {WHOLE}
        else:
            with whole_folder(folder / NEW) as place:
                written = save(place, weights, {NOTES: json.dumps(notes)})
            complete(folder)
        for old in [path for pattern in NAMES for path in folder.glob(pattern) if path.name not in written]:
            old.unlink()


def save(folder: Path, weights: Mapping[str, Tensor], metadata: Mapping[str, str]) -> set[str]:
    """Write weights, but not aside: for folders that are renamed as a whole. Gives the names of the files.

    `metadata`: kept in the one file, or in the index.
    """
    shards = _divide(weights)
    if len(shards) == 1:
        save_tensors(folder / WHOLE, weights, metadata)
        return {WHOLE}
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for name, shard in zip(names, shards, strict=True):
        save_tensors(folder / name, shard, PYTORCH)
    owners = {weight: name for name, shard in zip(names, shards, strict=True) for weight in shard}
    size = sum(weight.nbytes for weight in weights.values())
    write_json(folder / INDEX, {"metadata": {"total_size": size, **metadata}, "weight_map": owners})
    return {*names, INDEX}


def _divide(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The weights in their order, in as few shards as that allows."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, weight in weights.items():
        if shards[-1] and size + weight.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = weight
        size += weight.nbytes
    return shards


def complete(folder: Path) -> None:
    """Move up what a killed process has left whole."""
    if (folder / NEW).is_dir():
        move_up(folder / NEW, INDEX)


# --- reading ---


def main_file(folder: Path) -> Path:
    """The index, where there is one, or the one file of the weights, whether it is there or not."""
    indices = (folder / NEW / INDEX, folder / INDEX)
    return next((path for path in indices if path.is_file()), folder / WHOLE)


def files_of(folder: Path) -> list[Path]:
    """The file of the weights; or the index, and the shards that it names."""
    if (main := main_file(folder)).name == WHOLE:
        return [main]
    names = sorted(set(_owners(folder).values()))
    shards = [new if (new := folder / NEW / name).is_file() else folder / name for name in names]
    if missing := [path for path in shards if not path.is_file()]:
        raise RunError(f"{main} names {missing[0].name}, which is not there: {REMEDY}")
    return [main, *shards]


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights, and the notes on them."""
    return _of_one_save(folder, lambda: (_collect(folder, read_tensors), read_notes(folder)))


def digest_of(folder: Path) -> str:
    """A digest of all files of weights."""
    return _of_one_save(folder, lambda: digest(*files_of(folder)))


def _of_one_save(folder: Path, read: Callable[[], Value]) -> Value:
    """What is read of several files; read again, where a training has written others meanwhile."""
    while True:
        before = _version(folder)
        try:
            value = read()
        except (RunError, OSError):
            if _version(folder) == before:
                raise
            continue
        if _version(folder) == before:
            return value


def _version(folder: Path) -> tuple[Path, int, int] | None:
    try:
        main = main_file(folder)
        told = main.stat()
    except OSError:
        return None
    return main, told.st_ino, told.st_mtime_ns


def read_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights; no numbers are read."""
    return _collect(folder, tensor_shapes)


def read_notes(folder: Path) -> dict[str, Any]:
    """Return the notes on the weights."""
    path = main_file(folder)
    metadata = read_metadata(path) if path.name == WHOLE else _read_index(folder).get("metadata")
    try:
        notes = parse_json(metadata.get(NOTES, "{}"), str(path)) if isinstance(metadata, dict) else {}
    except (TypeError, ValueError) as error:
        raise RunError(read_failure(path, error, remedy=REMEDY)) from None
    return notes if isinstance(notes, dict) else {}


def has_notes(folder: Path) -> bool:
    """Return whether the notes on the weights can be read; they cannot if the file is torn."""
    try:
        read_notes(folder)
    except RunError:
        return False
    return True


def weight_map(index: Mapping[str, Any]) -> dict[str, str]:
    """The file of each tensor, by an index: a plain name, which cannot lead out of the folder. Else a ValueError."""
    owners = index.get("weight_map")
    if not isinstance(owners, dict) or not owners:
        raise ValueError("it has no weight_map")
    for file in owners.values():
        plain = isinstance(file, str) and file.isprintable() and Path(file).name == file
        if not plain or not file.endswith(".safetensors"):
            text = repr(file) if len(repr(file)) <= 40 else f"{repr(file)[:37]}…"
            raise ValueError(f"{text} is no name of a safetensors file beside it")
    return owners


def _collect(folder: Path, read: Callable[[Path], dict[str, Value]]) -> dict[str, Value]:
    """What is read of each file of weights, together: each shard must hold what the index says, and nothing else."""
    if (main := main_file(folder)).name == WHOLE:
        return read(main)
    owners, values = _owners(folder), dict[str, Value]()
    for shard in sorted(set(owners.values())):
        found = _read_newest(folder, shard, read)
        wrong = found.keys() ^ {name for name, owner in owners.items() if owner == shard}
        if wrong:
            raise RunError(f"{main} is damaged: of {shard} it says something else than is in it ({min(wrong)})")
        values |= found
    return values


def _owners(folder: Path) -> dict[str, str]:
    try:
        return weight_map(_read_index(folder))
    except ValueError as error:
        raise RunError(f"{main_file(folder)} is damaged: {error}") from None


def _read_index(folder: Path) -> dict[str, Any]:
    return _read_newest(folder, INDEX, read_json)


def _read_newest(folder: Path, name: str, read: Callable[[Path], Value]) -> Value:
    """A file that waits to be moved up, or else the one in its place: between two looks it may have been moved."""
    new = folder / NEW / name
    if new.exists():
        try:
            return read(new)
        except RunError:
            if new.exists():
                raise
    return read(folder / name)
