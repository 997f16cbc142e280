"""Equal texts on both sides of a split make every score too good, also in other letters. A run keeps its split."""

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

import glassformer as gf
from glassformer.config.errors import Misuse
from glassformer.families.evaluate import own_corpus
from glassformer.runs.run import Run
from glassformer.trials.jobs import EXISTING, Job
from glassformer.trials.running.execution import run_job

BAG = {"model": "bag", "epochs": 15, "draft": True, "device": "cpu", "training.threads": 1, "training.lr": 0.05}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)


@pytest.fixture
def three_cases(tmp_path: Path) -> str:
    """300 texts with labels by chance, each in three cases."""
    random = Random(5)
    words = ["".join(random.choices("abcdefghijklmnop", k=5)) for _ in range(2003)]
    lines = ["text,label"]
    for _ in range(300):
        text, label = " ".join(random.choices(words, k=8)), random.choice(("yes", "no"))
        lines += [f"{form},{label}" for form in (text, text.upper(), text.title())]
    file = tmp_path / "cases.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def overlap(run: str) -> int:
    """How many texts of the validation part are trained on in some case."""
    parts = own_corpus(gf.load(run, "cpu")).parts
    return int(np.isin(parts["validation"].keys, parts["train"].keys).sum())


def test_labels_by_chance_are_not_learned(three_cases: str, tmp_path: Path) -> None:
    trained = gf.train(three_cases, out=tmp_path / "run", **BAG)
    assert 0.3 < trained.validation["accuracy"] < 0.7
    assert overlap(trained.run) == 0
    card = Run(Path(trained.run)).card()
    assert card["config"]["data"]["same_text"] == "normal"
    assert "600 rows repeat an earlier text (600 of them written differently: letter case" in card["data"]["report"]


@pytest.mark.slow
def test_a_run_keeps_its_split(three_cases: str, tmp_path: Path) -> None:
    before = gf.train(three_cases, out=tmp_path / "run", **BAG, **{"data.same_text": "exact"})
    assert before.validation["accuracy"] > 0.85
    run = before.run
    assert overlap(run) > 50
    assert gf.evaluate(run, part="validation").metrics["accuracy"] == pytest.approx(before.validation["accuracy"])
    assert gf.train(out=run, resume=True, epochs=16).validation["accuracy"] > 0.85
    assert Run(Path(run)).card()["config"]["data"]["same_text"] == "exact"
    again = gf.train(config=Path(run) / "glassformer.json", out=tmp_path / "again", draft=True, steps=2)
    assert overlap(again.run) > 50
    with pytest.raises(
        Misuse, match=r"data.same_text cannot change when a run goes on: data.same_text was 'exact', not 'normal'"
    ):
        gf.train(out=run, resume=True, epochs=17, **{"data.same_text": "normal"})
    settings = {"data.path": three_cases, "data.validation_fraction": 0.2, "data.test_fraction": 0.1, "run": run}
    outcome = run_job(Job(name="run", kind=EXISTING, settings=settings), tmp_path, "test", lambda **event: None)
    assert outcome is not None
    assert outcome.seen  # in other letters


def test_folds_keep_their_split(three_cases: str, tmp_path: Path) -> None:
    settings = {key: value for key, value in BAG.items() if key not in ("draft", "epochs")}
    out = tmp_path / "folds"
    gf.cross_validate(three_cases, folds=2, out=out, steps=2, **settings, **{"data.same_text": "exact"})
    shutil.rmtree(out / "fold-2")
    with pytest.raises(Misuse, match=r"another data\.same_text"):
        gf.cross_validate(three_cases, folds=2, out=out, steps=2, **settings)
    gf.cross_validate(out=out, resume=True)
    assert overlap(str(out / "fold-2")) > 50
