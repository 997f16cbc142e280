"""Store data from memory in a file, so that later commands can read a run's data again.

The file's folder is named after its digest. The same data is always the same file, however many runs use it.
"""

import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from glassformer.config.arguments import check_type
from glassformer.config.errors import DataError, GlassformerError, Misuse, with_article
from glassformer.data.columns.heuristics import are_few
from glassformer.data.io import memory
from glassformer.data.io.aligned import SOURCE, TARGET
from glassformer.data.io.picture_arrays import HELD, labelled_images
from glassformer.data.io.place import HELD_DIGITS
from glassformer.families.base import FAMILIES
from glassformer.runs.files import aside
from glassformer.runs.folders import writing
from glassformer.runs.run import CARD, RUNS

FOLDER = "data"
"""Name of the folder for such files, beside the runs."""
WANTED = "texts, pairs (text, label) or (source, target), rows, a table, or arrays of images and labels"


Verb = TypeVar("Verb", bound=Callable[..., Any])


def takes_memory(verb: Verb) -> Verb:
    """Decorate a function whose first argument is training data, so that it always gets a path."""

    @functools.wraps(verb)
    def taking(*given: Any, **more: Any) -> Any:
        if len(given) > 1:
            raise Misuse(f"{verb.__name__} wants its data first, and all else by name ({verb.__name__}(data, steps=…))")
        data = given[0] if given else more.pop("data", None)
        if isinstance(section := more.pop("data", None), Mapping):
            more |= {f"data.{name}": value for name, value in section.items()}
        elif section is not None:
            raise Misuse(f"{verb.__name__} got its data twice: give it once")
        data = memory.several_paths(data) or data
        if data is None or isinstance(data, str | Path):
            return verb(data, **more)
        check_type("out", more.get("out"), str | Path | None)
        keep, task = more.get("keep_data", True), more.get("task")
        with data_file(data, more.get("out"), keep=keep, task=task) as path:
            return verb(path, **more)

    return cast("Verb", taking)


@contextmanager
def data_file(
    data: Any, out: str | os.PathLike[str] | None, *, keep: bool = True, task: str | None = None
) -> Iterator[Path]:
    """Yield the path of the data, or of the file to which data in memory is written.

    `out`: the run's folder, beside which the file is stored. The file is deleted at the end without `keep`, or if an
    error occurred and no run uses it. Errors name the data, not the file.
    """
    if isinstance(data, os.PathLike):
        yield Path(os.fspath(data))
        return
    name, kind, written = _contents(data, task)
    digest = hashlib.sha256(written).hexdigest()[:HELD_DIGITS]
    path = (Path(RUNS) if out is None else Path(out).absolute().parent) / FOLDER / digest / f"data.{kind}"
    is_new, beside = not path.exists(), path.parent.parent.parent
    was_there = beside.exists()
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_new:
            with aside(path) as temporary:
                temporary.write_bytes(written)
    try:
        yield path
    except BaseException as error:
        keep = keep and _is_used(path, out)
        if isinstance(error, GlassformerError):
            error.args = tuple(_named(one, path, name) for one in error.args)
        raise
    finally:
        if is_new and not keep:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # the folder may contain other data
                path.parent.rmdir()
                path.parent.parent.rmdir()
                if not was_there:
                    beside.rmdir()


def _is_used(path: Path, out: str | os.PathLike[str] | None) -> bool:
    """Return whether a run in `out` or beside the data has learned from it."""
    beside = path.parent.parent.parent
    cards = chain(beside.glob(f"*/{CARD}"), (beside if out is None else Path(out)).rglob(CARD))
    return any(path.parent.name in card.read_text(errors="replace") for card in cards)


def _named(line: Any, path: Path, name: str) -> Any:
    """Return a message in which the name of the data replaces the path of its file."""
    return line.replace(str(path.absolute()), name).replace(str(path), name) if isinstance(line, str) else line


def _contents(data: Any, task: str | None) -> tuple[str, str, bytes]:
    """Return the name of the data, the extension of its file, and the contents of that file."""
    if (arrays := labelled_images(data)) is not None:
        packed = io.BytesIO()
        np.savez_compressed(packed, images=np.asarray(arrays[0]), labels=np.asarray(arrays[1]))
        return HELD, "npz", packed.getvalue()
    frame = _frame(data, task)
    columns = {name: [memory.cell_text(value, {}) for value in frame.values(name)] for name in frame.names}
    rows = zip(*columns.values(), strict=True)
    lines = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
    if not lines:
        raise DataError(f"{frame.name} is empty: there is nothing to learn from")
    return frame.name, "jsonl", "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _frame(data: Any, task: str | None) -> memory.Frame:
    kind = memory.held_name(data)
    if (frame := memory.frame_of(data)) is not None:
        return frame
    if isinstance(data, Mapping):
        if (frame := memory.frame_of_columns(data)) is None:
            raise Misuse(f"train wants {WANTED}, not one row alone")
        return frame
    if isinstance(data, bytes) or not hasattr(data, "__iter__"):
        raise Misuse(f"train wants a file, the name of a data set, or {WANTED}; not {with_article(data)}")
    rows = memory.pairs_in(data) or (data.tolist() if hasattr(data, "tolist") else list(data))
    if all(isinstance(row, str) for row in rows):
        return memory.frame_of_values({memory.TEXT: rows}, kind)
    if all(isinstance(row, Mapping) for row in rows):
        return memory.frame_of_rows(rows, kind)
    if not all(map(memory.is_pair, rows)):
        raise Misuse(f"train wants {WANTED}; {kind} {_odd_row(rows)}")
    second = [row[1] for row in rows]
    translates = _are_texts(second) if task is None or task not in FAMILIES else FAMILIES[task].has_decoder
    return memory.frame_of_pairs(rows, (SOURCE, TARGET) if translates else (memory.TEXT, memory.LABEL), kind)


def _odd_row(rows: Sequence[Any]) -> str:
    """Return a description of the first row that has no known kind, or another kind than the first row."""
    if len(rows) == 2 and all(isinstance(row, list) and len(row) != 2 for row in rows):
        return "holds two lists: give list(zip(texts, labels))"
    kinds = [[isinstance(row, str), isinstance(row, Mapping), memory.is_pair(row)] for row in rows]
    place = next(place for place, kind in enumerate(kinds) if not any(kind) or kind != kinds[0])
    row = rows[place]
    size = f" of {len(row)}" if isinstance(row, tuple | list) else ""
    return f"has {with_article(row)}{size} at position {place:,} (counted from 0)"


def _are_texts(values: Sequence[Any]) -> bool:
    """Return whether values are texts to generate rather than labels: strings with too many values to be classes."""
    return all(isinstance(value, str) for value in values) and len(set(values)) > 1 and not are_few(values)
