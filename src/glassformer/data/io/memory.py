"""What a program holds in memory, read as a file of the same would be: texts, rows, and tables of other libraries.

None of these libraries is imported: an object is known by what it can do.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from glassformer.config.data_section import POINT
from glassformer.config.errors import DataError, Misuse, error_line, with_article
from glassformer.data.columns.heuristics import number_in
from glassformer.data.io.rows import as_text
from glassformer.data.io.table import Table
from glassformer.data.wording import listed

Spellings = Mapping[str, Collection[str]]
"""The values of some columns, by their names, as they were spelled where a run learned them."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of another library, none of whose columns is read before it is asked for. Rows count from 0."""

    data: Any
    names: Mapping[str, Any]
    """What the table itself calls each column."""
    name: str

    def require(self, column: str) -> None:
        if column not in self.names:
            raise DataError(f"{self.name}: no column '{column}', which this run reads (columns: {listed(self.names)})")

    def values(self, column: str) -> list[Any]:
        """The values of a column, as Python has them."""
        self.require(column)
        try:
            return _listed(self.data[self.names[column]])
        except Exception as error:
            raise DataError(f"{self.name}: column '{column}' cannot be read: {error_line(error)}") from None

    def texts(self, column: str) -> list[str]:
        """The values of a column that holds nothing but texts."""
        values = self.values(column)
        for row, value in enumerate(values):
            where = f"{self.name}, row {row:,} (counted from 0), column '{column}'"
            if is_missing(value):
                raise DataError(f"{where}: there is no text: leave such rows out, or write one")
            if not isinstance(value, str):
                raise DataError(f"{where}: {with_article(value)} where a text is wanted")
        return [as_text(str(value)) for value in values]

    def table(
        self,
        texts: Iterable[str],
        others: Iterable[str],
        spellings: Spellings,
        decimals: Mapping[str, str] = MappingProxyType({}),
    ) -> Table:
        """These columns. Where one is no text, a missing value is what an empty cell is in a file."""
        columns = {name: self.texts(name) for name in texts}
        for name in others:
            spelled = _spelled(spellings.get(name, ()))
            sign = decimals.get(name, POINT)
            columns[name] = [cell_text(value, spelled, sign) for value in self.values(name)]
        return Table(self.name, columns, list(range(len(next(iter(columns.values()), [])))))

    def holds_texts(self, column: str) -> bool:
        there = [value for value in self.values(column) if not is_missing(value)]
        return bool(there) and all(isinstance(value, str) for value in there)


def frame_of(data: Any) -> Frame | None:
    """A table of another library (a DataFrame, a Dataset, a table of Arrow); None: it is none."""
    if isinstance(data, str | bytes | type) or not hasattr(type(data), "__getitem__"):
        return None
    names, kind = getattr(data, "column_names", None), f"the {type(data).__name__}"
    if isinstance(names, Mapping):
        raise Misuse(f"{kind} holds several tables ({listed(names)}): choose one of them")
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or isinstance(data, Mapping):
        return None
    own: dict[str, Any] = {}
    for name in names:
        if (plain := str(name).strip()) in own:
            raise DataError(f"{kind}: two columns are named '{plain}': rename one of them")
        own[plain] = name
    return Frame(data, own, kind)


def frame_of_rows(rows: Sequence[Mapping[str, Any]], name: str) -> Frame:
    """Rows as a table; a value that a row does not name is missing."""
    named = [{str(column): value for column, value in row.items()} for row in rows]
    names = dict.fromkeys(column for row in named for column in row)
    return Frame({column: [row.get(column) for row in named] for column in names}, {one: one for one in names}, name)


def keep(data: Any, verb: str) -> Any:
    """A path, a name, a table, or a list that can be read more than once; anything else is refused."""
    if isinstance(data, os.PathLike):
        return os.fspath(data)
    if data is None or isinstance(data, str) or frame_of(data) is not None:
        return data
    if isinstance(data, bytes | Mapping) or not _is_iterable(data):
        raise Misuse(f"{verb} wants a file, the name of a data set or a table, not {with_article(data)}")
    return _listed(data)


@dataclass(frozen=True)
class MemoryReader:
    """How a run reads what a program holds."""

    verb: str
    """What the run is asked to do."""
    text: str | None
    """The column of its texts, as it learned them; None: it has none, or never saw a table."""
    columns: tuple[str, ...] = ()
    """The other columns that it reads; if there are any, examples are rows."""
    apart: Collection[str] = ()
    """Columns of what it says, which are no text to read."""
    spellings: Spellings = field(default_factory=dict)
    decimals: Mapping[str, str] = field(default_factory=dict)
    """The decimal signs with which the run learned its columns of numbers."""
    files: bool = False
    """Whether texts name image files."""

    @property
    def _wanted(self) -> str:
        if self.columns:
            return f"rows ({listed(filter(None, (self.text, *self.columns)))})"
        return "image files" if self.files else "texts"

    def _refusal(self, value: Any, where: str = "") -> Misuse:
        what = "a missing value" if value is not None and is_missing(value) else with_article(value)
        return Misuse(f"{self.verb} wants {self._wanted}, not {what}{where}")

    def is_one(self, data: Any) -> bool:
        """Whether it is a single example, and not several."""
        return isinstance(data, str | bytes | os.PathLike) or _is_scalar(data) or self._row(data) is not None

    def examples(self, data: Any) -> "list[str] | list[str | Mapping[str, Any]] | Table":
        """What is to be read: texts, or where further columns are read, rows or a table of them."""
        if not self.columns:
            return self.texts(data)
        if (frame := frame_of(data)) is not None:
            return frame.table(filter(None, [self.text]), self.columns, self.spellings, self.decimals)
        if self.is_one(data):
            return [self._example(data)]
        return [self._example(one, _position(place)) for place, one in enumerate(self._several(data))]

    def texts(self, data: Any) -> list[str]:
        if (frame := frame_of(data)) is not None:
            return frame.texts(self.text_column(frame))
        if self.is_one(data):
            return [self._text(data)]
        return [self._text(one, _position(place)) for place, one in enumerate(self._several(data))]

    def frame(self, data: Any) -> Frame:
        """A table, or a list of rows as one."""
        if (frame := frame_of(data)) is not None:
            return frame
        rows = [self._row(one) for one in self._several(data)]
        if not rows or None in rows:
            raise Misuse(f"{self.verb} wants a table with what is right for each row, not {with_article(data)}")
        return frame_of_rows([row for row in rows if row is not None], f"the {type(data).__name__}")

    def text_column(self, frame: Frame) -> str:
        """The column that the run learned from, or the only one that holds texts."""
        if self.text in frame.names:
            return str(self.text)
        found = [name for name in frame.names if name not in self.apart and frame.holds_texts(name)]
        if len(found) == 1:
            return found[0]
        if self.text is not None:
            frame.require(self.text)
        raise DataError(f"{frame.name}: which column holds the texts? give it alone (columns: {listed(frame.names)})")

    def _several(self, data: Any) -> list[Any]:
        if isinstance(data, bytes | Mapping) or not _is_iterable(data):
            raise self._refusal(data)
        return _listed(data)

    def _text(self, value: Any, where: str = "") -> str:
        if _is_scalar(value):
            value = value.item()
        row = self._row(value)
        if row is not None and self.text is not None and self.text in row:
            value = row[self.text]
        if self.files and isinstance(value, os.PathLike):
            return os.fspath(value)
        if not isinstance(value, str):
            raise self._refusal(value, where)
        return str(value)

    def _example(self, value: Any, where: str = "") -> "str | Mapping[str, Any]":
        """A row: its values as text, or all of it as JSON."""
        if isinstance(value, str):
            return str(value)
        row = self._row(value)
        if row is None:
            raise self._refusal(value, where)
        if self.text is not None and self.text in row and is_missing(row[self.text]):
            raise DataError(f"there is no text in '{self.text}'{where}: leave such rows out, or write one")
        return {
            name: cell_text(one, _spelled(self.spellings.get(name, ())), self.decimals.get(name, POINT))
            for name, one in zip(map(str, row), row.values(), strict=True)
        }

    def _row(self, value: Any) -> Mapping[str, Any] | None:
        """A row by the names of its columns, also as a DataFrame gives one; None: it is none."""
        if isinstance(value, Mapping):
            return value
        names, keys = [name for name in (self.text, *self.columns) if name], getattr(value, "keys", None)
        if not names or not callable(keys) or isinstance(value, type) or frame_of(value) is not None:
            return None
        there = list(keys())
        return {name: value[name] for name in there} if all(name in there for name in names) else None


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, or what pandas has for it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def cell_text(value: Any, spelled: Mapping[Any, str], decimal: str = POINT) -> str:
    """A value as a file would have it. `spelled`: how numbers and truths were written where they were learned;
    `decimal`: with which sign."""
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
    """How each number, and True and False, are written among the known values."""
    found: dict[Any, str] = {}
    for value in known:
        truth, number = value.strip().capitalize(), number_in(value)
        if number is not None or truth in ("True", "False"):
            found.setdefault(truth if number is None else number, value)
    return found


def _position(place: int) -> str:
    return f" (position {place:,}, counted from 0)"


def _is_scalar(data: Any) -> bool:
    """Whether it is an array that holds one value and has no length."""
    return not isinstance(data, str) and getattr(data, "ndim", None) == 0 and callable(getattr(data, "item", None))


def _is_iterable(data: Any) -> bool:
    try:
        iter(data)
    except TypeError:
        return False
    return True


def _listed(values: Any) -> list[Any]:
    """The values, as Python has them."""
    for convert in ("tolist", "to_pylist"):
        if callable(method := getattr(values, convert, None)):
            return list(method())
    return list(values)
