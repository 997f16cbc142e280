"""Trainings on pairs that stop and go on, or are shared by two processes; and what is asked of pairs beforehand."""

import json
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.families.recognition import infer_config
from glassformer.verbs.data import check, describe, show_batch
from glassformer.verbs.train import train
from helpers.running import StopAfter, begin, finish, flags, log_of, losses_of, same_run, steps_saved, tensors_of
from helpers.tables import write_table
from helpers.translating import mirrored, translating, write_aligned

ROWS = mirrored(60)
NAMES = ("source", "target")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_table(tmp_path / "pairs.csv", ROWS, NAMES)


# --- going on ---


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"encoder": "transformer", "tokenizer__shared": False},
    {"encoder": "lstm", "model__input_feeding": True, "training__average": 4},
], ids=lambda settings: settings["encoder"])  # fmt: skip
def test_stopped_and_resumed_is_never_stopped(settings: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    settings = translating(**{**settings, "training__steps": 9, "training__validate_every": 4,
                              "model__dropout": 0.3})  # fmt: skip
    train(pairs, out=tmp_path / "whole", **settings)
    stopped = train(pairs, out=tmp_path / "again", listen=StopAfter(5), **settings)
    assert (stopped.reason, steps_saved(tmp_path / "again")[-1]) == ("interrupted", 5)
    train(out=tmp_path / "again", resume=True)
    same_run(tmp_path / "again", tmp_path / "whole")
    assert (tmp_path / "again" / "target_tokenizer.json").exists() == (settings.get("tokenizer.shared") is False)


@pytest.mark.slow
def test_two_files_may_have_moved(tmp_path: Path) -> None:
    one, other = write_aligned(tmp_path, ROWS)
    settings = translating(training__steps=2)
    train(out=tmp_path / "run", **settings, **{"data.source_file": str(one), "data.target_file": str(other)})
    moved = [str(file.rename(file.with_suffix(".moved"))) for file in (one, other)]
    place = dict(zip(("data.source_file", "data.target_file"), moved, strict=True))
    assert train(out=tmp_path / "run", resume=True, steps=3, **place).steps == 3
    Path(moved[0]).write_text("".join(f"other {place}\n" for place in range(60)))
    with pytest.raises(DataError, match="differs from the data that this run started with"):
        train(out=tmp_path / "run", resume=True, steps=4, **place)
    with pytest.raises(DataError, match="name the data to evaluate on"):
        gf.evaluate(tmp_path / "run")


@pytest.mark.slow
def test_two_processes_are_one(pairs: Path, tmp_path: Path) -> None:
    """Batches of pairs of different lengths, halved: each process pads its own."""
    settings = translating("gru", training__steps=12, training__validate_every=6, training__optimizer="momentum",
                           training__lr=0.3, training__batch_tokens=100)  # fmt: skip
    code, stdout, stderr = finish(
        begin("train", str(pairs), "--out", str(tmp_path / "two"), *flags(settings), "--json", world=2)
    )
    assert code == 0, stderr
    one = train(pairs, out=tmp_path / "one", **settings)
    assert losses_of(tmp_path / "two") == pytest.approx(losses_of(tmp_path / "one"), rel=1e-5)
    assert losses_of(tmp_path / "one")[-1] < losses_of(tmp_path / "one")[0] - 0.05
    tokens = [
        [line["tokens"] for line in log_of(tmp_path / name) if line["event"] == "step"] for name in ("one", "two")
    ]
    assert tokens[0] == tokens[1]
    mine, theirs = tensors_of(tmp_path / "two"), tensors_of(tmp_path / "one")
    for name, value in mine.items():
        assert (value - theirs[name]).abs().max() <= 1e-5 * (1 + theirs[name].abs().max()), name
    assert json.loads(stdout)["validation"]["loss"] == pytest.approx(one.validation["loss"], rel=1e-5)


# --- before anything is learned ---


def said_of(path: Path | str, **more: Any) -> tuple[Any, Any]:
    return infer_config({}, {"data.path": str(path), **more})


def test_data_is_described_and_checked(tmp_path: Path) -> None:
    rows = [*ROWS, ROWS[0], ("abab", "CC"), ("abab", "DD"), ("", "X"), ("x", " "), ("same", "same")]
    table = write_table(tmp_path / "in.csv", rows, NAMES)
    config, read = said_of(table, **{"tokenizer.kind": "char", "model.context": 6})
    assert config.task == "translation"
    described = describe(config, read)
    assert sum(part["pairs"] for part in described.parts.values()) == len(rows) - 2
    kept = [row for row in rows if row[0].strip() and row[1].strip()]
    checked = check(config, read)
    found = checked.to_dict()
    assert (found["rows"], found["empty_sources"], found["empty_targets"]) == (len(rows), 1, 1)
    assert (found["repeated_pairs"], found["ambiguous_sources"], found["copies"]) == (1, 1, 1)
    assert found["too_long"] == sum(max(len(a), len(b)) + 1 > 6 for a, b in kept)
    assert found["lengths"]["source tokens"]["max"] == 8


def test_no_training_pair_asks_for_a_start() -> None:
    config, read = said_of("reverse", **{"tokenizer.kind": "char", "model.context": 32})
    shown = show_batch(config, 0, read)
    assert "<start>" in shown.rows[0][1:12]
    assert "<start>" not in [answer for _, answer in shown.pairs]
    assert len(shown.pairs) == 12 - shown.rows[0][1:13].count("<start>")


def test_a_batch_is_shown(pairs: Path) -> None:
    config, read = said_of(pairs, **translating(tokenizer__shared=False))
    shown = show_batch(config, 1, read)
    assert shown.answers is not None
    assert len(shown.rows) == len(shown.answers) > 1
    target_of = dict(ROWS)
    for row, answer in zip(shown.rows, shown.answers, strict=True):
        word = "".join(token for token in row if token not in ("<end>", "<pad>"))
        assert row[len(word)] == "<end>"
        assert answer == "|".join(["<start>", *target_of[word], "<end>"])
    assert [len(row) for row in shown.ids] == [len(row) for row in shown.rows]
