import csv
import datetime
import decimal
import gzip
import io
import json
import random
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.config.limits import VARIABLE
from glassformer.data.io.reading import BLOCK
from glassformer.data.io.rows import CLOSED_BADLY, Row, is_table, read_rows, record_batches


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows(path: Path, encoding: str = "utf-8") -> list[Row]:
    return list(read_rows(path, encoding))


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        rows(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", True), ("a.TSV", True), ("a.b.jsonl", True), ("a.parquet", True), ("a.csv.gz", True),
        ("a.JSONL.GZ", True), ("a.parquet.gz", False), ("a.txt", False), ("csv", False), ("a.json", False),
    ],
)  # fmt: skip
def test_a_table_by_its_name(name: str, expected: bool) -> None:
    assert is_table(Path("folder.csv", name)) is expected


def test_what_is_no_table(tmp_path: Path) -> None:
    assert refused(write(tmp_path / "a.txt", "text\nx")) == (
        " is no table: its name should end in .csv, .tsv, .jsonl, .parquet"
    )


CSV = '\ufeff text ,label\r\n"a, ""b""\r\nc",x\r\n\r\n   \r\nd e,\r\n"",y'


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv(tmp_path: Path, name: str) -> None:
    assert rows(write(tmp_path / name, CSV)) == [
        (2, {"text": 'a, "b"\nc', "label": "x"}),
        (6, {"text": "d e", "label": ""}),
        (7, {"text": "", "label": "y"}),
    ]


@pytest.mark.parametrize("sign", [";", "\t"])
def test_another_delimiter_shows_in_the_header(tmp_path: Path, sign: str) -> None:
    file = write(tmp_path / "a.csv", f"text{sign}label\na, b{sign}c\n")
    assert rows(file) == [(2, {"text": "a, b", "label": "c"})]


def test_the_delimiter_that_is_there_more_often_wins(tmp_path: Path) -> None:
    assert rows(write(tmp_path / "a.csv", "a;b\tc\td\n1\t2\t3")) == [(2, {"a;b": "1", "c": "2", "d": "3"})]


def test_the_usual_delimiter_wins(tmp_path: Path) -> None:
    assert rows(write(tmp_path / "a.csv", "a;b;c,d\n1,2")) == [(2, {"a;b;c": "1", "d": "2"})]
    assert rows(write(tmp_path / "a.tsv", "a,b,c\td\n1\t2")) == [(2, {"a,b,c": "1", "d": "2"})]


def test_a_column_of_its_own(tmp_path: Path) -> None:
    assert rows(write(tmp_path / "a.csv", "\ntext\none two\n\n \n\"\"\nthree")) == [
        (3, {"text": "one two"}), (5, {"text": " "}), (6, {"text": ""}), (7, {"text": "three"}),
    ]  # fmt: skip


def test_big_fields(tmp_path: Path) -> None:
    big = "word, " * BLOCK
    assert rows(write(tmp_path / "a.csv", f'text,label\n"{big}",x\n')) == [(2, {"text": big, "label": "x"})]


texts = st.text(st.characters(exclude_characters="\r\0", codec="utf-8"))


@settings(deadline=None)
@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(texts, min_size=width, max_size=width), min_size=1)))
def test_what_csv_writes_is_read_back(values: list[list[str]]) -> None:
    names = [f"column {place}" for place in range(len(values[0]))]
    file = io.StringIO()
    csv.writer(file).writerows([names, *values])
    with tempfile.TemporaryDirectory() as folder:
        found = rows(write(Path(folder, "a.csv"), file.getvalue()))
    # A line of nothing but blanks is no row where there are columns; csv writes none such.
    assert [list(row.values()) for _, row in found] == values
    begins = 2
    for (line, row), value in zip(found, values, strict=True):
        assert line == begins
        assert list(row) == names
        begins += 1 + sum(field.count("\n") for field in value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", " is empty: there is no text in it"),
        ("\n \n", " is empty: there is no text in it"),
        ("text,label\n\n", " has a header (text, label) and no rows below it"),
        ("\ntext,a, text\n", ", line 2: two columns are named 'text': rename one of them in the header"),
        (
            'text,label\n"a\nb",c\n1,2,3',
            ", line 4: 3 fields, but the header names 2 (text, label): a text that holds commas needs quotes around it",
        ),
        ("text,label\nx", ", line 2: 1 field, but the header names 2 (text, label)"),
        ('text,label\na,b\nx,"c\nd",",e\nf,g\n', f", line 3: {CLOSED_BADLY} (unexpected end of data)"),
        (
            'text,label\na,b\nc,"d\n"e",f\n',
            f", line 3: {CLOSED_BADLY} (',' expected after '\"')",
        ),
        (
            'text,label\n"a" b,c\n',
            f", line 2: {CLOSED_BADLY} (',' expected after '\"')",
        ),
    ],
)
def test_csv_that_cannot_be(tmp_path: Path, content: str, message: str) -> None:
    assert refused(write(tmp_path / "a.csv", content)) == message


def test_a_quote_does_not_swallow_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "field_bytes=1000")
    message = refused(write(tmp_path / "a.csv", 'text\n\n"x\n' + "y\n" * 10_000 + '"'))
    assert message == (
        ", line 3: a quote opens in this row and is not closed for 1.0 KiB, more than the limit of 1.0 KiB: "
        "--limit field_bytes=1002 raises it"
    )


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_wrong_encodings_say_where(tmp_path: Path, name: str) -> None:
    between = "\t" if name == "a.tsv" else ","
    lines = ['{"text": "a"}', '{"text": "é"}'] if name == "a.jsonl" else [f"text{between}label", f"é{between}x"]
    file = write(tmp_path / name, "\n".join(lines).encode("latin-1"))
    assert " is not utf-8: byte 0xE9 at position " in refused(file)
    assert refused(file).endswith("(line 2); try --data.encoding latin-1")
    assert rows(file, "latin-1")[-1][1]["text"] == "é"


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.csv"])
def test_tsv_keeps_quotes_that_are_no_quoting(tmp_path: Path, name: str) -> None:
    lines = [
        "source\ttarget", '"Look," she said.\t"Schau!" sagte sie.', "", 'a, b\t"c""d\te"', '"whole"\t""', '"open\tx',
        'y\t"open', "", "z\t", "\t", 'b\t"two', 'lines"', '"two', '', 'lines"\tc', "last\t1",
    ]  # fmt: skip
    assert [(line, *row.values()) for line, row in rows(write(tmp_path / name, "\n".join(lines)))] == [
        (2, '"Look," she said.', '"Schau!" sagte sie.'), (4, "a, b", 'c"d\te'), (5, "whole", ""), (6, '"open', "x"),
        (7, "y", '"open'), (9, "z", ""), (10, "", ""), (11, "b", "two\nlines"), (13, "two\n\nlines", "c"),
        (16, "last", "1"),
    ]  # fmt: skip


def test_tsv_that_cannot_be(tmp_path: Path) -> None:
    assert (
        refused(write(tmp_path / "a.tsv", 'a\tb\n1\t2\n"3\n4\n')) == ", line 3: 1 field, but the header names 2 (a, b)"
    )
    assert "line 2: 3 fields" in refused(write(tmp_path / "a.tsv", "a\tb\n1\t2\t3\n"))
    assert "a text that holds tabs" in refused(write(tmp_path / "a.tsv", "a\tb\n1\t2\t3\n"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    first = {"text": "a\r\nb\rc", "n": 7, "x": 2.50, "yes": True, "none": None, "many": ["é", {"k": 1}]}
    content = "\ufeff" + json.dumps(first, ensure_ascii=False) + '\r\n\n{"other": "\u2028"}\n'
    assert rows(write(tmp_path / name, content)) == [
        (1, {"text": "a\nb\nc", "n": "7", "x": "2.5", "yes": "true", "none": "", "many": '["é", {"k": 1}]'}),
        (3, {"other": "\u2028"}),
    ]


def test_a_translation_is_a_column_for_each_language(tmp_path: Path) -> None:
    line = {"id": 3, "translation": {"en": "two dogs", "de": "zwei Hunde"}}
    file = write(tmp_path / "pairs.jsonl", json.dumps(line))
    assert rows(file) == [(1, {"id": "3", "en": "two dogs", "de": "zwei Hunde"})]


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "text": ["a\r\nb", None],
        "n": [7, 8],
        "x": [0.5, None],
        "yes": [True, False],
        "day": [datetime.date(2024, 5, 31), None],
        "price": [decimal.Decimal("1.50"), None],
        "many": [[1, 2], []],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    first, second = rows(tmp_path / "a.parquet")
    assert first == (
        1,
        {"text": "a\nb", "n": "7", "x": "0.5", "yes": "true", "day": "2024-05-31", "price": "1.50", "many": "[1, 2]"},
    )
    assert second == (
        2, {"text": "", "n": "8", "x": "", "yes": "false", "day": "", "price": "", "many": "[]"},
    )  # fmt: skip


def test_parquet_writes_moments_as_iso_does(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moment = datetime.datetime(2024, 5, 31, 12, 30)
    parquet.write_table(arrow.table({"when": [moment], "clock": [moment.time()]}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet") == [(1, {"when": "2024-05-31T12:30:00", "clock": "12:30:00"})]


def test_parquet_in_batches(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = list(range(5003))
    parquet.write_table(arrow.table({"n": numbers}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet") == [(number + 1, {"n": str(number)}) for number in numbers]


@pytest.mark.parametrize("groups", [1, 8])
def test_parquet_is_not_held(groups: int, tmp_path: Path) -> None:
    """However its rows are grouped: texts that no packing makes smaller, of which a few are held at a time."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [random.Random(number).randbytes(4096).hex() for number in range(4096)]
    parquet.write_table(arrow.table({"text": texts}), tmp_path / "a.parquet", row_group_size=len(texts) // groups)
    before = arrow.total_allocated_bytes()
    most = max(arrow.total_allocated_bytes() for _ in record_batches(tmp_path / "a.parquet")) - before
    assert most < (tmp_path / "a.parquet").stat().st_size * 2 / 3


def test_parquet_that_cannot_be(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"n": arrow.array([], arrow.int64())}), tmp_path / "a.parquet")
    assert refused(tmp_path / "a.parquet") == " has no rows"
    message = refused(write(tmp_path / "a.parquet", "text,label\n"))
    assert message.startswith(" is damaged, or no .parquet file: save or download it again (")
    assert refused(tmp_path / "missing.parquet").startswith("cannot read ")
    parquet.write_table(arrow.table({"column": [1, 2]}), tmp_path / "b.parquet")
    damaged = (tmp_path / "b.parquet").read_bytes().replace(b"column", b"col\xb1mn")  # its name is no text any more
    assert refused(write(tmp_path / "b.parquet", damaged)).startswith(" is damaged, or no .parquet file: ")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert refused(write(tmp_path / "a.parquet", b"PAR1")) == (
        ": reading .parquet needs pyarrow: pip install 'glassformer[parquet]'"
    )
