"""What people get wrong with pairs of texts and with runs that translate: one line each, and nothing lost."""

import json
from pathlib import Path

import pytest

from helpers.running import Command, one_line
from helpers.tables import opinions, write_table
from helpers.translating import mirrored, write_aligned, write_tmx

LETTERS = ["--tokenizer.kind", "char"]
SMALL = ["--size", "nano", "--model", "gru", "--steps", "2", *LETTERS]
TRANSLATE = ["--task", "translation"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = mirrored(30)
    write_table(tmp_path / "pairs.csv", rows, ("source", "target"))
    write_table(tmp_path / "named.csv", [(*row, "x") for row in rows], ("en", "fr", "n"))
    write_table(tmp_path / "blank.csv", [("", "A"), ("a", " ")] * 9, ("source", "target"))
    write_table(tmp_path / "long.csv", [("a" * 30 + one, other) for one, other in rows], ("source", "target"))
    write_table(tmp_path / "labels.csv", opinions(30))
    (tmp_path / "ragged.csv").write_text("source,target\na,A\nb,B,C\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "plain.txt").write_text("only a text\n" * 30)
    write_aligned(tmp_path, rows)
    (tmp_path / "short.txt").write_text("a\nb\n")
    (tmp_path / "none.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(("café\n" * 30).encode("latin-1"))
    write_tmx(tmp_path / "memory.tmx", rows)
    write_tmx(tmp_path / "one.tmx", rows, ("en", "en"))
    (tmp_path / "torn.tmx").write_text((tmp_path / "memory.tmx").read_text()[:-40])
    (tmp_path / "html.tmx").write_text("<html>no</html>")
    (tmp_path / "folder").mkdir()
    return tmp_path


BOTH = ["--source-file", "pairs.source.txt", "--target-file", "pairs.target.txt"]

WRONG = {
    "no columns": (["train", "named.csv", *TRANSLATE], ["named.csv", "columns: en, fr, n", "--source and --target"]),
    "missing source": (["train", "named.csv", "--source", "em", "--target", "fr"], ["'em'", "mean en", "--source"]),
    "missing target": (["train", "named.csv", "--source", "en", "--target", "de"], ["'de'", "en, fr, n", "--target"]),
    "no target": (["train", "named.csv", "--source", "en"], ["the target", "fr, n", "--target"]),
    "same column": (["train", "named.csv", "--source", "en", "--target", "en"], ["'en'", "both"]),
    "no table": (["train", "plain.txt", *TRANSLATE], ["plain.txt holds no pairs", ".tmx", "--source-file"]),
    "source of a text": (["train", "plain.txt", "--source", "en"], ["plain.txt holds no pairs"]),
    "labels": (["train", "labels.csv", *TRANSLATE], ["labels.csv", "columns: text, label", "--source"]),
    "ragged": (["train", "ragged.csv"], ["ragged.csv, line 3"]),
    "empty": (["train", "empty.csv", *TRANSLATE], ["empty.csv"]),
    "blanks": (["train", "blank.csv"], ["blank.csv", "'source'", "'target'"]),
    "too long": (
        ["train", "long.csv", *LETTERS, "--model.context", "16"],
        ["no pair is left", "--model.context", "too_long"],
    ),
    "a negative part": (
        ["train", "pairs.csv", "--data.validation_fraction", "-0.1"],
        ["validation_fraction"],
    ),
    "half the files": (["train", "--source-file", "pairs.source.txt"], ["--source-file", "--target-file"]),
    "the other half": (["train", "--target-file", "pairs.target.txt"], ["--target-file", "--source-file"]),
    "table and files": (["train", "pairs.csv", *BOTH], ["pairs.csv", "--source-file", "not both"]),
    "line counts": (
        ["train", "--source-file", "pairs.source.txt", "--target-file", "short.txt"],
        ["30 lines", "has 2"],
    ),
    "empty files": (["train", "--source-file", "none.txt", "--target-file", "none.txt"], ["none.txt", "empty"]),
    "latin-1": (["train", "--source-file", "latin.txt", *BOTH[2:]], ["latin.txt", "line 1", "--data.encoding latin-1"]),
    "no file": (["train", "--source-file", "nope.txt", *BOTH[2:]], ["no file 'nope.txt'"]),
    "folder": (["train", "--source-file", "folder", *BOTH[2:]], ["folder is no file"]),
    "no memory": (["train", "nope.tmx"], ["nope.tmx"]),
    "torn": (["train", "torn.tmx"], ["torn.tmx, line", "damaged XML"]),
    "no TMX": (["train", "html.tmx"], ["html.tmx, line 1", "<html>"]),
    "one language": (["train", "one.tmx"], ["one.tmx", "texts in en: choose"]),
    "no such language": (["train", "memory.tmx", "--source", "de"], ["'de'", "languages: en, fr", "--source"]),
    "wrong task": (["train", "pairs.csv", "--task", "language-model", "--source", "source"], ["data.source"]),
    "bag": (["train", "pairs.csv", "--model", "bag"], ["bag"]),
    "attention of a Transformer": (["train", "pairs.csv", "--model.attention", "dot"], ["model.attention"]),
    "batch size": (["train", "pairs.csv", "--batch-size", "8"], ["training.batch_size", "translation"]),
    "batch tokens": (["train", "pairs.csv", "--batch-tokens", "1"], ["training.batch_tokens", "2"]),
    "data, no columns": (["data", "check", "named.csv", *TRANSLATE], ["named.csv", "--source and --target"]),
    "data, half": (["data", "check", "--source-file", "pairs.source.txt"], ["--target-file"]),
    "data, nothing": (["data", "check"], ["DATA is missing"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_about_pairs(name: str, command: Command, pairs: Path) -> None:
    words, said = WRONG[name]
    before = {path: path.read_bytes() for path in pairs.rglob("*") if path.is_file()}
    code, out, err = command(*words, *["--steps", "2"] * (words[0] == "train"))  # if it is not refused, it ends soon
    last = one_line(err)
    assert (code, out) == (2, "")
    for part in said:
        assert part in last
    assert {path: path.read_bytes() for path in before} == before
    assert not (pairs / "runs").exists()


WRONG_WITH_A_RUN = {
    "generate": (["generate", "gru", "a"], ["gru learned translation", "glassformer translate"]),
    "stride": (["evaluate", "gru", "--stride", "3"], ["--stride", "language models"]),
    "picture": (["evaluate", "gru", "--out", "x.png"], ["--out", "confusion"]),
    "part": (["evaluate", "gru", "--part", "test"], ["no test part", "train, validation"]),
    "part of other data": (["evaluate", "gru", "pairs.csv", "--part", "train"], ["--part train"]),
    "labels": (["evaluate", "gru", "labels.csv"], ["labels.csv", "no column 'source'", "--source"]),
    "a text": (["evaluate", "gru", "plain.txt"], ["plain.txt holds no pairs"]),
    "half": (["evaluate", "gru", "--source-file", "pairs.source.txt"], ["--target-file"]),
    "other half": (["evaluate", "gru", "--target-file", "pairs.source.txt"], ["--source-file"]),
    "both": (["evaluate", "gru", "pairs.csv", *BOTH], ["pairs.csv", "not both"]),
    "all too long": (["evaluate", "gru", "long.csv", "--bad-rows", "skip"], ["no pair"]),
    "torn": (["evaluate", "gru", "torn.tmx"], ["torn.tmx, line"]),
    "reading nothing": (["evaluate", "gru", "--source", "x"], ["--data.source", "DATA"]),
    "beam": (["evaluate", "gru", "--beam", "0"], ["--beam is 0"]),
    "penalty": (["evaluate", "gru", "--length-penalty", "-1"], ["--length-penalty is -1"]),
    "no beam": (["translate", "gru", "a", "--beam", "0"], ["--beam is 0", "between 1 and 1,000"]),
    "too many": (["translate", "gru", "a", "--nbest", "6"], ["--nbest is 6", "--beam 5"]),
    "beam and temperature": (
        ["translate", "gru", "a", "--beam", "2", "--temperature", "1"],
        ["--beam", "cannot be combined"],
    ),
    "seed alone": (["translate", "gru", "a", "--seed", "1"], ["--seed is for sampling", "--temperature"]),
    "text and file": (["translate", "gru", "a", "--file", "plain.txt"], ["TEXT or --file"]),
    "no file": (["translate", "gru", "--file", "nope.txt", "--out", "x.txt"], ["nope.txt"]),
    "latin-1": (
        ["translate", "gru", "--file", "latin.txt", "--out", "x.txt"],
        ["latin.txt", "--data.encoding latin-1"],
    ),
    "folder": (["translate", "gru", "--file", "folder"], ["folder"]),
    "out nowhere": (["translate", "gru", "a", "--out", "nowhere/x.txt"], ["nowhere/x.txt", "no folder"]),
    "out is the file": (["translate", "gru", "--file", "plain.txt", "--out", "./plain.txt"], ["plain.txt", "another"]),
    "table for predict": (["predict", "gru", "--file", "pairs.csv"], ["--file"]),
    "layer": (["look", "transformer", "a", "--layer", "2", "--out", "x.png"], ["--layer is 2", "layers 0 to 1"]),
    "head": (["look", "transformer", "a", "--head", "-1", "--out", "x.png"], ["--head is -1", "heads 0 to 1"]),
    "head of one": (["look", "gru", "a", "--head", "1", "--out", "x.png"], ["--head is 1"]),
    "bottleneck": (
        ["look", "bottleneck", "a", "--view", "alignment"],
        ["no alignment to look at", "it has logit-lens"],
    ),
    "picture's kind": (["look", "gru", "a", "--out", "x.gif"], ["x.gif", ".png"]),
    "picture nowhere": (["look", "gru", "a", "--out", "nowhere/x.png"], ["nowhere/x.png", "no folder"]),
    "nothing to look at": (["look", "gru", " ", "--out", "x.png"], ["no text"]),
    "no beam to look with": (["look", "gru", "a", "--beam", "0", "--out", "x.png"], ["--beam is 0"]),
}


@pytest.mark.parametrize("name", WRONG_WITH_A_RUN)
def test_one_line_about_a_translator(name: str, command: Command, pairs: Path, translators: Path) -> None:
    (verb, run, *words), said = WRONG_WITH_A_RUN[name]
    watched = [path for folder in (pairs, translators) for path in folder.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in watched}
    code, out, err = command(verb, translators / run, *words)
    last = one_line(err)
    assert (code, out) == (2, "")
    for part in said:
        assert part in last
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in pairs.iterdir() if path.name.startswith((".", "x."))]  # nothing half done


@pytest.mark.parametrize("words", [
    ["translate", "two", "a"],
    ["translate", "writer", "a"],
], ids=" ".join)  # fmt: skip
def test_runs_that_learned_something_else(words: list[str], command: Command, runs: Path, tmp_path: Path) -> None:
    verb, run, *rest = words
    code, out, err = command(verb, runs / run, *rest)
    task, does = {"two": ("classification", "predict"), "writer": ("language-model", "generate")}[run]
    assert (code, out) == (2, "")
    assert f"learned {task}, not to translate: glassformer {does}" in one_line(err)
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("words", [["--beam", "5"], ["--length-penalty", "1"], ["--lowercase"], BOTH], ids=" ".join)
@pytest.mark.parametrize("run", ["two", "writer"])
def test_flags_of_translators(words: list[str], run: str, command: Command, runs: Path, pairs: Path) -> None:
    code, out, err = command("evaluate", runs / run, *words)
    assert (code, out) == (2, "")
    assert words[0] in one_line(err)
    assert "runs that translate" in one_line(err)


@pytest.mark.slow
def test_empty_rows_are_left_out_and_said(command: Command, tmp_path: Path) -> None:
    rows = [*mirrored(30), ("", "A"), ("b", ""), ("  ", "C")]
    write_table(tmp_path / "in.csv", rows, ("source", "target"))
    code, _, err = command("train", "in.csv", *SMALL, "--out", "run", "--json")
    assert code == 0, err
    assert "skipped: 3 rows" in err
    assert "source or target" in err
    assert json.loads((tmp_path / "run" / "glassformer.json").read_text())["data"]["report"] in err.replace(
        "data: ", ""
    )


@pytest.mark.slow
def test_pairs_that_are_too_long_are_said(command: Command, tmp_path: Path) -> None:
    write_table(tmp_path / "in.csv", [*mirrored(30), ("a" * 40, "b"), ("a", "b" * 40)], ("source", "target"))
    words = [*SMALL, "--model.context", "20"]
    code, _, err = command("train", "in.csv", *words, "--out", "dropped")
    assert code == 0, err
    assert "2 pairs are longer than 20 tokens and left out (--model.context, --data.too_long)" in err
    code, _, err = command("train", "in.csv", *words, "--data.too_long", "cut", "--out", "cut")
    assert code == 0, err
    assert "2 pairs are longer than 20 tokens and cut there (--model.context, --data.too_long)" in err
    code, out, err = command("evaluate", "dropped", "in.csv", "--json")
    assert json.loads(out)["pairs"] == 30
    code, out, err = command("evaluate", "dropped", "in.csv", "--data.too_long", "cut", "--json")
    assert json.loads(out)["pairs"] == 32
