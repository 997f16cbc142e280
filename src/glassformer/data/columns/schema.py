"""The columns that a run reads, and the one place where a table's columns are matched with them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.columns.heuristics import named_columns
from glassformer.data.io.table import require_columns, text_parts
from glassformer.data.wording import listed


@dataclass(frozen=True)
class Schema:
    """Names and types of the columns that a run learned from, with the range of numbers and the known categories."""

    text: str | None = None
    """The text column; names of several joined columns are separated by commas. None if the run reads no text, or if
    its training data had no column names."""
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The other columns by name: their type (number, category, date, image), `range` or `values`."""
    labels: tuple[str, ...] = ()
    """The columns that the run learned to predict; tables to predict from need not have them."""
    named: bool = True
    """False if `text` is only the default name, because the training files had no column names."""

    def text_columns(self, names: Iterable[str] = ()) -> list[str]:
        """Return the columns whose joined values form the text, in a table with these columns."""
        return text_parts(self.text, [*names])

    def match(self, where: str, names: Collection[str], text: str | None = None, advice: str = "") -> str | None:
        """Return the text column of a table with these columns; raise `DataError` if the table lacks a column.

        `text`: the name of the text column in this table (--text), where it differs from the learned one. None: the
        run reads no text, or it does not know the name of its text column. `advice`: what to do if the text is all that
        the run reads, and its column is missing.
        """
        names = list(names)
        if text is not None:
            text = ",".join(named_columns(where, text, names, "--text"))
        elif self.named or all(name in names for name in self.text_columns(names)):
            text = self.text
            require_columns(where, self.text_columns(names), names, "" if self.columns else advice)
        require_columns(where, self.columns, names)
        return text

    def ignored(self, names: Iterable[str], text: str | None = None) -> list[str]:
        """Return the columns of a table that the run does not read; `text`: as `match` returned it."""
        names = list(names)
        known = {*text_parts(text or self.text, names), *self.columns, *self.labels}
        return [name for name in names if name not in known]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the type of each column, with the range of numbers and the known categories."""
        texts = {name: {"type": "text"} for name in self.text_columns()}
        return {**texts, **{name: dict(column) for name, column in self.columns.items()}}


def ignored_in_words(where: str, names: Collection[str]) -> str:
    """Return the line that names the columns that are not read; empty if there are none."""
    columns = listed([name or "a column without a name" for name in names])
    return f"{where}: not read: {columns} (this run did not learn from them)" if names else ""
