"""Files that are whole or not there."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.config.errors import RunError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a disk can do to a writer into one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise RunError(f"cannot write {path}: {reason}; what was there before is kept") from None


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; flushed and renamed to it at the end, removed after an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            yield temporary
            flush(temporary)
            os.replace(temporary, path)
            flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Down to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    with aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: it holds no object")
    return value


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Without writing aside: for folders that are renamed as a whole."""
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that nobody else may read
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, path)
    path.chmod(mode)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    with aside(path) as temporary:
        save_tensors(temporary, tensors)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read: {_reason(error)}") from None


def load_weights(model: torch.nn.Module, path: Path) -> None:
    put_weights(model, read_tensors(path), str(path))


def put_weights(model: torch.nn.Module, found: dict[str, Tensor], source: str) -> None:
    """Weights into a model that they must fit exactly; of shared ones, the first name stands there."""
    wanted = model.state_dict(keep_vars=True)
    names: dict[int, str] = {}
    for name, value in wanted.items():
        names.setdefault(id(value), name)
    needed = set(names.values())
    if missing := sorted(needed - found.keys()):
        raise RunError(f"{source} does not fit the model: it lacks {missing[0]} and {len(missing) - 1} more")
    if extra := sorted(found.keys() - wanted.keys()):
        raise RunError(f"{source} does not fit the model: it holds {extra[0]}, which the model has not")
    for name in sorted(needed):
        if found[name].shape != wanted[name].shape:
            has, wants = tuple(found[name].shape), tuple(wanted[name].shape)
            raise RunError(f"{source} does not fit the model: {name} is {has}, but must be {wants}")
    model.load_state_dict(found, strict=False)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)
