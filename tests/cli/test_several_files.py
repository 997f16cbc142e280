"""Several files, and patterns, as data: on the command line and in Python."""

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io.memory import several_paths
from glassformer.data.io.place import files_of, find, short_name
from glassformer.data.io.source import open_source
from glassformer.data.io.table import holds_table, read_table
from helpers.running import Command, one_line
from helpers.tables import opinions, write_table

SETTINGS = DataSettings()
BAG = ["--model", "bag", "--steps", "2"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = opinions(60)
    write_table(tmp_path / "a.csv", rows[:25])
    write_table(tmp_path / "b.csv", rows[25:])
    write_table(tmp_path / "other.tsv", [("x", "y")], ("text", "rating"))
    (tmp_path / "one.txt").write_text("the first text\n")
    (tmp_path / "two.txt").write_text("the second text\n")
    return tmp_path


@pytest.mark.parametrize("name", ["a.csv + b.csv", "[ab].csv", "*.csv", "a.csv + b*.csv"])
def test_tables_are_read_as_one(folder: Path, name: str) -> None:
    table = read_table(name, SETTINGS)
    assert holds_table(name)
    assert list(zip(table.columns["text"], table.columns["label"], strict=True)) == opinions(60)
    assert (table.lines[24:27], len(set(table.lines))) == ([26, 28, 29], 60)
    assert len(read_table(name, SETTINGS, most=30)) == 30


def test_texts_are_documents(folder: Path) -> None:
    for name in ("one.txt + two.txt", "*.txt"):
        source = open_source(name, SETTINGS)
        texts = ["".join(document) for document in source.documents()]
        assert texts == ["the first text\n", "the second text\n"]
        assert not holds_table(name)


def test_a_file_that_is_named_like_several_is_one(folder: Path) -> None:
    (folder / "one + two.txt").write_text("both")
    (folder / "x[1].txt").write_text("x")
    for name in ("one + two.txt", "x[1].txt"):
        assert (files_of(name), find(name)) == (None, Path(name))
    assert files_of("one.txt + x[1].txt") == [Path("one.txt"), Path("x[1].txt")]
    assert short_name("/a/b/one.txt + two.txt + three.txt") == "one.txt and 2 more"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a.csv", "other.tsv"], "other.tsv has no column 'label', which"),
        (["a.csv", "nope.csv"], "no file 'nope.csv'"),
        (["q*.csv"], "no file matches 'q*.csv'"),
        (["a.csv", "reverse"], "reverse is not a file: pass several files, or only one folder or data set"),
        (["a.csv", "."], ". is not a file: pass several files, or only one folder or data set"),
        (["a.csv", "a.csv"], "a.csv is given twice: pass it once"),
        (["a.csv", "./a.csv"], "a.csv is given twice: pass it once"),
        (["a.csv", "same.csv"], "same.csv is given twice: pass it once"),
        (["a.csv", "[ab].csv"], "a.csv is given twice"),
        (["a.csv", "one.txt"], "one.txt is not: pass only tables, or only text files"),
        (["*.t*"], "other.tsv is a table, but one.txt is not"),
        (["x.tmx", "y.tmx"], "only texts and tables can be several files"),
    ],
)
def test_what_cannot_be_read_together(names: list[str], said: str, folder: Path, command: Command) -> None:
    for name in ("x.tmx", "y.tmx"):
        (folder / name).write_text("<tmx/>")
    (folder / "same.csv").symlink_to("a.csv")
    code, out, err = command("train", *names, *BAG, "--out", "run")
    assert (code, out) == (2, "")
    assert said in one_line(err)
    assert not (folder / "run").exists()


@pytest.mark.slow
def test_a_training_on_several_files(folder: Path, command: Command) -> None:
    code, out, err = command("train", "a.csv", *BAG, "b.csv", "--out", "run", "--json")
    assert code == 0, err
    assert "data: 60 rows" in err
    card = json.loads((folder / "run" / "glassformer.json").read_text())
    assert card["data"]["name"] == "a.csv and 1 more"
    assert command("train", "*.csv", *BAG, "--out", "pattern")[0] == 0
    assert (
        json.loads((folder / "pattern" / "glassformer.json").read_text())["data"]["fingerprint"]
        == (card["data"]["fingerprint"])
    )
    code, out, _ = command("evaluate", "run", "--json")
    assert (code, json.loads(out)["texts"]) == (0, 6)  # the run finds its files again
    assert json.loads(command("evaluate", "run", "a.csv", "b.csv", "--json")[1])["texts"] == 60
    assert json.loads(command("data", "check", "a.csv", "b.csv", "--json")[1])["rows"] == 60


def test_lists_of_files_in_python(folder: Path) -> None:
    quick = {"model": "bag", "steps": 1, "draft": True, "overwrite": True, "out": folder / "run"}
    for files in ([Path("a.csv"), Path("b.csv")], ["a.csv", "b.csv"], (folder / "a.csv", "b.csv")):
        run = gf.train(files, **quick)
        assert any(remark.startswith("60 rows: ") for remark in run.remarks)
        assert gf.evaluate(run, files).metrics["texts"] == 60
    with pytest.raises(DataError, match=r"no file '.*nope\.csv'"):
        gf.train([Path("a.csv"), Path("nope.csv")], **quick)
    for files in (["a.csv", "nope.csv"], ["nope.csv", "nothing.csv"]):
        with pytest.raises(DataError, match=r"no file '.*nope\.csv'"):
            gf.train(files, **quick)


def test_texts_that_are_no_files_stay_texts(folder: Path) -> None:
    assert several_paths(["nope.csv", "no file of this name"]) is None
    assert several_paths(["no file of this name", ".", "..", ""]) is None
    assert several_paths(["a\0b", "x" * 5000]) is None
    assert several_paths([]) is None


def test_texts_and_names_in_one_list(folder: Path) -> None:
    (folder / "parts").mkdir()
    quick = {"steps": 1, "draft": True, "out": folder / "run"}
    with pytest.raises(DataError, match=r"^'one.txt' is the name of a file or folder among texts"):
        gf.train(["the cat sat on the mat" * 40, "one.txt"], **quick)
    with pytest.raises(DataError, match=r"^'parts/' is the name of a file or folder among texts"):
        several_paths(["a text", "parts/"])


def test_a_list_may_name_a_folder(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "a.txt").write_text("the cat sat on the mat " * 40)
    for name in ("parts", Path("parts"), str(folder / "parts")):
        assert several_paths([name]) == str(name)
    gf.train(["parts"], steps=1, draft=True, out=folder / "run", size="nano")
    assert json.loads((folder / "run" / "glassformer.json").read_text())["data"]["name"] == "parts"
    with pytest.raises(DataError, match="parts is not a file: pass several files"):
        gf.train(["parts", "one.txt"], steps=1, draft=True, out=folder / "other")
