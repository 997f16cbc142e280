"""Files that are whole or not there."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.config.errors import RunError, read_failure
from glassformer.config.limits import LimitExceeded, parse_json, refuse_endless
from glassformer.config.limits import read_text as limited_text
from glassformer.config.parts import part_of
from glassformer.runs.folders import flush, writing

MAX_DIGITS = 20
"""Maximum digits of an integer in a JSON file of a run: 64 bits and a sign."""
REMEDY = "restore it from a copy, or train again"


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; flushed and renamed to it at the end, removed after an error."""
    with writing(path), part_of(path) as temporary:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)


@contextlib.contextmanager
def text_writer(path: Path) -> Iterator[TextIO]:
    """A text file, which is there once all is written; until then, the one of before stays."""
    if path.exists() and not path.is_file():  # what the shell made of >(…)
        with path.open("w", encoding="utf-8") as to:
            yield to
    else:
        with aside(path) as part, part.open("w", encoding="utf-8", newline="") as to:
            yield to


def write_text(path: Path, text: str) -> None:
    """A name of a file that is not UTF-8 is written by the numbers of its bytes, which JSON reads back as they were."""
    with aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _whole_number(digits: str) -> int:
    """Raise `ValueError` for an integer with more digits than any file of a run has."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def read_json(path: Path, *, remedy: str = REMEDY) -> dict[str, Any]:
    """Read a JSON object of a run; `runs.json_shape` checks its contents. `remedy`: for the error of a damaged file."""
    try:
        value = parse_json(limited_text(path), str(path), parse_int=_whole_number)
    except LimitExceeded as error:
        raise RunError(str(error)) from None
    except (OSError, ValueError) as error:
        raise RunError(read_failure(path, error, remedy=remedy)) from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: {remedy} (it holds no object)")
    return value


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors, but not aside: for folders that are renamed as a whole. `metadata`: kept in the same file."""
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that nobody else may read
    contents = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(contents, path, dict(metadata) if metadata else None)
    path.chmod(mode)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    with writing(path), part_of(path) as folder:
        folder.mkdir()  # safetensors itself writes aside, under a name that nobody would sweep
        file = folder / path.name
        save_tensors(file, tensors, metadata)
        flush(file)
        os.replace(file, path)
        flush(path.parent)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(read_failure(path, error, remedy=REMEDY)) from None


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes in a file of tensors; no numbers are read."""
    try:
        refuse_endless(path)
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(read_failure(path, error, remedy=REMEDY)) from None


def read_metadata(path: Path) -> dict[str, str]:
    """What a file of tensors says beside them."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise RunError(read_failure(path, error, remedy=REMEDY)) from None


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """A digest of names, shapes, types and numbers, wherever the tensors are."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def json_digest(value: Any) -> str:
    """Return a digest of a value as JSON, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def digest(*paths: Path) -> str:
    """A digest of all bytes of some files, in this order."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: found)
    return found.hexdigest()
