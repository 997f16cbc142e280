"""Texts, rows and tables that a program holds: read by what they can do, and refused in a line that says where."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from glassformer.config.errors import DataError, Misuse
from glassformer.data.columns.schema import Schema
from glassformer.data.io.memory import MemoryReader, cell_text, frame_of, keep
from glassformer.data.io.picture_arrays import ArrayReader

TEXTS = ["good soup", "dull, 'plain'", ""]
ROWS = {"text": TEXTS, "n": [1, 2, 3], "label": ["a", "b", "a"]}
READER = MemoryReader("predict", Schema("text", labels=("label",)))
BESIDE = MemoryReader(
    "predict",
    Schema("text", {"n": {"type": "category"}, "city": {"type": "category"}}, ("label",)),
    {"n": ("1.0", "02"), "city": ("true", "false")},
)


class Columnar:
    """A table as polars has one: names of columns, and a series for each."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.held = columns

    @property
    def columns(self) -> list[str]:
        return list(self.held)

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        return tuple(self.held[name])


class Lazy(Columnar):
    def __getitem__(self, name: str) -> tuple[Any, ...]:
        raise TypeError("not subscriptable\nafter all")


TABLES = [pd.DataFrame, Columnar, datasets.Dataset.from_dict, pa.table, pl.LazyFrame]
SEVERAL = [list, tuple, iter, np.array, pd.Series, pd.Index, pa.array, lambda texts: np.array(texts, object)]


@pytest.mark.parametrize("make", SEVERAL)
def test_texts_of_every_sequence(make: Any) -> None:
    found = READER.texts(make(TEXTS))
    assert found == TEXTS
    assert {type(text) for text in found} == {str}
    assert not READER.is_one(make(TEXTS))


@pytest.mark.parametrize("make", TABLES)
def test_texts_of_a_table_are_those_of_a_column(make: Any) -> None:
    assert READER.texts(make(ROWS)) == TEXTS
    assert not READER.is_one(make(ROWS))
    renamed = {"body": TEXTS, "n": ROWS["n"], "label": ROWS["label"]}
    with pytest.raises(DataError, match=r"no column 'text', which this run reads \(columns: body, n, label\)"):
        READER.texts(make(renamed))  # the only texts there are, but not the column that was learned from
    unnamed = MemoryReader("embed", Schema(labels=("label",)))
    assert unnamed.texts(make(renamed)) == TEXTS  # the only texts: labels are no text to read
    with pytest.raises(DataError, match="no column 'text'"):
        READER.texts(make({"n": [1, 2]}))
    with pytest.raises(DataError, match="which column holds the texts"):
        MemoryReader("embed").texts(make({"one": TEXTS, "two": TEXTS}))


def test_a_lazy_table_is_collected_once() -> None:
    collected = []

    def collect(frame: pl.DataFrame) -> pl.DataFrame:
        collected.append(frame)
        return frame

    lazy = pl.LazyFrame(ROWS).map_batches(collect)
    kept = keep(lazy, "evaluate")
    assert collected == []
    assert READER.texts(kept) == READER.frame(kept).values("text") == TEXTS
    assert len(collected) == 1


@pytest.mark.parametrize("make", TABLES)
def test_a_missing_text_is_refused_with_its_row(make: Any) -> None:
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\), column 'text': there is no text"):
        READER.texts(make({"text": ["a", None, "b"]}))


def test_a_single_text() -> None:
    row = pd.DataFrame(ROWS).iloc[1]
    for one in ("a", np.str_("a"), np.array("a"), {"text": "a"}, pd.Series({"text": "a", "n": 3})):
        assert READER.is_one(one)
        assert READER.texts(one) == ["a"]
    assert READER.texts(row) == [TEXTS[1]]
    assert READER.texts([row, {"text": "a"}]) == [TEXTS[1], "a"]
    files = MemoryReader("predict", arrays=ArrayReader((8, 8), 1))
    assert files.is_one(Path("a.png"))
    assert files.texts([Path("a.png"), "b.png"]) == ["a.png", "b.png"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, "predict wants texts, not None"),
        (3, "predict wants texts, not an int"),
        (b"a", "predict wants texts, not a bytes"),
        (Path("a"), "predict wants texts, not a PosixPath"),
        ({"other": "a"}, "the row: no column 'text', which this run reads (columns: other): pass the text itself"),
        ([None], "predict wants texts, not None (position 0, counted from 0)"),
        (["a", 3], "predict wants texts, not an int (position 1, counted from 0)"),
        (pd.Series(["a", "b", None]), "predict wants texts, not a missing value (position 2, counted from 0)"),
        (np.ones((2, 2)), "predict wants texts, not a list (position 0, counted from 0)"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "the DataFrame: two columns are named 'text': rename "
         "one of them"),
        (pd.DataFrame({"text": ["a", 3]}), "the DataFrame, row 1 (counted from 0), column 'text': an int where a text "
         "is wanted"),
        (Lazy(ROWS), "the Lazy: column 'text' cannot be read: TypeError: not subscriptable"),
        (datasets.DatasetDict(train=datasets.Dataset.from_dict(ROWS)), "the DatasetDict holds several tables (train): "
         "choose one of them"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_a_line(given: Any, line: str) -> None:
    with pytest.raises(Misuse) as refused:
        READER.texts(given)
    assert str(refused.value) == line


@pytest.mark.parametrize("make", [*TABLES, lambda columns: pd.DataFrame(columns).to_dict("records")])
def test_rows_are_spelled_as_they_were_learned(make: Any) -> None:
    """A number by any of its spellings, True and False; what is missing is empty."""
    found = BESIDE.examples(make({"text": ["a", "b", "c"], "n": [1, 2, None], "city": [True, False, None]}))
    columns = ("text", "n", "city")
    rows = [tuple(row[name] for name in columns) for row in found] if isinstance(found, list) else None
    if rows is None:
        rows = list(zip(*(found.columns[name] for name in columns), strict=True))
    assert rows == [("a", "1.0", "true"), ("b", "02", "false"), ("c", "", "")]


def test_what_is_no_row_is_refused_in_a_line() -> None:
    for given, line in (
        (None, "predict wants rows (text, n, city), not None"),
        ([{"text": "a"}, 3], "predict wants rows (text, n, city), not an int (position 1, counted from 0)"),
        (pd.DataFrame({"text": ["a"], "n": [1]}), "the DataFrame: no column 'city', which this run reads (columns: "
         "text, n)"),
    ):  # fmt: skip
        with pytest.raises(Misuse) as refused:
            BESIDE.examples(given)
        assert str(refused.value) == line


def test_cells() -> None:
    cells = [None, float("nan"), pd.NA, pd.NaT, np.float32("nan"), True, np.bool_(False), 3, 2.5, np.int64(7), ["a", 1]]
    found = [cell_text(cell, {}) for cell in cells]
    assert found == ["", "", "", "", "", "True", "False", "3", "2.5", "7", '["a", 1]']
    assert cell_text(np.array(["a", "b"]), {}) == '["a", "b"]'


def test_data_is_kept_to_be_read_again() -> None:
    frame = pd.DataFrame(ROWS)
    assert keep(frame, "evaluate") is frame
    assert keep(iter(TEXTS), "evaluate") == TEXTS
    assert (keep(Path("a.csv"), "evaluate"), keep("add", "evaluate"), keep(None, "evaluate")) == ("a.csv", "add", None)
    with pytest.raises(Misuse, match="evaluate wants a file, the name of a data set or a table, not an int"):
        keep(3, "evaluate")
    assert frame_of(TEXTS) is frame_of(ROWS) is frame_of("a") is frame_of(pd.Series(TEXTS)) is None
