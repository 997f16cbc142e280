"""What people get wrong: one line that says what to change, the right exit code, no traceback, nothing lost."""

import shutil
from pathlib import Path

import pytest

from glassformer.cli.main import main
from helpers.running import TINY, Command, one_line

WRONG = {
    "missing file": (["train", "nope.txt"], 2, ["no file 'nope.txt'"]),
    "missing file or data set": (["train", "nope"], 2, ["no file 'nope' and no data set", "docstrings"]),
    "nearly a data set": (["train", "docstring"], 2, ["did you mean docstrings"]),
    "empty": (["train", "empty.txt"], 2, ["empty.txt", "empty"]),
    "blank": (["train", "blank.txt"], 2, ["blank.txt", "empty"]),
    "empty folder": (["train", "folder"], 2, ["folder"]),
    "random bytes": (["train", "random.txt"], 2, ["random.txt", "position"]),
    "NUL": (["train", "nul.txt"], 2, ["nul.txt", "NUL", "position 1"]),
    "encoding": (["train", "latin.txt"], 2, ["latin.txt", "0xE9", "line 1", "--data.encoding latin-1"]),
    "no such encoding": (["train", "good.txt", "--data.encoding", "utf-9"], 2, ["utf-9"]),
    "torn gzip": (["train", "torn.txt.gz"], 2, ["torn.txt.gz"]),
    "not JSON": (["train", "bad.jsonl"], 2, ["bad.jsonl", "2"]),
    "no such field": (["train", "other.jsonl", "--text", "boddy"], 2, ["other.jsonl", "boddy", "did you mean body"]),
    "context too long": (["train", "short.txt"], 2, ["context 128", "129 tokens", "--model.context"]),
    "vocabulary too small": (["train", "good.txt", "--vocab-size", "10"], 2, ["10", "260"]),
    "heads": (["train", "good.txt", "--model.heads", "3"], 2, ["heads 3", "width 128", "head_width"]),
    "model": (["train", "good.txt", "--model", "lsmt"], 2, ["did you mean lstm"]),
    "size": (["train", "good.txt", "--size", "tinny"], 2, ["did you mean tiny"]),
    "style": (["train", "good.txt", "--style", "gtp2"], 2, ["did you mean gpt2"]),
    "choice": (["train", "good.txt", "--model.positions", "rotory"], 2, ["did you mean rotary"]),
    "option": (["train", "good.txt", "--model.widht", "3"], 2, ["did you mean --model.width"]),
    "abbreviation": (["train", "good.txt", "--step", "3"], 2, ["did you mean --steps"]),
    "unused": (["train", "good.txt", "--model", "lstm", "--model.heads", "2"], 2, ["heads", "lstm", "transformer"]),
    "not a number": (["train", "good.txt", "--steps", "ten"], 2, ["training.steps", "whole number", "ten"]),
    "out of range": (["train", "good.txt", "--dropout", "1.5"], 2, ["model.dropout", "1.5"]),
    "two budgets": (["train", "good.txt", "--steps", "3", "--epochs", "1"], 2, ["steps", "epochs"]),
    "both ways": (["train", "good.txt", "--model", "lstm", "--model.bidirectional", "true"], 2, ["future"]),
    "a negative part": (
        ["train", "good.txt", "--data.validation_fraction", "-0.1"],
        2,
        ["validation_fraction"],
    ),
    "device": (["train", "good.txt", "--device", "tpu"], 2, ["tpu", "cuda"]),
    "accumulate": (["train", "good.txt", "--training.accumulation_steps", "5"], 2, ["accumulation_steps 5", "16"]),
    "task": (["train", "good.txt", "--task", "languagemodel"], 2, ["did you mean language-model"]),
    "no config": (["train", "--config", "nope.yaml"], 2, ["nope.yaml"]),
    "config": (["train", "good.txt", "--config", "bad.yaml"], 2, ["bad.yaml", "line"]),
    "config key": (["train", "good.txt", "--config", "unknown.yaml"], 2, ["did you mean model.width"]),
    "config kind": (["train", "good.txt", "--config", "list.yaml"], 2, ["list.yaml", "sections"]),
    "no data": (["train"], 2, ["DATA"]),
    "too many": (["train", "good.txt", "more"], 2, ["more"]),
    **{
        f"{verb} with an out that is named as the data": (
            [verb, "opinions:rows=40", "--out", "opinions:rows=40"],
            2,
            ["name another --out"],
        )
        for verb in ("train", "compare", "tune")
    },
    "data to resume": (["train", "good.txt", "--resume"], 2, ["name its folder with --out"]),
    "resume and overwrite": (["train", "--resume", "--overwrite"], 2, ["--resume", "--overwrite"]),
    "out is a file": (["train", "good.txt", "--out", "short.txt"], 2, ["short.txt"]),
    "out is in use": (["train", "good.txt", "--out", "."], 2, ["not empty"]),
    "verb": (["trian"], 2, ["did you mean train"]),
    "no run": (["evaluate", "nope"], 2, ["nope"]),
    "look at nothing": (["look"], 2, ["glassformer: RUN is missing (see glassformer look --help)"]),
    "no last run": (["generate", "last"], 2, ["train"]),
    "data for a run": (["generate", "good.txt"], 2, ["good.txt", "not a run"]),
    "action": (["tokenizer", "shwo"], 2, ["did you mean show"]),
    "kind": (["tokenizer", "compare", "good.txt", "--kinds", "bpp:400"], 2, ["did you mean bpe"]),
    "kind's size": (["tokenizer", "compare", "good.txt", "--kinds", "bpe:x"], 2, ["bpe:x"]),
    "no text": (["tokenizer", "show", "good.txt"], 2, ["TEXT"]),
    "parameter": (["data", "show", "recall:distnce=3"], 2, ["did you mean distance"]),
    "batch": (["data", "show", "reverse", "--batch", "-1"], 2, ["--batch"]),
    # labelled texts
    "empty table": (["train", "empty.csv"], 2, ["empty.csv", "empty"]),
    "only a header": (["train", "header.csv"], 2, ["header.csv", "text, label", "no rows"]),
    "no such column": (
        ["train", "two.csv", "--label", "lable"],
        2,
        ["lable", "did you mean label", "columns: text, label", "--label"],
    ),
    "no such text": (["train", "two.csv", "--text", "words"], 2, ["words", "columns: text, label", "--text"]),
    "ragged row": (["train", "ragged.csv"], 2, ["ragged.csv, line 3", "3 fields", "quotes"]),
    "open quote": (["train", "quote.csv"], 2, ["quote.csv, line 3", "a quote is not closed"]),
    "not a parquet file": (["train", "not.parquet"], 2, ["not.parquet"]),
    "one class": (["train", "one.csv"], 2, ["one.csv", "all 40 rows", "'good'", "--label"]),
    "texts without words": (["train", "blanks.csv"], 2, ["blanks.csv", "'text' is empty"]),
    "a row without label": (
        ["train", "unlabelled.csv", "--bad-rows", "error"],
        2,
        ["unlabelled.csv, line 42", "'label'"],
    ),
    "a new label": (
        ["train", "two.csv", "--validation", "unseen.csv", "--bad-rows", "error"],
        2,
        ["unseen.csv, line 6", "'label'", "'other'"],
    ),
    "a word for a number": (
        ["train", "words.csv"],
        2,
        ["words.csv, line 32", "column 'rating'", "'many'", "--task classification"],
    ),
    "two texts": (["train", "texts.csv", "--task", "language-model"], 2, ["'question' or 'comment'", "--text"]),
    "two labels": (["train", "labels.csv"], 2, ["'class' or 'topic'", "--label"]),
    "ids": (["train", "ids.csv"], 2, ["ids.csv", "'label'", "40 different values in 40 rows", "--label"]),
    "latin-1 table": (["train", "latin.csv"], 2, ["latin.csv", "0xE9", "line 3", "--data.encoding latin-1"]),
    "missing validation": (["train", "two.csv", "--validation", "nope.csv"], 2, ["nope.csv"]),
    "text is no table": (["train", "good.txt", "--task", "classification"], 2, ["good.txt is not a table", ".csv"]),
    "label of a text": (["train", "good.txt", "--label", "x"], 2, ["data.label", "language-model", "classification"]),
    "label of a language model": (
        ["train", "two.csv", "--task", "language-model", "--label", "label"],
        2,
        ["data.label"],
    ),
    "bag that writes": (["train", "good.txt", "--model", "bag"], 2, ["bag", "cannot be a language model"]),
    "variant": (["train", "two.csv", "--model", "lstm:foo"], 2, ["variant of lstm 'foo'", "bidirectional"]),
    "pool of a bag": (["train", "two.csv", "--model", "bag", "--model.pool", "max"], 2, ["model.pool", "bag", "lstm"]),
    "logistic": (["train", "three.csv", "--training.loss", "logistic"], 2, ["logistic", "there are 3", "softmax"]),
    "squared": (["train", "two.csv", "--training.loss", "squared"], 2, ["squared", "--task regression"]),
    "softmax of numbers": (
        ["train", "rated.csv", "--training.loss", "softmax"],
        2,
        ["softmax", "--task classification"],
    ),
    "class weight": (
        ["train", "two.csv", "--training.class_weights", "goood=2"],
        2,
        ["goood", "did you mean good", "bad"],
    ),
    "class weight without": (
        ["train", "two.csv", "--training.class_weights", "good"],
        2,
        ["class_weights", "bad=5", "'good'"],
    ),
    "class weight of words": (["train", "two.csv", "--training.class_weights", "good=x"], 2, ["'good=x'", "bad=5"]),
    "weights of numbers": (
        ["train", "rated.csv", "--training.class_weights", "balanced"],
        2,
        ["class_weights", "classification"],
    ),
    "no vectors": (["train", "two.csv", "--model.vectors", "nope.txt"], 2, ["nope.txt", "No such file"]),
    "bad vectors": (["train", "two.csv", "--model.vectors", "bad.vectors"], 2, ["bad.vectors, line 2", "'1 x'"]),
    "ragged vectors": (
        ["train", "two.csv", "--model.vectors", "ragged.vectors"],
        2,
        ["ragged.vectors, line 2", "1 numbers", "2"],
    ),
    "empty vectors": (["train", "two.csv", "--model.vectors", "empty.txt"], 2, ["empty.txt", "no word vectors"]),
    "vectors of a bag": (
        ["train", "two.csv", "--model", "bag", "--model.vectors", "bad.vectors"],
        2,
        ["model.vectors", "bag"],
    ),
    "context for nothing": (["train", "two.csv", "--model.context", "2"], 2, ["model.context 2", "at least 3"]),
    "too few rows": (["train", "few.csv"], 2, ["few.csv has 2 rows", "too few"]),
    "check nothing": (["data", "check", "nothing.txt"], 2, ["nothing.txt"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_that_says_what_is_wrong(name: str, command: Command, files: Path) -> None:
    words, code, said = WRONG[name]
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    got, out, err = command(*words)
    last = one_line(err)
    assert got == code
    for part in said:
        assert part in last
    assert out == ""
    assert {path: path.read_bytes() for path in before} == before
    assert not (files / "runs").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is trained once; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "good.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "good.txt", *TINY, "--out", "run"]) == 0
    return folder / "run"


@pytest.fixture
def trained(finished: Path, files: Path) -> Path:
    return Path(shutil.copytree(finished, files / "run"))


def test_a_run_is_not_overwritten_unasked(command: Command, trained: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    code, _, err = command("train", "good.txt", *TINY, "--out", "run")
    assert code == 2
    assert "--resume" in err
    assert "--overwrite" in err
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
def test_overwrite_loses_nothing_when_the_data_is_bad(command: Command, trained: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    code, _, _ = command("train", "latin.txt", *TINY, "--out", "run", "--overwrite")
    assert code == 2
    assert {path: path.read_bytes() for path in before} == before
    code, _, _ = command("train", "good.txt", *TINY, "--seed", "5", "--out", "run", "--overwrite")
    assert code == 0
    assert (trained / "model.safetensors").read_bytes() != before[trained / "model.safetensors"]


def test_a_run_where_data_is_wanted(command: Command, trained: Path) -> None:
    code, _, err = command("train", "run")
    assert code == 2
    assert "run" in err.splitlines()[-1]
    assert "is a glassformer run (it holds glassformer.json), not data" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tokens", "0"], "--tokens"),
        (["--temperature", "-1"], "--temperature"),
        (["--temperature", "1e308"], "between 0 and 100"),
        (["--top-k", "0"], "--top-k"),
        (["--top-p", "1.5"], "--top-p"),
        (["--repetition-penalty", "0"], "--repetition-penalty"),
        (["--greedy", "--top-k", "3"], "--greedy"),
        (["--seed", "-1"], "--seed"),
        (["--file", "nope.txt"], "nope.txt"),
        (["--device", "cuda:99"], "cuda"),
    ],
)
def test_generating_wrongly(words: list[str], said: str, command: Command, trained: Path) -> None:
    code, out, err = command("generate", "run", *([] if "--file" in words else ["the"]), *words)
    assert code in (1, 2)
    assert said in err.splitlines()[-1]
    assert out == ""


def test_evaluating_wrongly(command: Command, trained: Path) -> None:
    for words in (["--stride", "0"], ["--stride", "9"], ["latin.txt"], ["run"], ["--part", "test"]):
        code, out, err = command("evaluate", "run", *words)
        assert (code, out) == (2, ""), words
        assert err.splitlines()[-1].startswith("glassformer: ")


@pytest.mark.slow
def test_data_that_changed_is_noticed(command: Command, files: Path) -> None:
    assert command("train", "good.txt", *TINY, "--out", "run")[0] == 0
    (files / "good.txt").write_text("something else\n" * 50)
    code, _, err = command("evaluate", "run")
    assert code == 2
    assert "fingerprint" in err
    code, _, err = command("train", "--resume", "--out", "run", "--steps", "4")
    assert code == 2
    assert "differs from the data that this run started with" in err
    assert "tokens:" not in err  # it is told as soon as the data is read
    (files / "good.txt").unlink()
    code, _, err = command("evaluate", "run")
    assert code == 2
    assert "name the data" in err


def test_settings_that_cannot_change_on_resuming(command: Command, trained: Path) -> None:
    code, _, err = command("train", "--resume", "--out", "run", "--model.width", "24")
    assert code == 2
    assert "model.width" in err


@pytest.mark.parametrize(
    "name", ["one class", "logistic", "class weight", "bad vectors", "a new label", "context for nothing"]
)
def test_overwrite_loses_no_run_to_a_wrong_word(name: str, command: Command, files: Path, runs: Path) -> None:
    words, code, _ = WRONG[name]
    shutil.copytree(runs / "two", files / "run")
    before = {path: path.read_bytes() for path in (files / "run").rglob("*") if path.is_file()}
    got, _, err = command(*words, "--out", "run", "--overwrite")
    assert got == code
    one_line(err)
    assert {path: path.read_bytes() for path in (files / "run").rglob("*") if path.is_file()} == before
