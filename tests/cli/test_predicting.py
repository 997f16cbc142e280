"""Labels, numbers and vectors out: `predict` and `embed` on texts, lines and whole tables."""

import io
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.families.labelling import LoadedPredictor
from helpers.running import Command
from helpers.tables import read_csv, write_table

GOOD, BAD = "the soup was good and lovely", "the film was awful and dull"


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def said_by(run: Path, texts: list[str]) -> list[Any]:
    model = gf.load(run, "cpu")
    assert isinstance(model, LoadedPredictor)
    return model.predict(texts)


# --- predict ---


def test_predict_from_arguments(command: Command, runs: Path) -> None:
    code, out, _ = command("predict", runs / "three", GOOD, BAD, "--json")
    assert code == 0
    for found, expected in zip(lines(out), said_by(runs / "three", [GOOD, BAD]), strict=True):
        assert found.keys() == {"text", "label", "probability", "probabilities", "unknown_text", "unknown_tokens"}
        assert found["text"] == expected.text
        assert found["label"] == expected.label
        assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)
        assert found["probability"] == max(found["probabilities"].values())
    code, out, _ = command("predict", "--device", "cpu", runs / "three", GOOD, "a\tb")
    first, second = out.splitlines()
    label, chances, text = first.split("\t")
    assert (label, text) == (said_by(runs / "three", [GOOD])[0].label, GOOD)
    assert chances.startswith(f"{label} 0.")
    chance_of = said_by(runs / "three", [GOOD])[0].probabilities
    assert [pair.split()[0] for pair in chances.split(", ")] == sorted(chance_of, key=lambda name: -chance_of[name])
    assert second.endswith("\ta⇥b")


def test_predict_a_number(command: Command, runs: Path) -> None:
    (expected,) = said_by(runs / "rated", [GOOD])
    code, out, _ = command("predict", runs / "rated", GOOD)
    assert out == f"{expected.value:.6g}\t{GOOD}\n"
    code, out, _ = command("predict", runs / "rated", GOOD, "--json")
    known = {"unknown_text": False, "unknown_tokens": 0.0}
    assert lines(out) == [{"text": GOOD, "value": pytest.approx(expected.value), **known}]
    assert code == 0


def test_predict_the_next_token(command: Command, runs: Path) -> None:
    code, out, _ = command("predict", runs / "writer", "the so", "--json")
    (found,) = lines(out)
    assert code == 0
    assert found["label"] == max(found["probabilities"], key=found["probabilities"].__getitem__)
    assert len(found["probabilities"]) == 5


@pytest.mark.parametrize("words", [[], ["-"]], ids=str)
def test_predict_from_stdin(words: list[str], command: Command, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{GOOD}\n\n  \n{BAD}"))
    code, out, _ = command("predict", runs / "two", *words)
    shown = out.split("\n")
    assert code == 0
    assert [bool(line) for line in shown] == [True, False, False, True, False]  # a blank line stays one
    assert (shown[0].split("\t")[2], shown[3].split("\t")[2]) == (GOOD, BAD)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{GOOD}\n\n{BAD}\n"))
    code, out, _ = command("predict", runs / "two", *words, "--json")
    assert [line["text"] for line in lines(out)] == [GOOD, "", BAD]
    assert lines(out)[1] == {"text": "", "error": "the text is empty"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    code, out, err = command("predict", runs / "two", *words)
    assert (code, out, err) == (2, "", "glassformer: what comes from stdin is not UTF-8\n")


ROWS = [("7", GOOD, "x"), ("8", "", "y"), ("9", BAD, "z, z"), ("10", "  ", "ü")]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_predict_a_table(ending: str, command: Command, files: Path, runs: Path) -> None:
    write_table(files / f"in.{ending}", ROWS, ("id", "text", "mark"))
    code, out, err = command("predict", runs / "two", "--file", f"in.{ending}")
    assert code == 0
    assert err.splitlines() == [
        f"in.{ending}: not read: id, mark (this run did not learn from them)",
        f"in.{ending}: 2 rows without text, and so without an answer",
    ]
    found = read_csv(out, "\t" if ending == "tsv" else ",")
    assert [tuple(row.values())[:3] for row in found] == ROWS
    assert list(found[0]) == ["id", "text", "mark", "predicted", "probability", "unknown_text"]
    expected = said_by(runs / "two", [GOOD, BAD])
    assert [row["predicted"] for row in found] == [expected[0].label, "", expected[1].label, ""]
    assert float(found[0]["probability"]) == pytest.approx(expected[0].probability)
    assert found[1]["probability"] == ""

    code, _, err = command("predict", runs / "two", "--file", f"in.{ending}", "--out", "out.jsonl", "--probabilities")
    assert err.splitlines()[-1] == "4 rows written to out.jsonl"
    rows = lines((files / "out.jsonl").read_text())
    assert rows[1] == {"id": "8", "text": "", "mark": "y", "error": "the text is empty"}
    assert (rows[0]["predicted"], rows[0]["p_bad"]) == (
        expected[0].label,
        pytest.approx(expected[0].probabilities["bad"]),
    )
    assert rows[0].keys() == {"id", "text", "mark", "predicted", "probability", "p_bad", "p_good"}
    code, out, _ = command("predict", runs / "two", "--file", f"in.{ending}", "--json")
    assert [row["id"] for row in lines(out)] == ["7", "8", "9", "10"]


@pytest.mark.parametrize(
    ("sign", "out", "expected"), [(";", "out.csv", ";"), ("\t", "out.csv", "\t"), (";", "out.tsv", "\t")]
)
def test_predict_keeps_the_delimiter(
    sign: str, out: str, expected: str, command: Command, files: Path, runs: Path
) -> None:
    (files / "in.csv").write_text(sign.join(("id", "text")) + "\n" + sign.join(("7", GOOD)) + "\n")
    assert command("predict", runs / "two", "--file", "in.csv", "--out", out)[0] == 0
    (row,) = read_csv((files / out).read_text(), expected)
    assert list(row) == ["id", "text", "predicted", "probability", "unknown_text"]
    assert (row["id"], row["text"]) == ("7", GOOD)


def test_predict_json_lines_keeps_their_types(command: Command, files: Path, runs: Path) -> None:
    rows = [
        {"n": 1, "text": GOOD, "x": True, "deep": {"a": [1, 2.5]}, "none": None},
        {"n": 2.5, "text": ""},
        {"text": BAD, "later": "é"},
    ]
    (files / "in.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    code, out, _ = command("predict", runs / "rated", "--file", "in.jsonl")
    assert code == 0
    found = lines(out)
    values = [said.value for said in said_by(runs / "rated", [GOOD, BAD])]
    assert found[0] == {**rows[0], "predicted": pytest.approx(values[0])}
    assert found[1] == {**rows[1], "error": "the text is empty"}
    assert found[2] == {**rows[2], "predicted": pytest.approx(values[1])}
    command("predict", runs / "rated", "--file", "in.jsonl", "--out", "out.csv")
    table = read_csv((files / "out.csv").read_text())
    assert list(table[0]) == ["n", "text", "x", "deep", "none", "later", "predicted", "unknown_text"]
    assert (table[0]["x"], table[0]["deep"], table[0]["none"]) == ("true", '{"a": [1, 2.5]}', "")  # as JSON writes them
    assert (table[1]["predicted"], table[2]["later"]) == ("", "é")


def test_predict_never_takes_a_column_away(command: Command, files: Path, runs: Path) -> None:
    """Names that are taken stay; predicting over what was predicted, again and again, adds to it."""
    write_table(files / "in.csv", [(GOOD, "mine", "p")], ("text", "predicted", "p_bad"))
    first = (files / "in.csv").read_text().splitlines()[1]
    for again in range(1, 4):
        code, _, err = command("predict", runs / "two", "--file", "in.csv", "--out", "out.csv", "--probabilities")
        assert code == 0, err
        (files / "out.csv").replace(files / "in.csv")
        (row,) = read_csv((files / "in.csv").read_text())
        assert len(row) == 3 + 5 * again
        assert ",".join(row.values()).startswith(first)
        assert [value for name, value in row.items() if name.startswith("predicted")][1:] == [
            row["predicted_by_model"]
        ] * again
    assert not list(files.glob(".*"))


def test_predict_lines_of_text(command: Command, files: Path, runs: Path) -> None:
    (files / "in.txt").write_text(f"{GOOD}\n\n{BAD}, he said\n")
    code, out, err = command("predict", runs / "two", "--file", "in.txt")
    assert code == 0
    assert [row["text"] for row in read_csv(out)] == [GOOD, "", f"{BAD}, he said"]
    assert [bool(row["predicted"]) for row in read_csv(out)] == [True, False, True]
    (files / "one.txt").write_text(GOOD)
    code, out, err = command("predict", runs / "two", "--file", "one.txt", "--json")
    assert (len(lines(out)), err) == (1, "")
    (files / "none.txt").write_text("")
    assert command("predict", runs / "two", "--file", "none.txt")[:2] == (
        0,
        "text,predicted,probability,unknown_text\n",
    )


def test_predict_where_no_row_has_a_text(command: Command, files: Path, runs: Path) -> None:
    write_table(files / "in.csv", [("1", ""), ("2", " ")], ("id", "text"))
    for run, added in (("two", "predicted,probability"), ("rated", "predicted")):
        code, out, _ = command("predict", runs / run, "--file", "in.csv")
        assert code == 0
        assert out.splitlines()[0] == f"id,text,{added},unknown_text"
        assert [row["predicted"] for row in read_csv(out)] == ["", ""]


def test_predict_parquet_and_packed(command: Command, files: Path, runs: Path) -> None:
    plain = write_table(files / "in.csv", [row[1:] for row in ROWS], ("text", "mark"))
    _, expected, _ = command("predict", runs / "two", "--file", plain.name)
    for name in ("in.parquet", "in.csv.gz"):
        write_table(files / name, [row[1:] for row in ROWS], ("text", "mark"))
        assert command("predict", runs / "two", "--file", name)[:2] == (0, expected)


def test_predict_another_column_or_encoding(command: Command, files: Path, runs: Path) -> None:
    write_table(files / "in.csv", [("same", GOOD), ("same", BAD)], ("text", "body"))
    code, out, _ = command("predict", runs / "two", "--file", "in.csv", "--text", "body")
    assert [row["predicted"] for row in read_csv(out)] == [said.label for said in said_by(runs / "two", [GOOD, BAD])]
    probabilities = [row["probability"] for row in read_csv(out)]
    assert probabilities[0] != probabilities[1]
    (files / "old.csv").write_bytes("text\ncafé, très bon\n".replace(",", "").encode("latin-1"))
    for flag in ("--encoding", "--data.encoding"):
        code, out, _ = command("predict", runs / "two", "--file", "old.csv", flag, "latin-1")
        assert code == 0
        assert read_csv(out)[0]["text"] == "café très bon"


# --- embed ---


def test_embed_texts(command: Command, files: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gf.load(runs / "two", "cpu").embed([GOOD, BAD])
    code, out, _ = command("embed", runs / "two", GOOD, BAD)
    assert code == 0
    assert [line.keys() for line in lines(out)] == [{"text", "vector"}] * 2
    np.testing.assert_allclose([line["vector"] for line in lines(out)], [one.vector for one in expected], atol=1e-6)
    code, _, err = command("embed", runs / "two", GOOD, BAD, "--out", "vectors.npy")
    array = np.load(files / "vectors.npy")
    assert err == "2 texts written to vectors.npy\n"
    np.testing.assert_allclose(array, [one.vector for one in expected], atol=1e-6)
    (files / "in.txt").write_text(f"{GOOD}\n{BAD}\n")
    command("embed", runs / "two", "--file", "in.txt", "--out", "vectors.jsonl")
    assert (files / "vectors.jsonl").read_text() == out
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{GOOD}\n{BAD}\n"))
    assert command("embed", runs / "two")[1] == out


@pytest.mark.parametrize("run", ["two", "three"])
def test_a_row_without_text_has_no_vector(run: str, command: Command, files: Path, runs: Path) -> None:
    (expected,) = gf.load(runs / run, "cpu").embed([GOOD])
    write_table(files / "in.csv", [("1", ""), ("2", GOOD), ("3", " ")], ("id", "text"))
    code, _, err = command("embed", runs / run, "--file", "in.csv", "--out", "out.npy")
    assert code == 0
    assert "in.csv: 2 rows without text, and so without a vector\n" in err
    array = np.load(files / "out.npy")
    assert np.isnan(array).all(1).tolist() == [True, False, True]
    np.testing.assert_allclose(array[1], expected.vector, atol=1e-6)
    code, out, _ = command("embed", runs / run, "--file", "in.csv")
    assert [line.get("error") for line in lines(out)] == ["the text is empty", None, "the text is empty"]
    assert ["vector" in line for line in lines(out)] == [False, True, False]
    code, out, _ = command("embed", runs / run, "--file", "in.csv", "--per-token")
    assert [line.keys() for line in lines(out)][::2] == [{"text", "error"}] * 2
    written = gf.embed_file(runs / run, files / "in.csv", files / "again.npy")
    assert written.to_dict()["unanswered"] == {"the text is empty": 2}
    code, out, err = command("embed", runs / run, "", GOOD)
    assert (lines(out)[0], err) == (
        {"text": "", "error": "the text is empty"},
        "1 text is empty, and so without a vector\n",
    )


def test_no_row_has_a_vector(command: Command, files: Path, runs: Path) -> None:
    width = len(gf.load(runs / "two", "cpu").embed(GOOD).vector)
    for rows in ([], [("1", ""), ("2", " ")]):
        write_table(files / "in.csv", rows, ("id", "text"))
        assert command("embed", runs / "two", "--file", "in.csv", "--out", "out.npy")[0] == 0
        array = np.load(files / "out.npy")
        assert array.shape == (len(rows), width)
        assert np.isnan(array).all()
    code, _, err = command("embed", runs / "two", " ", "--per-token", "--out", "tokens.npy")
    assert code == 2
    assert "the text is empty: it has no tokens, and so no vectors" in err
    assert not (files / "tokens.npy").exists()


@pytest.mark.parametrize("run", ["two", "three", "writer"])
def test_embed_tokens(run: str, command: Command, files: Path, runs: Path) -> None:
    text = "the soup"
    expected = gf.load(runs / run, "cpu").embed(text, tokens=True)
    assert expected.tokens is not None
    code, out, _ = command("embed", runs / run, text, "--per-token")
    (found,) = lines(out)
    assert code == 0
    assert found.keys() == {"text", "tokens", "vectors"}
    assert found["tokens"] == expected.tokens == (list(text) if run == "writer" else text.split())
    np.testing.assert_allclose(found["vectors"], expected.vectors, atol=1e-6)
    command("embed", runs / run, text, "--per-token", "--out", "tokens.npy")
    assert np.load(files / "tokens.npy").shape == (len(expected.tokens), len(expected.vector))


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_a_missing_column_is_an_error(verb: str, command: Command, files: Path, runs: Path) -> None:
    write_table(files / "in.csv", [("7", GOOD), ("8", BAD)], ("id", "comment"))
    out = "out.csv" if verb == "predict" else "out.npy"
    code, _, err = command(verb, runs / "two", "--file", "in.csv", "--out", out, "-q")
    assert code == 2
    assert err == (
        "glassformer: in.csv: no column 'text', which this run reads (columns: id, comment): name another text column "
        "with --text\n"
    )
    assert not (files / out).exists()
    code, _, err = command(verb, runs / "two", "--file", "in.csv", "--out", out, "--text", "comment")
    assert code == 0
    assert "in.csv: not read: id (this run did not learn from them)" in err


def test_the_counts_of_a_written_table(command: Command, files: Path, runs: Path) -> None:
    write_table(files / "in.csv", [("7", GOOD), ("8", ""), ("9", "qqq zzz")], ("id", "text"))
    code, out, err = command("predict", runs / "two", "--file", "in.csv", "--out", "out.csv", "--json")
    (counts,) = lines(out)
    assert code == 0
    assert {name: counts[name] for name in ("rows", "unanswered", "ignored_columns", "unknown_text", "failed")} == {
        "rows": 3, "unanswered": {"the text is empty": 1}, "ignored_columns": ["id"], "unknown_text": 1, "failed": [],
    }  # fmt: skip
    assert counts["unknown_tokens"] == pytest.approx(2 / (2 + len(GOOD.split())))
    assert "1 text has no token that this run knows" in err
    assert [row["unknown_text"] for row in read_csv((files / "out.csv").read_text())] == ["false", "", "true"]
    assert command("predict", runs / "two", "--file", "in.csv", "--out", "out.parquet")[0] == 0
    assert pd.read_parquet(files / "out.parquet")["unknown_text"].tolist() == [False, None, True]
    code, out, _ = command("predict", runs / "two", "--file", "in.csv", "--json")
    assert [line.get("unknown_text") for line in lines(out)] == [None, None, True]


def test_marks_leave_columns_of_their_names_alone(command: Command, files: Path, runs: Path) -> None:
    write_table(files / "in.csv", [("mine", "qqq zzz", "0")], ("unknown_text", "text", "outside_range"))
    expected = {"unknown_text": "mine", "text": "qqq zzz", "outside_range": "0"}
    code, out, _ = command("predict", runs / "two", "--file", "in.csv")
    (row,) = read_csv(out)
    assert (code, row["unknown_text_by_model"]) == (0, "true")
    assert {name: row[name] for name in expected} == expected
    code, out, _ = command("predict", runs / "two", "--file", "in.csv", "--json")
    (line,) = lines(out)
    assert (code, line["unknown_text_by_model"]) == (0, True)
    assert {name: line[name] for name in expected} == expected


def test_a_text_without_known_tokens_is_marked(command: Command, runs: Path) -> None:
    code, out, err = command("predict", runs / "two", "qqq zzz", f"{GOOD} qqq", "--json")
    known = [(line["unknown_text"], line["unknown_tokens"]) for line in lines(out)]
    assert (code, known) == (0, [(True, 1.0), (False, pytest.approx(1 / (1 + len(GOOD.split()))))])
    assert "1 text has no token that this run knows" in err
    model = gf.load(runs / "two", "cpu")
    with pytest.warns(UserWarning, match="no token that this run knows"):
        assert [one.unknown_text for one in model.predict(["qqq", GOOD])] == [True, False]


def test_an_empty_text_is_an_error_in_python_as_on_the_command_line(command: Command, runs: Path) -> None:
    model = gf.load(runs / "two", "cpu")
    for texts, where in (("", " at position 0 (counted from 0)"), ([GOOD, " "], " at position 1 (counted from 0)")):
        with pytest.raises(DataError, match=re.escape(f"the text{where} is empty: leave it out, or write one")):
            model.predict(texts)
    assert command("predict", runs / "two", "")[0] == 2


# --- many rows ---


@pytest.mark.slow
def test_embed_a_file_in_chunks(command: Command, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{GOOD} {'very ' * (place % 7)}{place}" for place in range(40)]
    write_table(tmp_path / "in.csv", [(text,) for text in texts], ("text",))
    alone = np.stack([gf.load(runs / "two", "cpu").embed(text).vector for text in texts])
    monkeypatch.setattr("glassformer.data.io.table.ROWS_AT_ONCE", 7)
    code, _, err = command("embed", runs / "two", "--file", "in.csv", "--out", "out.npy")
    assert (code, err) == (0, "40 rows written to out.npy\n")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), alone, atol=1e-5)
    code, out, _ = command("embed", runs / "two", "--file", "in.csv")
    assert [line["text"] for line in lines(out)] == texts


def test_how_many_rows_a_second(command: Command, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in.csv", [(GOOD, "good")] * 30, ("text", "label"))
    for verb in (["predict", "--file"], ["evaluate"], ["embed", "--file"]):
        assert "/s" not in command(verb[0], runs / "two", *verb[1:], "in.csv")[2]  # too quick to be worth a line
    ticks = itertools.count()
    monkeypatch.setattr("glassformer.config.progress.time", SimpleNamespace(monotonic=lambda: 2.0 * next(ticks)))
    for verb in (["predict", "--file"], ["evaluate"], ["embed", "--file"]):
        err = command(verb[0], runs / "two", *verb[1:], "in.csv")[2]
        noun = "row" if verb[0] == "predict" else "text"
        assert re.search(rf"^30 {noun}s in \d+\.0 s: \d+ {noun}s/s$", err, re.MULTILINE), err
