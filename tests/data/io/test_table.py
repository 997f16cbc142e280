from pathlib import Path
from types import SimpleNamespace

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io import table as table_module
from glassformer.data.io.table import Table, holds_table, read_table

PLAIN = DataSettings()


def refused(name: str, settings: DataSettings = PLAIN) -> str:
    with pytest.raises(DataError) as caught:
        read_table(name, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def small_set(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An embedded data set with columns, under the name of one that is there."""
    made = SimpleNamespace(
        columns=("text", "label"),
        rows=lambda: iter([("a", "1"), ("b", "2"), ("c", "1")]),
        test=lambda: [("d", "2")],
        note="",
    )
    monkeypatch.setattr(table_module, "open_dataset", lambda spec: made)
    return made


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('label,text\nx,"one\ntwo"\n\ny,three\n')
    table = read_table(str(file), PLAIN)
    assert isinstance(table, Table)
    assert table.name == str(file)
    assert list(table.columns) == ["label", "text"]
    assert table.columns == {"label": ["x", "y"], "text": ["one\ntwo", "three"]}
    assert table.lines == [2, 5]
    assert len(table) == 2
    assert table.test is None


def test_a_file_of_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("text\né".encode("latin-1"))
    assert read_table(str(file), DataSettings(encoding="latin-1")).columns == {"text": ["é"]}
    assert refused(str(file)).endswith("try --data.encoding latin-1")
    assert refused(str(file), DataSettings(encoding="utf-9")).startswith("unknown encoding 'utf-9'")


def test_rows_of_json_need_not_name_all_fields(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"b": "1", "a": "2"}\n{"b": "3"}\n{"z": "5", "c": "6", "b": "4"}\n{"a": "7"}\n')
    columns = read_table(str(file), PLAIN).columns
    assert list(columns) == ["b", "a", "z", "c"]
    assert columns == {
        "b": ["1", "3", "4", ""], "a": ["2", "", "", "7"], "z": ["", "", "5", ""], "c": ["", "", "6", ""],
    }  # fmt: skip


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.csv").mkdir()
    (tmp_path / "c.csv").write_text("text\nx")
    wanted = " is no table: labels come from a .csv, .tsv, .jsonl or .parquet file"
    assert refused(str(tmp_path / "a.txt")) == f"{tmp_path / 'a.txt'}{wanted}"
    assert refused(str(tmp_path / "b.csv")) == f"{tmp_path / 'b.csv'}{wanted}"
    assert "did you mean" in refused(str(tmp_path / "d.csv"))
    assert refused("").startswith("no data given")


def test_whether_there_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.csv").mkdir()
    (tmp_path / "c.csv").write_text("")
    assert [holds_table(str(tmp_path / name)) for name in ("a.txt", "b.csv", "c.csv")] == [False, False, True]
    assert not holds_table("add:rows=10")
    with pytest.raises(DataError, match="no file 'ad'"):
        holds_table("ad")


def test_a_data_set(small_set: SimpleNamespace) -> None:
    assert holds_table("add")
    table = read_table("add", PLAIN)
    assert table.name == "add"
    assert table.columns == {"text": ["a", "b", "c"], "label": ["1", "2", "1"]}
    assert table.lines == [1, 2, 3]
    assert table.test is not None
    assert table.test().columns == {"text": ["d"], "label": ["2"]}
    small_set.test = None
    assert read_table("add", PLAIN).test is None


def test_a_file_wins_over_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_set: SimpleNamespace
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add").write_text("a file")
    assert not holds_table("add")
