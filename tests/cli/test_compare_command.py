"""`glassformer compare` as a person uses it."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from glassformer.cli.main import main
from glassformer.cli.terminal.progress import Board
from glassformer.trials.jobs import Job
from glassformer.trials.running.engine import JobEvent
from helpers.running import Command

QUICK = ("compare", "iris", "--models", "linear", "--seeds", "1", "--steps", "3", "--no-floors", "--no-references")


class Compared(NamedTuple):
    """The one comparison of these tests: the folder in which it was made, and what was said."""

    folder: Path
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder, out, err = tmp_path_factory.mktemp("compared"), StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        code = main(list(QUICK))
    return Compared(folder, code, out.getvalue(), err.getvalue())


def test_a_table_and_what_follows_from_it(compared: Compared) -> None:
    folder, code, out, err = compared
    assert code == 0
    assert "linear" in out
    assert "Side by side" in out
    assert "20% of the data is held out for the test" in err
    assert "1 model, 1 seed each, 3 updates each; in runs/compare-iris-1" in err
    assert "linear: training" in err
    assert "linear: accuracy 0." in err
    assert "Not trained to the end, so not ranked: linear (3 updates, and an epoch takes " in out
    assert err.endswith("next: the same command with more --steps, and another --out (or --overwrite)\n")
    assert (folder / "runs/compare-iris-1/comparison.html").is_file()


def test_a_second_time_nothing_is_trained(command: Command, tmp_path: Path, compared: Compared) -> None:
    shutil.copytree(compared.folder / "runs", tmp_path / "runs")
    code, out, err = command(*QUICK, "--out", "runs/compare-iris-1", "--json")
    assert code == 0
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == ["linear"]
    assert found["mode"] == "ladder"
    assert "1 of 1 are done already" in err
    assert "linear: accuracy 0." in err
    assert "(done before)" in err
    assert "linear: training" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "DATA is missing (see glassformer compare --help)"),
        (["iris", "--models", "lsmt"], "--models: unknown model 'lsmt'; did you mean lstm?"),
        (["iris", "--model", "lstm", "--models", "gru"], "--model and --models: give one of them"),
        (["iris", "--seeds", "0"], "--seeds is 0, but must be at least 1"),
        (["iris", "--seeds", "2", "--folds", "2"], "--seeds and --folds: each fold is trained once"),
        (["iris", "--fractions", "0,2"], "data.train_fraction is 0.0, but must be above 0"),
        (["iris", "--steps", "0"], "training.steps is 0, but must be at least 1"),
        (["iris", "--minutes", "-1"], "training.minutes is -1.0, but must be above 0"),
        (["iris", "--steps", "5", "--epochs", "2"], "training.steps and training.epochs: give one of them"),
        (["iris", "--vary", "training.steps=0,-1"], "training.steps is 0"),
        (["iris", "--vary", "model.heads=2,-1"], "model.heads is -1, but must be at least 1"),
        (["iris", "--vary", "model.heads=3,5"], "model.heads 3 does not divide model.width"),
        (["iris", "--sizes", "nano,huge2"], "unknown model.size 'huge2'"),
        (["iris", "--model.width", "0"], "model.width is 0, but must be at least 1"),
        (["iris", "--models", "bag"], "bag does not read tables"),
        (["copy:rows=20", "--models", "bag"], "bag reads the whole text at once: it cannot be a language model"),
        (["dates:rows=20", "--models", "bag"], "bag keeps no vector for each token"),
        (["iris", "--data.validation_fraction", "0"], "nothing is held out"),
        (["iris", "--data.refit", "true"], "data.refit leaves no validation part"),
        (["iris", "--data.folds", "3"], "give --folds K instead"),
        (["iris", "--parameters", "0"], "--parameters is 0, but must be at least 1"),
        (["iris", "--parameters", "0.5"], "--parameters wants a whole number, not '0.5'"),
        (["iris", "--jobs", "0"], "--jobs is 0, but must be at least 1"),
        (["iris", "--vary", "model.heads"], "--vary wants a setting and its values"),
        (["iris", "--vary", "data.train_fraction=1", "--fractions", "1"], "--fractions and --vary data.train_fraction"),
        (["iris", "--fractions", "0.1,much"], "data.train_fraction wants a number, not 'much'"),
        (["iris", "--ablate", "--sizes", "nano"], "--ablate does not go with varying"),
        (["iris", "--runs", "nowhere"], "no run at nowhere"),
        (["nowhere.csv"], "nowhere.csv"),
        (["iris", "--model.heads", "2", "--models", "linear"], "model.heads is not used by linear"),
        (["iris", "--model", "5"], "unknown model '5'"),
        (["docstrings", "--folds", "1"], "--folds is 1"),
    ],
)
def test_bad_input_is_one_line(command: Command, tmp_path: Path, words: list[str], told: str) -> None:
    code, out, err = command("compare", *words)
    assert (code, out) == (2, "")
    *_, last = err.strip().splitlines()
    assert told in last
    assert last.startswith("glassformer: ")
    assert not list(tmp_path.glob("runs/*"))


def test_a_table_that_cannot_be_divided_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "three.csv").write_text("text,label\none two,a\nthree,b\nfour,a\n")
    code, _, err = command("compare", "three.csv", "--models", "bag")
    assert code == 2
    assert "too few for 3 parts (train, validation, test)" in err.strip().splitlines()[-1]
    assert not list(tmp_path.glob("runs/*"))


def test_ctrl_c_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.trials.running.engine.Engine.run", stop)
    code, _, err = command(*QUICK)
    assert code == 1
    assert [line for line in err.splitlines() if "stopped" in line] == [
        "stopped; finished jobs are kept in runs/compare-iris-1, and the same command continues there"
    ]


def happened(what: str, repeat: int = 0, **more: object) -> JobEvent:
    return JobEvent(job=Job(name="lstm", varied={"model.width": 8}, repeat=repeat), what=what, **more)  # type: ignore[arg-type]


def test_the_board_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    said: list[str] = []
    monkeypatch.setattr(
        "glassformer.cli.terminal.progress.say", lambda text: said.append(text) if ":" not in text else None
    )
    for event in (happened("waiting"), happened("waiting", 1), happened("found", done=1.0, score=0.5, name="accuracy")):
        board(event)
    assert " ".join(shown(board).split()) == "lstm, width=8 waiting 1 of 2 50% accuracy 0.5"
    board(happened("started", 1))
    board(happened("stepped", 1, done=0.5))
    assert shown(board).split()[2:7] == ["training", "1", "of", "2", "75%"]
    board.say("on the way")
    board(happened("failed", 1, error="too large"))
    board.say("next: …")
    assert (said, board.after) == (["on the way"], ["next: …"])
    assert shown(board).split()[2:7] == ["failed", "2", "of", "2", "100%"]


def shown(board: Board) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(board.table())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()[-1]
