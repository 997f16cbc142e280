"""What people get wrong with runs that learned labels or numbers: one line each, and nothing lost."""

import json
import shutil
from pathlib import Path

import pytest

from glassformer.runs.run import NO_VERIFY
from helpers.running import Command, one_line
from helpers.tables import opinions, write_table

WRONG_WITH_A_RUN = {
    "writing": (["generate", "two", "x"], 2, ["two learned classification", "glassformer predict"]),
    "writing numbers": (["generate", "rated"], 2, ["rated learned regression"]),
    "stride": (["evaluate", "two", "--stride", "3"], 2, ["--stride", "language models"]),
    "a text": (["evaluate", "two", "good.txt"], 2, ["good.txt", ".csv"]),
    "a new label": (
        ["evaluate", "two", "unseen.csv", "--bad-rows", "error"],
        2,
        ["unseen.csv, line 6", "column 'label'", "'other'"],
    ),
    "no such column": (["evaluate", "rated", "two.csv"], 2, ["no column 'rating'", "columns: text, label", "--label"]),
    "text for a number": (["evaluate", "rated", "words.csv"], 2, ["words.csv, line 32", "column 'rating'", "'many'"]),
    "empty": (["evaluate", "two", "empty.csv"], 2, ["empty.csv"]),
    "no texts": (["evaluate", "two", "blanks.csv"], 2, ["blanks.csv"]),
    "encoding": (["evaluate", "two", "latin.csv"], 2, ["latin.csv", "line 3", "--data.encoding latin-1"]),
    "part": (["evaluate", "two", "--part", "test"], 2, ["no test part", "train, validation"]),
    "reading nothing": (["evaluate", "two", "--label", "other"], 2, ["--data.label", "DATA"]),
    "picture": (["evaluate", "two", "--out", "x.gif"], 2, ["x.gif", ".png"]),
    "picture of numbers": (["evaluate", "rated", "--out", "x.png"], 2, ["--out", "confusion"]),
    "picture nowhere": (["evaluate", "two", "--out", "nowhere/x.png"], 2, ["nowhere/x.png", "no folder nowhere"]),
    "own model": (["evaluate", "own"], 1, ["person's own", "model=…"]),
    "own model predicts": (["predict", "own", "x"], 1, ["person's own", "model=…"]),
    "file for a writer": (["predict", "writer", "--file", "two.csv"], 2, ["--file", "language model"]),
    "missing file": (["predict", "two", "--file", "nope.csv"], 2, ["nope.csv"]),
    "folder": (["predict", "two", "--file", "folder"], 2, ["folder is a folder of parts", "--out"]),
    "data set": (["predict", "two", "--file", "reverse"], 2, ["reverse is no file"]),
    "file and text": (["predict", "two", "x", "--file", "two.csv"], 2, ["TEXT or --file"]),
    "out without file": (["predict", "two", "x", "--out", "x.csv"], 2, ["--out goes with --file"]),
    "ending": (
        ["predict", "two", "--file", "two.csv", "--out", "good.txt"],
        2,
        ["good.txt", ".csv, .tsv, .jsonl or .parquet"],
    ),
    "out nowhere": (
        ["predict", "two", "--file", "two.csv", "--out", "nowhere/x.csv"],
        2,
        ["nowhere/x.csv", "no folder"],
    ),
    "text column": (
        ["predict", "two", "--file", "two.csv", "--text", "txet"],
        2,
        ["txet", "did you mean text", "--text"],
    ),
    "ragged file": (["predict", "two", "--file", "ragged.csv"], 2, ["ragged.csv, line 3"]),
    "out is the file": (["predict", "two", "--file", "two.csv", "--out", "two.csv"], 2, ["two.csv", "another"]),
    "latin-1 file": (["predict", "two", "--file", "latin.csv"], 2, ["latin.csv", "--data.encoding latin-1"]),
    "latin-1 lines": (["predict", "two", "--file", "latin.txt"], 2, ["latin.txt", "--data.encoding latin-1"]),
    "no encoding": (["predict", "two", "--file", "two.csv", "--encoding", "utf-9"], 2, ["utf-9"]),
    "vectors' ending": (["embed", "two", "x", "--out", "x.txt"], 2, ["x.txt", ".npy or .jsonl"]),
    "vectors nowhere": (["embed", "two", "x", "--out", "nowhere/x.npy"], 2, ["nowhere/x.npy", "no folder"]),
    "vectors of an own model": (["embed", "own", "x"], 1, ["person's own"]),
    "uneven array": (["embed", "two", "x", "y z", "--per-token", "--out", "x.npy"], 2, ["2 texts", ".jsonl"]),
    "vectors of a missing file": (["embed", "two", "--file", "nope.txt"], 2, ["nope.txt"]),
    "vectors of latin-1": (["embed", "two", "--file", "latin.txt"], 2, ["latin.txt", "--data.encoding latin-1"]),
}


@pytest.mark.parametrize("name", WRONG_WITH_A_RUN)
def test_one_line_about_a_run(name: str, command: Command, files: Path, runs: Path) -> None:
    (verb, run, *words), code, said = WRONG_WITH_A_RUN[name]
    watched = [path for folder in (files, runs) for path in folder.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in watched}
    got, out, err = command(verb, runs / run, *words)
    last = one_line(err)
    assert (got, out) == (code, "")
    for part in said:
        assert part in last
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in files.iterdir() if path.name.startswith((".", "x."))]  # nothing half done


def test_a_class_with_one_example_is_a_remark(command: Command, files: Path) -> None:
    code, _, err = command("train", "single.csv", "--model", "bag", "--steps", "2", "--out", "run")
    assert code == 0
    assert "classes with a single example, which stays in training: odd" in err


def test_a_text_that_looks_like_an_option(command: Command, runs: Path) -> None:
    code, out, _ = command("predict", runs / "two", "--json", "--", "-5 stars")
    assert code == 0
    assert json.loads(out)["text"] == "-5 stars"


def test_labels_that_look_like_commands(command: Command, files: Path) -> None:
    """Of a terminal, of a formula, and letters that the picture's font lacks."""
    names = {"good": "[/b]", "bad": "$\\foo$", "so-so": "好"}
    write_table(files / "odd.csv", [(text, names[label]) for text, label in opinions(60, classes=3)])
    code, out, err = command("train", "odd.csv", "--model", "bag", "--steps", "2", "--out", "[red]$x^$ 好")
    assert code == 0, err
    assert out.startswith("[red]$x^$ 好: bag")
    code, out, err = command("evaluate", "[red]$x^$ 好", "--out", "confusion.svg")
    assert code == 0, err
    for name in names.values():
        assert name in out


def test_labels_that_were_damaged(command: Command, files: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_VERIFY, "1")
    shutil.copytree(runs / "rated", files / "run")
    card = json.loads((files / "run" / "glassformer.json").read_text())
    for labels in (None, {"mean": "4", "spread": 1}, []):
        (files / "run" / "glassformer.json").write_text(json.dumps({**card, "labels": labels}))
        code, out, err = command("predict", "run", "x")
        assert (code, out) == (1, "")
        assert "glassformer.json is damaged: its labels" in one_line(err)
