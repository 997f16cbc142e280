"""Data in memory, read as a file with the same content would be: texts, rows, and tables of other libraries.

None of these libraries is imported: an object is recognised by its methods.
"""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.data_section import POINT
from glassformer.config.errors import DataError, Misuse, error_line, with_article
from glassformer.data.columns.heuristics import number_in
from glassformer.data.columns.schema import Schema
from glassformer.data.io.picture_arrays import ArrayReader, labelled_images
from glassformer.data.io.place import exists, join_paths, looks_like_file_name
from glassformer.data.io.rows import as_text
from glassformer.data.io.table import Table, join_texts, require_columns, text_parts
from glassformer.data.wording import RowPosition, line_in_words, listed

T = TypeVar("T")
TEXT, LABEL = "text", "label"
"""Names of the members of pairs, for runs without column names."""
Spellings = Mapping[str, Collection[str]]
"""The values of some columns as they were spelled in training."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of another library, whose columns are read on request. Rows are counted from 0."""

    read: Callable[[Any], object]
    """Returns a column by its own name."""
    names: Mapping[str, object]
    """The table's own name of each column."""
    name: str
    is_lazy: bool = False
    """Whether reading the first column collects the table."""

    def require(self, column: str) -> None:
        require_columns(self.name, [column], self.names)

    def values(self, column: str) -> list[Any]:
        """Return the values of a column as Python objects."""
        self.require(column)
        try:
            return _listed(self.read(self.names[column]))
        except Exception as error:
            raise DataError(f"{self.name}: column '{column}' cannot be read: {error_line(error)}") from None

    def texts(self, column: str, *, optional: bool = False) -> list[str]:
        """Return the values of a column that holds only texts; several columns (title,body) are joined.

        `optional`: a missing text is empty, not an error.
        """
        if len(parts := text_parts(column, self.names)) > 1:
            filled = [map(_cell, self.values(part)) for part in parts]
            values: list[Any] = [join_texts(row) or None for row in zip(*filled, strict=True)]
        else:
            values = self.values(column)
        for row, value in enumerate(values):
            where = f"{self.name}, {line_in_words(RowPosition(row))}, column '{column}'"
            if is_missing(value):
                if not optional:
                    raise DataError(f"{where}: there is no text: leave such rows out, or write one")
            elif not isinstance(value, str):
                raise DataError(f"{where}: {with_article(value)} where a text is wanted")
        return [_cell(value) for value in values]

    def table(
        self,
        texts: Iterable[str],
        others: Iterable[str],
        spellings: Spellings,
        decimals: Mapping[str, str] = MappingProxyType({}),
        *,
        optional: bool = False,
    ) -> Table:
        """Return a table of these columns with empty cells for missing values.

        Raise `DataError` for a missing text unless texts are `optional`.
        """
        columns = {name: self.texts(name, optional=optional) for name in texts}
        for name in others:
            spelled, sign = _spelled(spellings.get(name, ())), decimals.get(name, POINT)
            columns[name] = [cell_text(value, spelled, sign) for value in self.values(name)]
        return Table(self.name, columns, list(map(RowPosition, range(len(next(iter(columns.values()), []))))))


def frame_of(data: Any) -> Frame | None:
    """Return a table of another library (DataFrame, LazyFrame, Dataset, Arrow table) as a frame, else None."""
    if isinstance(data, Frame):
        return data
    if isinstance(data, str | bytes | type) or not hasattr(type(data), "__getitem__"):
        return None
    kind = held_name(data)
    if all(callable(getattr(data, method, None)) for method in ("collect", "collect_schema")):
        try:
            names = data.collect_schema().names()
        except Exception as error:  # its query plan may read a missing file or column
            raise DataError(f"{kind} cannot be read: {error_line(error)}") from None
        collect = functools.cache(data.collect)
        return Frame(lambda column: collect()[column], {name.strip(): name for name in names}, kind, is_lazy=True)
    names = getattr(data, "column_names", None)
    if isinstance(names, Mapping):
        raise Misuse(f"{kind} holds several tables ({listed(names)}): choose one of them")
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or isinstance(data, Mapping):
        return None
    own: dict[str, object] = {}
    for name in names:
        if (plain := str(name).strip()) in own:
            raise DataError(f"{kind}: two columns are named '{plain}': rename one of them")
        own[plain] = name
    return Frame(data.__getitem__, own, kind)


def frame_of_rows(rows: Sequence[Mapping[str, Any]], name: str) -> Frame:
    """Return rows as a table; the values of columns that a row lacks are missing."""
    named = [{str(column): value for column, value in row.items()} for row in rows]
    names = dict.fromkeys(column for row in named for column in row)
    return frame_of_values({column: [row.get(column) for row in named] for column in names}, name)


def frame_of_values(columns: Mapping[str, list[Any]], name: str) -> Frame:
    return Frame(columns.__getitem__, {column: column for column in columns}, name)


def frame_of_columns(data: Mapping[Any, Any]) -> Frame | None:
    """Return columns by name as a table; None if the values are not columns."""
    if any(isinstance(values, str) or not hasattr(values, "__len__") for values in data.values()):
        return None
    frame = Frame(data.__getitem__, {str(name): name for name in data}, held_name(data))
    sizes = {name: len(values) for name, values in zip(frame.names, data.values(), strict=True)}
    if len(set(sizes.values())) > 1:
        lengths = ", ".join(f"'{name}' {size:,}" for name, size in sizes.items())
        raise DataError(f"{frame.name}: its columns are of different lengths ({lengths})")
    return frame


def frame_of_pairs(pairs: Iterable[tuple[str, object]], names: Sequence[str], name: str) -> Frame:
    return frame_of_values(dict(zip(names, map(list, zip(*pairs, strict=True)), strict=True)), name)


def pairs_in(data: object) -> list[Any] | None:
    """Return the pairs in a list of pairs, or in a tuple of texts and labels; None for other data."""
    if isinstance(data, tuple) and len(data) == 2 and all(map(_is_column, data)):
        texts, answers = map(_listed, data)
        if len(texts) != len(answers):
            raise DataError(f"{held_name(data)} holds {len(texts):,} texts, but {len(answers):,} labels")
        return list(zip(texts, answers, strict=True))
    return list(data) if isinstance(data, list | tuple) and data and all(map(is_pair, data)) else None


def is_pair(row: object) -> bool:
    return isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str)


def _is_column(values: object) -> bool:
    return isinstance(values, list) or getattr(values, "ndim", 0) == 1


def held_name(data: object) -> str:
    """Return the name of data in memory in messages."""
    return data.name if isinstance(data, Frame) else f"the {type(data).__name__}"


def several_paths(data: object) -> str | None:
    """Return one name for a list of `Path` objects or names of files or a folder; None if it is something else.

    A name that looks like a file's counts even if there is no such file: the list then names a missing file. Raise
    `DataError` if texts surround the name of an existing file.
    """
    if not isinstance(data, list | tuple) or not data:
        return None
    if all(isinstance(one, os.PathLike) or (isinstance(one, str) and _is_path_name(one)) for one in data):
        return join_paths(data)
    for text in data if all(isinstance(one, str) for one in data) else ():
        if any(sign in text for sign in "./") and " " not in text and _is_path_name(text) and exists(text):
            raise DataError(f"'{text}' is the name of a file or folder among texts: pass names alone, or texts alone")
    return None


def _is_path_name(text: str) -> bool:
    return looks_like_file_name(text) or (bool(text.strip(". ")) and exists(text))


def keep(data: Any, verb: str) -> Any:
    """Return data that can be read more than once: a path, a name, a table or a list; raise `Misuse` for other data."""
    if isinstance(data, os.PathLike):
        return os.fspath(data)
    if data is None or isinstance(data, str):
        return data
    if (paths := several_paths(data)) is not None:
        return paths
    if (frame := frame_of(data)) is not None:
        return frame if frame.is_lazy else data  # collected once, however often it is read
    if (arrays := labelled_images(data)) is not None:
        return arrays
    if isinstance(data, Mapping) and (columns := frame_of_columns(data)) is not None:
        return columns
    if isinstance(data, bytes | Mapping) or not _is_iterable(data):
        raise Misuse(f"{verb} wants a file, the name of a data set or a table, not {with_article(data)}")
    return pairs_in(data) or _listed(data)


@dataclass(frozen=True)
class MemoryReader:
    """A reader of data in memory for a run."""

    verb: str
    """The verb, for messages."""
    schema: Schema = field(default_factory=Schema)
    """The columns that the run reads. If it reads columns besides the text, examples are rows."""
    spellings: Spellings = field(default_factory=dict)
    decimals: Mapping[str, str] = field(default_factory=dict)
    """The decimal signs of the number columns in training."""
    arrays: ArrayReader | None = None
    """Reads arrays of pixels; None if the run reads no images."""

    @property
    def text(self) -> str | None:
        return self.schema.text

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.columns)

    def _parts(self, names: Container[str] = ()) -> list[str]:
        """Return the text columns of rows with these columns."""
        return text_parts(self.text, names)

    def _refusal(self, value: object, where: str = "") -> Misuse:
        wanted = "texts" if self.arrays is None else "image files or arrays of pixels"
        if self.columns:
            wanted = f"rows ({listed((*self._parts(), *self.columns))})"
        what = "a missing value" if value is not None and is_missing(value) else with_article(value)
        return Misuse(f"{self.verb} wants {wanted}, not {what}{where}")

    def is_one(self, data: Any) -> bool:
        """Return whether data is a single example."""
        if self.arrays is not None and self.arrays.is_one(data):
            return True
        return isinstance(data, str | bytes | os.PathLike) or _is_scalar(data) or self._row(data) is not None

    def examples(self, data: Any) -> "list[str] | list[str | Mapping[str, Any]] | list[NDArray[np.uint8]] | Table":
        """Return the examples: texts, images, or for runs that read further columns, rows or a table."""
        if self.arrays is not None and frame_of(data) is None and (pixels := self.arrays.pixels(data)) is not None:
            return list(pixels)
        if not self.columns:
            return self.texts(data)
        if (frame := frame_of(data)) is not None:
            texts = filter(None, [self.text_column(frame)])
            return frame.table(texts, self.columns, self.spellings, self.decimals, optional=True)
        return self._each(data, self._example)

    def texts(self, data: object) -> list[str]:
        """Return the texts of a table or of one or several examples."""
        if (frame := frame_of(data)) is not None:
            return frame.texts(str(self.text_column(frame)))
        return self._each(data, self._text)

    def frame(self, data: object) -> Frame:
        """Return a table, or a list of rows or of pairs as a table."""
        if (frame := frame_of(data)) is not None:
            return frame
        if not self.columns and (pairs := pairs_in(data)) is not None:
            names = (self.text or TEXT, next(iter(self.schema.labels), LABEL))
            return frame_of_pairs(pairs, names, held_name(data))
        rows = [self._row(one) for one in self._several(data)]
        if not rows or None in rows:
            raise Misuse(f"{self.verb} wants a table with what is right for each row, not {with_article(data)}")
        return frame_of_rows([row for row in rows if row is not None], held_name(data))

    def text_column(self, frame: Frame) -> str | None:
        """Return the text column that the run learned from, or the only one that holds texts if it knows no name.

        None: the run reads other columns only. Raises `DataError` if the table lacks a column that the run reads.
        """
        try:
            text = self.schema.match(frame.name, frame.names)
        except DataError as error:
            if self.columns:
                raise
            column = next(iter(self._text_columns(frame)), "NAME")
            advice = (
                f"reading={{'text': '{column}'}}" if self.verb == "evaluate" else f"the column itself, df['{column}']"
            )
            raise DataError(f"{error}: pass {advice}") from None
        if text is not None or self.columns:
            return text
        found = self._text_columns(frame)
        if len(found) == 1:
            return found[0]
        raise DataError(f"{frame.name}: which column holds the texts? give it alone (columns: {listed(frame.names)})")

    def _text_columns(self, frame: Frame) -> list[str]:
        """Return the columns that hold only texts."""
        filled = {name: [value for value in frame.values(name) if not is_missing(value)] for name in frame.names}
        texts = [name for name, values in filled.items() if values and all(isinstance(value, str) for value in values)]
        return [name for name in texts if name not in self.schema.labels]

    def ignored(self, data: object) -> list[str]:
        """Return the columns of a table, or of rows of which only the text is read, that the run does not read."""
        if (frame := frame_of(data)) is not None:
            return self.schema.ignored(frame.names, self.text_column(frame))
        rows = () if self.columns else [data] if isinstance(data, Mapping) else data if isinstance(data, list) else ()
        return self.schema.ignored(dict.fromkeys(str(name) for row in rows if isinstance(row, Mapping) for name in row))

    def _each(self, data: object, read: Callable[[Any, str], T]) -> list[T]:
        """Return the result of `read` for a single example or for each of several; errors state the position."""
        if self.is_one(data):
            return [read(data, "")]
        return [read(one, _position(place)) for place, one in enumerate(self._several(data))]

    def _several(self, data: Any) -> list[Any]:
        if isinstance(data, bytes | Mapping) or not _is_iterable(data):
            raise self._refusal(data)
        return _listed(data)

    def _text(self, value: Any, where: str) -> str:
        if _is_scalar(value):
            value = value.item()
        if len(self._parts()) > 1 and isinstance(value, str) and value.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        row = self._row(value)
        names = [] if row is None else [*map(str, row)]
        advice = ": pass the text itself"
        if row is not None and (text := self.schema.match(f"the row{where}", names, advice=advice)) is not None:
            parts = self._parts(row)
            value = row[text] if len(parts) == 1 else join_texts(_cell(row[part]) for part in parts)
        if self.arrays is not None and isinstance(value, os.PathLike):
            return os.fspath(value)
        if not isinstance(value, str):
            raise self._refusal(value, where)
        return str(value)

    def _example(self, value: Any, where: str) -> "str | Mapping[str, Any]":
        """Return the values of a row as text, or a row that is given as JSON."""
        if isinstance(value, str):
            return str(value)
        row = self._row(value)
        if row is None:
            raise self._refusal(value, where)
        return {
            name: cell_text(one, _spelled(self.spellings.get(name, ())), self.decimals.get(name, POINT))
            for name, one in zip(map(str, row), row.values(), strict=True)
        }

    def _row(self, value: Any) -> Mapping[str, Any] | None:
        """Return a row by column name, also a row of a DataFrame; None if it is not a row."""
        if isinstance(value, Mapping):
            return value
        keys = getattr(value, "keys", None)
        if not callable(keys) or isinstance(value, type) or frame_of(value) is not None:
            return None
        columns = list(keys())
        names = [*self._parts(columns), *self.columns]
        return {name: value[name] for name in columns} if names and all(name in columns for name in names) else None


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, NaN, or NA or NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _cell(value: object) -> str:
    """Return a text as it would be read from a file."""
    return "" if is_missing(value) else as_text(value)


def cell_text(value: Any, spelled: Mapping[Any, str], decimal: str = POINT) -> str:
    """Return a value as a file would contain it.

    `spelled`: spelling of numbers and truth values in training; `decimal`: the decimal sign.
    """
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        value = value.tolist()
    if is_missing(value):
        return ""
    if isinstance(value, bool):
        return spelled.get(str(value), spelled.get(float(value), str(value)))
    if isinstance(value, int | float) and value in spelled:
        return spelled[value]
    return as_text(value).replace(POINT, decimal) if isinstance(value, float) else as_text(value)


def _spelled(known: Iterable[str]) -> dict[Any, str]:
    """Return the spelling of each number, and of True and False, among the known values."""
    spelling: dict[object, str] = {}
    for value in known:
        truth, number = value.strip().capitalize(), number_in(value)
        if number is not None or truth in ("True", "False"):
            spelling.setdefault(truth if number is None else number, value)
    return spelling


def _position(place: int) -> str:
    return f" (position {place:,}, counted from 0)"


def _is_scalar(data: object) -> bool:
    """Return whether data is an array of one value without a length."""
    return not isinstance(data, str) and getattr(data, "ndim", None) == 0 and callable(getattr(data, "item", None))


def _is_iterable(data: Any) -> bool:
    try:
        iter(data)
    except TypeError:
        return False
    return True


def _listed(values: Any) -> list[Any]:
    """Return values as Python objects."""
    for convert in ("tolist", "to_pylist"):
        if callable(method := getattr(values, convert, None)):
            return list(method())
    return list(values)
