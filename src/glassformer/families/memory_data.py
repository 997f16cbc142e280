"""Data that a program holds in memory, written once as a file: all that reads a run's data again finds it there.

The file's folder is named by its digest, so the same data is always the same file, however many runs learn from it.
"""

import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from glassformer.config.errors import DataError, Misuse, with_article
from glassformer.data.columns.heuristics import are_few
from glassformer.data.io.aligned import SOURCE, TARGET
from glassformer.data.io.memory import Frame, cell_text, frame_of, frame_of_rows
from glassformer.data.io.picture_arrays import IMAGES, LABELS
from glassformer.data.io.place import HELD_DIGITS
from glassformer.families.base import FAMILIES
from glassformer.runs.files import aside
from glassformer.runs.folders import writing
from glassformer.runs.run import RUNS

FOLDER = "data"
"""Where such files lie, beside the runs."""
TEXT, LABEL = "text", "label"
WANTED = "texts, pairs (text, label) or (source, target), rows, a table, or arrays of images and labels"


Verb = TypeVar("Verb", bound=Callable[..., Any])


def takes_memory(verb: Verb) -> Verb:
    """A verb whose first argument is data to learn from: it sees a path, whatever a program gives."""

    @functools.wraps(verb)
    def taking(data: Any = None, **more: Any) -> Any:
        if data is None or isinstance(data, str | Path):
            return verb(data, **more)
        keep, task = more.get("keep_data", True), more.get("task")
        with data_file(data, more.get("out"), keep=keep, task=task) as path:
            return verb(path, **more)

    return cast("Verb", taking)


@contextmanager
def data_file(
    data: Any, out: str | os.PathLike[str] | None, *, keep: bool = True, task: str | None = None
) -> Iterator[Path]:
    """The path of data, or of the file that data in memory is written to. `out`: the folder that is to come beside it;
    without `keep`, it is gone after this.
    """
    if isinstance(data, os.PathLike):
        yield Path(os.fspath(data))
        return
    kind, written = _contents(data, task)
    digest = hashlib.sha256(written).hexdigest()[:HELD_DIGITS]
    path = (Path(RUNS) if out is None else Path(out).absolute().parent) / FOLDER / digest / f"data.{kind}"
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with aside(path) as temporary:
                temporary.write_bytes(written)
    try:
        yield path
    finally:
        if not keep:
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def _contents(data: Any, task: str | None) -> tuple[str, bytes]:
    """The kind of file, and what is in it."""
    if (images := _images(data)) is not None:
        packed = io.BytesIO()
        np.savez_compressed(packed, images=images[0], labels=images[1])
        return "npz", packed.getvalue()
    frame = _frame(data, task)
    columns = {name: [cell_text(value, {}) for value in frame.values(name)] for name in frame.names}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"'{name}' {len(values):,}" for name, values in columns.items())
        raise DataError(f"{frame.name}: its columns are of different lengths ({sizes})")
    rows = zip(*columns.values(), strict=True)
    lines = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
    if not lines:
        raise DataError(f"{frame.name} is empty: there is nothing to learn from")
    return "jsonl", "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _images(data: Any) -> tuple[Any, Any] | None:
    """Arrays of pixels and of labels: as a pair of them, or by their names."""
    if isinstance(data, Mapping):
        names = {str(name).lower(): name for name in data}
        found = [next((names[one] for one in known if one in names), None) for known in (IMAGES, LABELS)]
        pair = None if None in found else tuple(data[name] for name in found)
    else:
        pair = data if isinstance(data, tuple) and len(data) == 2 else None
    if pair is None or getattr(pair[0], "ndim", 0) < 3:
        return None
    return np.asarray(pair[0]), np.asarray(pair[1])


def _frame(data: Any, task: str | None) -> Frame:
    kind = f"the {type(data).__name__}"
    if (frame := frame_of(data)) is not None:
        return frame
    if isinstance(data, Mapping):  # of columns
        if any(isinstance(values, str) or not hasattr(values, "__len__") for values in data.values()):
            raise Misuse(f"train wants {WANTED}, not one row alone")
        return Frame(data, {str(name): name for name in data}, kind)
    if isinstance(data, bytes) or not hasattr(data, "__iter__"):
        raise Misuse(f"train wants a file, the name of a data set, or {WANTED}; not {with_article(data)}")
    rows = data.tolist() if hasattr(data, "tolist") else list(data)
    if all(isinstance(row, str) for row in rows):
        return Frame({TEXT: rows}, {TEXT: TEXT}, kind)
    if all(isinstance(row, Mapping) for row in rows):
        return frame_of_rows(rows, kind)
    if all(isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str) for row in rows):
        first, second = (list(column) for column in zip(*rows, strict=True))
        translates = _are_texts(second) if task is None or task not in FAMILIES else FAMILIES[task].has_decoder
        names = (SOURCE, TARGET) if translates else (TEXT, LABEL)
        return Frame(dict(zip(names, (first, second), strict=True)), {name: name for name in names}, kind)
    odd = next(row for row in rows if type(row) is not type(rows[0]) or not isinstance(row, str | Mapping))
    raise Misuse(f"train wants {WANTED}; among {kind} there is {with_article(odd)}")


def _are_texts(values: Sequence[Any]) -> bool:
    """Whether they are texts to write, and not labels: too many to be classes."""
    return all(isinstance(value, str) for value in values) and not are_few(values)
