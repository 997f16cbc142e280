"""Files of a run, written atomically; only the log may end in half a line after a process was killed."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.config.errors import RunError, read_failure
from glassformer.config.json_types import JsonObject
from glassformer.config.limits import LimitExceeded, limits, parse_json, refuse_endless
from glassformer.config.limits import read_text as limited_text
from glassformer.config.messages import say
from glassformer.config.parts import part_of
from glassformer.data.wording import counted
from glassformer.runs.folders import flush, writing
from glassformer.runs.json_shape import WrongShape, check_shape

MAX_DIGITS = 20
"""Maximum digits of an integer in a JSON file of a run: 64 bits and a sign."""
Line = JsonObject
SEVERITIES = ("problem", "warning", "note")
"""Severities of findings, the worst first."""
REMEDY = "restore it from a copy, or train again"


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is flushed and renamed to `path` at the end, or deleted after an error."""
    with writing(path), part_of(path) as temporary:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)


@contextlib.contextmanager
def reading(path: "Path | str") -> Iterator[None]:
    """Turn an error in reading a file of tensors into a one-line error."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(read_failure(path, error, remedy=REMEDY)) from None


@contextlib.contextmanager
def text_writer(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces the existing one only after everything is written."""
    if path.exists() and not path.is_file():  # a pipe, such as the shell creates for >(…)
        with path.open("w", encoding="utf-8") as to:
            yield to
    else:
        with aside(path) as part, part.open("w", encoding="utf-8", newline="") as to:
            yield to


def write_text(path: Path, text: str) -> None:
    """Write a text atomically; surrogates from file names that are not UTF-8 are written as escapes."""
    with aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _whole_number(digits: str) -> int:
    """Raise `ValueError` for an integer with more digits than any file of a run has."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def read_json(path: Path, *, remedy: str = REMEDY) -> JsonObject:
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
    """Write tensors directly, for folders that are renamed as a whole. `metadata`: stored in the same file."""
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that only their owner may read
    contents = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(contents, path, dict(metadata) if metadata else None)
    path.chmod(mode)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    with writing(path), part_of(path) as folder:
        folder.mkdir()  # the temporary file of safetensors would not be swept
        file = folder / path.name
        save_tensors(file, tensors, metadata)
        flush(file)
        os.replace(file, path)
        flush(path.parent)


def read_tensors(path: Path) -> dict[str, Tensor]:
    return read_with_metadata(path)[0]


def read_with_metadata(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and its metadata, both from one version of the file."""
    with reading(path):
        while True:  # safetensors opens the file twice, for the header and for the values
            before = path.stat()
            with safe_open(path, framework="pt") as file:
                tensors, metadata = {name: file.get_tensor(name) for name in file.offset_keys()}, file.metadata() or {}
            after = path.stat()
            if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
                return tensors, metadata


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file of tensors by name, without reading values."""
    with reading(path):
        refuse_endless(path)
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a file of tensors."""
    with reading(path), safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of names, shapes, types and values, independent of the device."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def json_digest(value: Any) -> str:
    """Return a digest of a value as JSON, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- metrics.jsonl ---

LINE_SHAPES: dict[str, JsonObject] = {
    "step": {
        "step": int,
        **dict.fromkeys(("loss", "lr", "seconds", "done"), float),
        "gradient_norm": float | None,
        "layers": dict[str, dict[str, float]] | None,
    },
    "sample": {"step": int, "text": str},
    "finding": {"step": int, "kind": str, "words": str, "advice": str, "numbers": JsonObject},
}
"""Fields that readers of the log need, with their shapes, by event."""


def read_log(path: Path) -> list[Line]:
    """Return the complete lines of a log in their order; none if there is no log.

    A message reports the number of damaged lines. An incomplete line at the end does not count as damaged: a process
    was killed, or is still writing it.
    """
    if not path.is_file():
        return []
    lines: list[Line] = []
    damaged = 0
    refuse_endless(path)
    with path.open("rb") as file:  # its size grows with the training run, so only the length of a line is limited
        for text in iter(lambda: file.readline(limits().field_bytes), b""):
            line = _parse(text, str(path))
            if line is not None:
                lines.append(line)
            elif text.endswith(b"\n"):
                damaged += 1
    if damaged:
        say(f"{path}: {counted(damaged, 'damaged line')} left out of {damaged + len(lines):,}")
    return lines


def _parse(text: bytes, name: str) -> Line | None:
    """Return a line; None if it is damaged."""
    try:
        line = parse_json(text.decode("utf-8", errors="replace"), name)
    except (ValueError, LimitExceeded):
        return None
    return line if isinstance(line, dict) and _is_whole(line) else None


def _is_whole(line: Line) -> bool:
    """Return whether a line has the fields that its readers need; a line of an unknown event needs none."""
    event = line.get("event")
    shapes = LINE_SHAPES.get(str(event), {"step": int} if "step" in line else {})
    if event == "validation":
        shapes = {**{name: float for name in line if name not in ("event", "best")}, "step": int}
    try:
        for name, shape in {**shapes, "why": str | None}.items():
            check_shape(line.get(name), shape)
    except WrongShape:
        return False
    return line.get("step", 0) >= 0 and (event != "finding" or line.get("severity") in SEVERITIES)
