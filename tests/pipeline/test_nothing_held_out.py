"""Data that is learned from whole: nothing to validate on, the last weights, and no word of it but where one asks."""

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import DataError, GlassformerError, Misuse
from glassformer.reporting.report import report
from glassformer.training.events import Noted
from helpers.kinds import rows_of, write_rows
from helpers.tables import opinions, write_table
from helpers.translating import mirrored

SMALL: dict[str, Any] = {
    "model.width": 8,
    "model.layers": 1,
    "model.heads": 2,
    "training.steps": 3,
    "training.threads": 1,
    "data.validation_fraction": 0,
}


def write_kind(folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """Data of a kind, and settings for a small model of it."""
    if kind == "text":
        (folder / "a.txt").write_text("the cat sat on the mat. " * 9)
        return folder / "a.txt", {**SMALL, "tokenizer.kind": "char", "model.context": 8}
    if kind == "labels":
        return write_table(folder / "a.csv", opinions(20, 2)), {**SMALL, "model.context": 16}
    if kind == "pairs":
        return write_table(folder / "a.csv", mirrored(20), ("source", "target")), {**SMALL, "model.context": 16}
    settings = {name: value for name, value in SMALL.items() if not name.startswith("model.")}
    return write_rows(folder / "a.csv", rows_of(20)), {**settings, "model": "linear"}


@pytest.mark.parametrize("kind", ["text", "labels", "pairs", "table"])
def test_all_of_it_is_learned(kind: str, tmp_path: Path) -> None:
    data, settings = write_kind(tmp_path, kind)
    said: list[Any] = []
    trained = gf.train(data, out=tmp_path / "run", listen=said.append, **settings)
    assert (trained.validation, trained.summary, trained.best["step"]) == ({}, "", 3)
    assert not any("warning" in str(event) or "held out" in str(event) for event in said)
    card = gf.load(trained).run.card()
    assert (card["status"], list(card["data"]["tokens"])) == ("finished", ["train"])
    readme, page = (tmp_path / "run" / "README.md").read_text(), report(trained).page()
    assert "| held out | nothing: it has learned from all its data, and keeps its last weights |" in readme
    assert "All of it is learned from; the last weights are kept" in page
    assert "there is no evaluation yet" not in page
    with pytest.raises(Misuse, match="has learned from all its data: name other DATA"):
        gf.evaluate(trained)
    assert gf.evaluate(trained, part="train").metrics
    assert gf.evaluate(trained, str(data)).metrics


def test_what_needs_a_held_out_part_says_so(tmp_path: Path) -> None:
    data, settings = write_kind(tmp_path, "table")
    with pytest.raises(GlassformerError, match="0 holds nothing out, and --refit has to know how long"):
        gf.train(data, out=tmp_path / "run", refit=True, **settings)
    data, settings = write_kind(tmp_path, "labels")
    trained = gf.train(data, out=tmp_path / "run", **settings)
    with pytest.raises(DataError, match="has learned from all its data: nothing of it is held out; give a text"):
        gf.look(trained, view="head-ablation")


@pytest.mark.parametrize(
    ("chosen", "is_told"),
    [
        ({"training.patience": 2}, True),
        ({"training.keep": "best", "training.patience": 2}, True),
        ({"training.keep": "last"}, False),
    ],
)
def test_what_waits_for_a_validation_is_said_to_do_nothing(
    chosen: dict[str, Any], is_told: bool, tmp_path: Path
) -> None:
    data, settings = write_kind(tmp_path, "table")
    said: list[Any] = []
    gf.train(data, out=tmp_path / "run", listen=said.append, draft=True, **settings, **chosen)
    lines = [event.text for event in said if isinstance(event, Noted) and "no effect" in event.text]
    line = "nothing is held out for validation: training.patience and training.keep best have no effect"
    assert lines == [line] * is_told
