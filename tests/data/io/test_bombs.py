"""Small files that would make much of themselves: limits are lowered here, so that little is much."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.config.limits import VARIABLE, LimitExceeded
from glassformer.config.sections import DataSettings
from glassformer.config.units import size
from glassformer.data.columns.schema import unread_columns
from glassformer.data.io import reading, rows
from glassformer.data.io.aligned import read_aligned, read_tmx
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.source import open_source
from glassformer.data.io.table import Table, read_table

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "unpacked_bytes=1MB,columns=1000,field_bytes=100kB,json_depth=20")


def refused(path: Path) -> str:
    with pytest.raises(LimitExceeded) as caught:
        read_table(str(path), DataSettings())
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "more than the limit of" in message
    assert "\n" not in message
    return message


def test_gzip(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv.gz"
    table.write_bytes(gzip.compress(b"text,label\n" + b"some,good\n" * 200_000))
    assert "--limit unpacked_bytes=" in refused(table)
    line = tmp_path / "line.csv.gz"
    line.write_bytes(gzip.compress(b"text,label\n" + b"a" * 900_000))
    assert "line 2: " in refused(line)
    text = tmp_path / "text.txt.gz"
    text.write_bytes(gzip.compress(b"a" * 2_000_000))
    with pytest.raises(LimitExceeded, match="unpacks to"):
        list(open_source(str(text), DataSettings()).chunks())
    blank = tmp_path / "blank.gz"
    blank.write_bytes(gzip.compress(b"\n" * 900_000))
    with pytest.raises(LimitExceeded, match="of memory and more"):
        read_aligned(str(blank), str(blank), "utf-8")


def test_far_more_than_its_size_is_refused_before_any_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as parquet

    monkeypatch.setenv(VARIABLE, "ratio=100")
    monkeypatch.setattr("glassformer.config.limits.SMALL", 2**17)
    packed, coded, few = tmp_path / "rows.csv.gz", tmp_path / "rows.parquet", tmp_path / "few.csv.gz"
    packed.write_bytes(gzip.compress(b"text,label\n" + b"some,good\n" * 20_000))
    parquet.write_table(pyarrow.table({"text": ["x"] * 20_000, "label": ["a"] * 20_000}), coded)
    few.write_bytes(gzip.compress(b"text,label\n" + b"some,good\n" * 10_000))
    for path in (packed, coded):
        with pytest.raises(LimitExceeded, match=r"times its size and more, more than the limit of 100: --limit ratio="):
            next(rows.read_rows(path, "utf-8"))
    assert len(list(rows.read_rows(few, "utf-8"))) == 10_000  # not much, however well it is packed
    monkeypatch.setenv(VARIABLE, "ratio=5000")
    for path in (packed, coded):
        assert len(list(rows.read_rows(path, "utf-8"))) == 20_000


def test_rows_that_would_take_far_more_memory_are_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK", 2**10)
    read: list[rows.Row] = []

    def noted(path: Path, encoding: str) -> Iterator[rows.Row]:
        for row in rows.read_rows(path, encoding):
            read.append(row)
            yield row

    monkeypatch.setattr("glassformer.data.io.table.read_rows", noted)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"some,good\n" * 50_000))
    message = refused(path)
    assert "would take about 7." in message
    assert f"MiB of memory, more than the limit of {size(10**6)}: --limit unpacked_bytes=1" in message
    assert 0 < len(read) < 500
    assert len(read_table(str(path), DataSettings(), most=1000)) == 1000  # the other rows are not wanted
    read.clear()
    path.write_bytes(gzip.compress(b"text,label\n" + b"some,good\n" * 10_000))  # 1.6 MB: not far beyond
    assert "of memory and more" in refused(path)
    assert len(read) > 5000


@pytest.mark.parametrize("others", [[b"a" * 2000 + b",b\n"] * 300, [b"a,b\n"] * 8000], ids=["long", "short"])
def test_first_rows_unlike_the_others_refuse_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[bytes]
) -> None:
    """By bytes alone, long texts would look like as many short ones; by lines alone, short texts like long ones."""
    monkeypatch.setattr(reading, "BLOCK", 2**10)
    first = [b"some,good\n"] * 250 if len(others) == 300 else [b"a" * 2000 + b",good\n"] * 20
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"".join(first + others)))
    assert len(read_table(str(path), DataSettings())) == len(first) + len(others)


def test_columns_are_looked_up_in_no_time(tmp_path: Path) -> None:
    """Of twice the columns, each is compared with as many others as before."""
    table = Table("t", {f"c{place}": ["1", "2"] for place in range(4000)}, [2, 3])
    compared = 0

    class Name(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    read = [Name(name) for name in table.columns]
    assert unread_columns(table, (), read, DataSettings(), otherwise="") == {}
    assert compared <= 2 * len(read)


def test_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    shared = tmp_path / "shared.parquet"
    parquet.write_table(pyarrow.table({"text": ["x" * 1000] * 5000, "label": ["a", "b"] * 2500}), shared)
    assert shared.stat().st_size < 6000
    assert "unpacks to" in refused(shared)
    empty = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": pyarrow.nulls(1_000_000)}), empty)
    assert "unpacks to" in refused(empty)
    wide = tmp_path / "wide.parquet"
    parquet.write_table(pyarrow.table({f"c{place}": [1] for place in range(1001)}), wide)
    assert "has 1,001 columns" in refused(wide)


def test_arrays_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, images=np.zeros((2000, 28, 28), np.uint8), labels=np.arange(2000))
    with pytest.raises(LimitExceeded, match=r"zeros\.npz unpacks to 1\.5 MiB, more than the limit of"):
        read_pictures(str(path))


def test_columns(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"c{place}" for place in range(1001)) + "\n" + ",".join(["1"] * 1001) + "\n")
    assert "has 1,001 columns, more than the limit of 1,000: --limit columns=1001 raises it" in refused(wide)
    keys = tmp_path / "keys.jsonl"
    keys.write_text("".join(json.dumps({f"k{row}": 1}) + "\n" for row in range(900)))
    assert "of memory and more" in refused(keys)


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"a": "x"}\n{"b": "y"}\n{"a": "z", "c": "w"}\n{}\n')
    assert read_table(str(path), DataSettings()).columns == {
        "a": ["x", "", "z", ""],
        "b": ["", "y", "", ""],
        "c": ["", "", "w", ""],
    }


def test_deep_json(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text('{"text": ' + "[" * 30 + "]" * 30 + "}\n")
    assert "line 1: lists and objects within one another, 31 deep" in refused(path)


def test_open_quotes_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = rows._stays_quoted

    def counted(line: str, *, within: bool) -> bool | None:
        nonlocal looks
        looks += within
        return look(line, within=within)

    monkeypatch.setattr(rows, "_stays_quoted", counted)
    lines = [(1, "a\tb\tc"), *((number, '"x' if number % 2 else "x") for number in range(2, 3000))]
    assert len(list(rows._tab_rows(lines))) == len(lines)
    assert 0 < looks < len(lines)


def test_xml(tmp_path: Path) -> None:
    unit = '<tu><tuv lang="en"><seg>a</seg></tuv><tuv lang="de"><seg>{}</seg></tuv></tu>'
    path = tmp_path / "a.tmx"

    def message(header: str, body: str) -> str:
        path.write_text(f'<tmx><header srclang="en" {header}/><body>{body}</body></tmx>')
        with pytest.raises(LimitExceeded) as caught:
            read_tmx(str(path))
        return str(caught.value)

    assert "a tag of " in message('x="' + "a" * 900_000 + '"', unit.format("b"))
    assert "a text of " in message("", unit.format("b" * 200_000))
    assert "elements within one another, 21 deep" in message("", "<a>" * 20 + "</a>" * 20)
    assert "of memory and more" in message("", "<tu/>" * 100_000)
    path.write_text('<tmx><header srclang="en"/><body>' + unit.format("b" * 90_000) + "</body></tmx>")
    assert len(read_tmx(str(path)).columns["target"][0]) == 90_000


def test_a_pipe_among_pictures(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "1.png")
    with pytest.raises(DataError, match=r"1\.png is a pipe or a device"):
        read_pictures(str(tmp_path))
