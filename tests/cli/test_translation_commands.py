"""Pairs in: `train`, `translate`, `look`, `evaluate` and `data` as a person uses them."""

import json
import os
import re
import select
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from matplotlib.image import imread

from glassformer.families.load import load_for
from helpers.running import PATIENCE, Command, begin, finish
from helpers.tables import read_csv, write_table
from helpers.translating import mirrored, write_aligned, write_tmx

TEXTS = ["abc", "fed", "a", "", "bcdefa", "   ", "cab"]


@pytest.fixture
def expected(translators: Path) -> list[str]:
    found = load_for("translate", translators / "gru", "cpu").translate(TEXTS)
    return [one.text for one in found]


# --- translate ---


def test_arguments_and_files(command: Command, translators: Path, tmp_path: Path, expected: list[str]) -> None:
    assert len(set(expected)) > 4
    assert [expected[place] for place in (3, 5)] == ["", ""]
    code, out, err = command("translate", translators / "gru", *TEXTS)
    assert (code, err) == (0, "")
    assert out.splitlines() == expected
    for end in ("\n", "\r\n"):
        (tmp_path / "in.txt").write_bytes(end.join([*TEXTS, ""]).encode())
        code, out, err = command("translate", translators / "gru", "--file", "in.txt")
        assert (code, err) == (0, "")
        assert out.splitlines() == expected
    code, out, err = command("translate", translators / "gru", "--file", "in.txt", "--out", "out.txt")
    assert (code, out) == (0, "")
    assert "7 rows written to out.txt" in err
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    (tmp_path / "in.txt").write_text("")
    assert command("translate", translators / "gru", "--file", "in.txt") == (0, "", "")


def test_more_lines_than_go_through_at_once(
    command: Command, translators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[str]
) -> None:
    monkeypatch.setattr("glassformer.cli.terminal.inputs.TOGETHER", 3)
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    code, out, _ = command("translate", translators / "gru", "--file", "in.txt")
    assert out.splitlines() == expected
    code, out, _ = command("translate", translators / "gru", *TEXTS, "--nbest", "2")
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "2", "3", "3", "5", "5", "7", "7"]


def test_the_best_few_and_json(command: Command, translators: Path) -> None:
    loaded = load_for("translate", translators / "gru", "cpu")
    found = loaded.translate(["abc", "", "fed"], beam=4, nbest=3, length_penalty=0.5)
    words = ["abc", "", "fed", "--beam", "4", "--nbest", "3", "--length-penalty", "0.5"]
    code, out, _ = command("translate", translators / "gru", *words)
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines == [[str(n), f"{one.score:.4f}", one.text] for n, got in enumerate(found, 1) for one in got.best]
    code, out, _ = command("translate", translators / "gru", *words, "--json")
    assert [json.loads(line) for line in out.splitlines()] == [one.to_dict() for one in found]
    assert json.loads(out.splitlines()[0]).keys() == {"source", "translation", "score", "others"}
    code, out, _ = command("translate", translators / "gru", "abc", "--beam", "1", "--json")
    assert json.loads(out) == loaded.translate("abc", beam=1).to_dict()
    assert json.loads(out).keys() == {"source", "translation", "score"}


def test_sampled_translations(command: Command, translators: Path, tmp_path: Path) -> None:
    loaded = load_for("translate", translators / "gru", "cpu")
    expected = [one.text for one in loaded.translate(TEXTS, temperature=1.5, top_k=9, seed=7)]
    words = ["--temperature", "1.5", "--top-k", "9", "--seed", "7"]
    assert command("translate", translators / "gru", *TEXTS, *words)[1].splitlines() == expected
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    assert command("translate", translators / "gru", "--file", "in.txt", *words)[1].splitlines() == expected
    assert expected != [one.text for one in loaded.translate(TEXTS, temperature=1.5, top_k=9, seed=8)]


def test_what_is_said_of_a_text(command: Command, translators: Path) -> None:
    code, out, err = command("translate", translators / "gru", "axb", "a" * 30)
    assert (code, len(out.splitlines())) == (0, 2)
    assert err.splitlines() == [
        "1 of 2 texts are longer than 16 tokens and cut there",
        "1 token is unknown to this model",
    ]


@pytest.mark.slow
def test_a_conversation_line_by_line(translators: Path, expected: list[str]) -> None:
    """A real process: each answer is there before the next line is written."""
    process = begin("translate", str(translators / "gru"), stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    for text in TEXTS:
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert ready, process.kill()
            answer += os.read(process.stdout.fileno(), 1000)
        answers.append(answer.decode())
    code, rest, err = finish(process)
    assert (code, rest, err) == (0, "", "")
    assert answers == [f"{text}\n" for text in expected]


@pytest.mark.slow
def test_all_of_stdin_at_once(translators: Path, tmp_path: Path, expected: list[str]) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS * 60))  # more than go through at once; no newline at the end
    with (tmp_path / "in.txt").open() as file:
        code, out, err = finish(begin("translate", str(translators / "gru"), "-", stdin=file))
    assert (code, err) == (0, "")
    assert out.splitlines() == expected * 60
    (tmp_path / "latin.txt").write_bytes("abc\ncafé\n".encode("latin-1"))
    with (tmp_path / "latin.txt").open() as file:
        code, out, err = finish(begin("translate", str(translators / "gru"), stdin=file))
    assert code == 2
    assert err == "glassformer: what comes from stdin is not UTF-8\n"


def test_predict_on_a_translator(command: Command, translators: Path, expected: list[str]) -> None:
    lines = {text: f"{got}\t{text}" for text, got in zip(TEXTS, expected, strict=True) if text.strip()}
    code, out, _ = command("predict", translators / "gru", *lines)
    assert code == 0
    assert out.splitlines() == list(lines.values())
    code, out, _ = command("predict", translators / "gru", "abc", "--json")
    assert json.loads(out) == {"text": "abc", "translation": expected[0]}


# --- look ---


@pytest.mark.slow
def test_pictures_of_an_alignment(command: Command, translators: Path, tmp_path: Path) -> None:
    code, out, err = command("look", translators / "gru", "abcd", "--out", "a.json")
    assert code == 0, err
    seen = json.loads((tmp_path / "a.json").read_text())
    (heads,) = seen["panels"]
    written = load_for("translate", translators / "gru", "cpu").translate("abcd").text
    assert heads["columns"] == ["a", "b", "c", "d", "<end>"]
    assert heads["rows"] == [*written, "<end>"]
    assert out.splitlines()[0] == seen["title"] == written
    assert np.shape(heads["weights"]) == (1, 1, len(heads["rows"]), 5)
    np.testing.assert_allclose(np.sum(heads["weights"], -1), 1, atol=1e-5)
    assert "written: a.json" in err
    code, out, err = command("look", translators / "transformer", "abcd", "--out", "a.png")
    assert re.search(r"layer [01], head [01]", out)  # the clearest
    assert min(imread(tmp_path / "a.png").shape[:2]) > 200
    assert command("look", translators / "gru", "abcd", "--out", "a.svg")[0] == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()[:900]
    assert command("look", translators / "gru", "abcd")[0] == 0
    assert (tmp_path / "look.html").exists()


@pytest.mark.slow
def test_one_head_and_a_given_translation(command: Command, translators: Path, tmp_path: Path) -> None:
    words = ["look", translators / "transformer", "abc", "--translation", "CBAF", "--json"]
    code, out, _ = command(*words, "--layer", 1, "--head", 0)
    seen = json.loads(out)
    (heads,) = seen["panels"]
    assert (code, seen["title"], heads["rows"]) == (0, "CBAF", ["C", "B", "A", "F", "<end>"])
    assert (heads["layer"], heads["head"]) == (1, 0)
    assert seen["note"] == "layer 1, head 0"
    code, _, err = command("look", translators / "gru", "a" * 30, "--out", "long.png")
    assert code == 0
    assert "the text is 30 tokens long and cut after 15: no more fit" in err


# --- train, evaluate and data ---


SMALL = ["--size", "nano", "--model", "gru", "--steps", "2", "--batch-tokens", "100", "--tokenizer.kind", "char",
         "--model.context", "12"]  # fmt: skip


@pytest.mark.slow
def test_from_pairs_to_a_translation(command: Command, tmp_path: Path) -> None:
    write_table(tmp_path / "pairs.tsv", mirrored(40), ("source", "target"))
    code, out, err = command("train", "pairs.tsv", *SMALL, "--data.test_fraction", "0.1", "--out", "run", "--json")
    assert code == 0, err
    assert "columns: from 'source' to 'target' (--source, --target); task: translation (--task)" in err
    assert "next: glassformer translate run 'A text'" in err
    trained = json.loads(out)
    assert (trained["task"], trained["model"], trained["steps"]) == ("translation", "gru", 2)
    assert (tmp_path / "run" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    card = (tmp_path / "run" / "README.md").read_text()
    assert "A translator (gru" in card
    assert "glassformer translate run 'A text'" in card
    code, out, _ = command("evaluate", "run", "--beam", "1", "--json")
    evaluated = json.loads(out)
    shown = {"bleu", "chrf", "exact_match", "loss", "pairs", "target_tokens", "signature", "no_bleu", "skipped"}
    assert (evaluated.keys(), evaluated["bleu"], evaluated["skipped"]) == (shown, None, {})
    assert {key: evaluated[key] for key in trained["test"]} == pytest.approx(trained["test"])
    assert evaluated["signature"]["chrf"].startswith("nrefs:1|case:mixed|")
    code, out, err = command("evaluate", "run", "--lowercase", "--part", "validation")
    assert code == 0
    assert out.startswith("exact match ")
    assert "(beam 5)" in out
    assert "over 4 pairs" in out
    assert "no BLEU: no target has 4 words in a row" in out
    assert "chrf: nrefs:1|" in out
    assert "next: glassformer translate run 'A text'" in err


@pytest.mark.slow
def test_two_files_and_a_memory(command: Command, tmp_path: Path) -> None:
    rows = mirrored(40)
    one, other = write_aligned(tmp_path, rows)
    files = ["--source-file", one.name, "--target-file", other.name]
    code, out, err = command("train", *files, *SMALL, "--json")
    assert code == 0, err
    assert json.loads(out)["run"] == "runs/pairs-gru-1"
    write_tmx(tmp_path / "memory.tmx", rows)
    code, out, err = command("train", "memory.tmx", "--source", "fr", *SMALL, "--out", "back", "--json")
    assert code == 0, err
    code, out, _ = command("evaluate", "back", "memory.tmx", "--json")
    assert json.loads(out)["pairs"] == 40
    code, out, _ = command("evaluate", "last", *files, "--json", "--lowercase")
    assert {"pairs", "bleu_lowercase"} <= json.loads(out).keys()
    assert command("evaluate", "last", "memory.tmx", "--source", "en", "--json", "--lowercase")[1] == out


def test_evaluation_is_sacrebleus(command: Command, translators: Path, tmp_path: Path, expected: list[str]) -> None:
    rows = [
        (text, got.lower() if place else got) for place, (text, got) in enumerate(zip(TEXTS, expected, strict=True))
    ]
    kept = [(text, target) for text, target in rows if text.strip() and target]
    write_table(tmp_path / "in.csv", rows, ("source", "target"))
    options = ["--json", "--lowercase", "--bleu-tokenizer", "char", "--bad-rows", "skip"]
    code, out, err = command("evaluate", translators / "gru", "in.csv", *options)
    assert code == 0, err
    found = json.loads(out)
    outputs = [got for text, got in zip(TEXTS, expected, strict=True) if text.strip() and got]
    targets = [target for _, target in kept]
    assert found["exact_match"] == pytest.approx(1 / len(kept))
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, [targets]).score)
    for name, lowercase in {"bleu": False, "bleu_lowercase": True}.items():
        score = sacrebleu.corpus_bleu(outputs, [targets], lowercase=lowercase, tokenize="char").score
        assert found[name] == pytest.approx(score)
    assert found["skipped"] == {"without a source or target": len(TEXTS) - len(kept)}
    assert found["signature"].keys() == {"bleu", "chrf", "bleu_lowercase"}
    assert found["pairs"] == len(kept)


def test_data_of_pairs(command: Command, tmp_path: Path) -> None:
    rows = [*mirrored(30), ("abc", ""), ("", "CBA"), ("ab" * 9, "BA" * 9)]
    write_table(tmp_path / "in.csv", rows, ("source", "target"))
    code, out, _ = command("data", "check", "in.csv", "--tokenizer.kind", "char", "--model.context", "12")
    assert code == 0
    counts = dict(line.rsplit(maxsplit=1) for line in out.splitlines() if line.startswith(("rows", "empty")))
    assert counts == {"rows": "33", "empty sources": "1", "empty targets": "1"}
    assert "! 1 source is empty and would be left out: line 33" in out
    assert "! 1 pair is longer than 12 tokens and would be left out" in out
    code, out, _ = command("data", "check", "in.csv", "--tokenizer.kind", "char", "--json")
    assert json.loads(out)["empty_targets"] == 1
    code, out, _ = command("data", "describe", "in.csv", "--json")
    assert sum(part["pairs"] for part in json.loads(out)["parts"].values()) == 31
    code, out, err = command("data", "show", "in.csv", *SMALL, "--rows", "2")
    assert code == 0
    assert "1 pair is longer than 12 tokens and left out (--model.context, --data.too_long)" in err
    assert "<start>|" in out
    one, other = write_aligned(tmp_path, mirrored(30))
    code, out, err = command("data", "check", "--source-file", one.name, "--target-file", other.name, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 30


def test_the_name_of_the_output_decides_its_format(
    command: Command, translators: Path, tmp_path: Path, expected: list[str]
) -> None:
    rows = [(str(row), text) for row, text in enumerate(TEXTS)]
    write_table(tmp_path / "in.csv", rows, ("id", "source"))
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    for name in ("in.csv", "in.txt"):
        column = {"in.csv": "source", "in.txt": "text"}[name]
        for ending in ("csv", "jsonl", "txt", "xyz"):
            if (name, ending) == ("in.csv", "xyz"):
                continue
            out = f"out.{ending}"
            code, said, _ = command("translate", translators / "gru", "--file", name, "--out", out, "--json")
            counts = json.loads(said)
            assert (code, counts["rows"], counts["out"]) == (0, len(TEXTS), out)
            assert counts["unanswered"] == {"the text is empty": 2}
            content = (tmp_path / out).read_text()
            if ending == "csv":
                found = read_csv(content)
                assert [row[column] for row in found] == TEXTS
            elif ending == "jsonl":
                found = [json.loads(line) for line in content.splitlines()]
            else:
                found = [{"translation": line} for line in content.splitlines()]
            assert [row.get("translation", "") for row in found] == expected
    code, out, _ = command("translate", translators / "gru", "--file", "in.csv", "--json")
    assert (code, json.loads(out.splitlines()[0])["source"]) == (0, TEXTS[0])
    code, _, err = command("translate", translators / "gru", "--file", "in.txt", "--out", "out.csv", "--nbest", "2")
    assert (code, "translate text to .txt or .jsonl" in err) == (2, True)
