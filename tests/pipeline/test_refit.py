"""A last training on all rows: how long, on what, and what its run says of itself."""

from pathlib import Path

import pytest

from glassformer.config.errors import DataError, Misuse, SettingError
from glassformer.families.evaluate import validation_examples
from glassformer.families.load import load
from glassformer.rendering.panels import Table, Words
from glassformer.rendering.view import View
from glassformer.reporting.report import report
from glassformer.runs.run import Run
from glassformer.training.events import Event, Stepped
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.running import StopAfter, labelled, tiny
from helpers.tables import opinions, write_table

SETTINGS = labelled("bag", training__steps=40, training__validate_every=10, training__lr=0.2)


@pytest.fixture
def texts(tmp_path: Path) -> str:
    return str(write_table(tmp_path / "texts.csv", opinions(60)))


def text_of(view: View) -> str:
    panels = [panel for panel in view.panels if isinstance(panel, Words | Table)]
    return " ".join([view.note, *(f"{panel.title} {panel.note} {getattr(panel, 'text', '')}" for panel in panels)])


def test_all_rows_but_the_test_for_as_long_as_the_best_weights_took(tmp_path: Path) -> None:
    turned = {"bad": "good", "good": "bad"}
    wrong = [(f"{text} again", turned[name]) for text, name in opinions(20)]  # what is learned makes it worse
    held = str(write_table(tmp_path / "held.csv", wrong))
    texts = str(write_table(tmp_path / "texts.csv", opinions(60)))
    events: list[Event] = []
    out = tmp_path / "run"
    more = {"data.test_fraction": 0.2, "data.validation": held}
    trained = train(texts, out=out, refit=True, listen=events.append, **SETTINGS, **more)
    before, after = Run.open(out / "held-out"), Run.open(out)
    steps = before.card()["best"]["step"]
    assert steps == trained.steps == after.card()["steps"] == 10
    settings = after.config()
    assert (settings.training.keep, settings.training.steps, settings.training.schedule_steps) == ("last", steps, 40)
    assert settings.data.refit
    rates = [event.lr for event in events if isinstance(event, Stepped)]
    assert rates[40:] == rates[:steps]  # the way of the rate is that of the first training, as far as it goes
    data = after.card()["data"]
    assert data["fingerprint"] == before.card()["data"]["fingerprint"]
    assert set(data["tokens"]) == {"train", "test"}
    assert (
        data["tokens"]["train"]
        == before.card()["data"]["tokens"]["train"] + before.card()["data"]["tokens"]["validation"]
    )


def test_scores_are_those_from_before_and_are_called_so(texts: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    trained = train(texts, out=out, refit=True, **SETTINGS)
    card, held = Run.open(out).card(), Run.open(out / "held-out").card()
    assert "validation" not in card
    assert trained.validation == {}
    assert trained.before_refit is not None
    assert trained.before_refit["validation"] == card["before_refit"]["validation"] == held["validation"]
    accuracy = f"accuracy {held['validation']['accuracy']:.4f}"
    readme = (out / "README.md").read_text()
    assert f"| before the refit, on rows held out | validation {accuracy}" in readme
    assert "| validation |" not in readme
    assert f"glassformer evaluate {out} DATA" in readme
    assert f"glassformer evaluate {out}/held-out\n" in (out / "held-out" / "README.md").read_text()
    said = text_of(report(out))
    assert f"before the refit, on rows held out: validation accuracy {held['validation']['accuracy']:.3g}" in said
    assert "no score on it that would mean anything" in said
    assert "Not evaluated" not in said
    with pytest.raises(Misuse, match=r"has learned from all its data: name other DATA"):
        evaluate(out)
    assert evaluate(out / "held-out").metrics == held["validation"]
    assert evaluate(out, texts).metrics["texts"] == 60
    assert load(out).run.path == out
    with pytest.raises(DataError, match="nothing of it is held out; give a text"):
        validation_examples(load(out), 2)  # type: ignore[arg-type]


def test_a_test_part_is_judged_by_both(texts: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    trained = train(texts, out=out, refit=True, **SETTINGS, **{"data.test_fraction": 0.2})
    assert trained.test == pytest.approx(evaluate(out).metrics)
    assert trained.before_refit is not None
    assert trained.before_refit["test"] == pytest.approx(evaluate(out / "held-out").metrics)
    assert "| test | accuracy" in (out / "README.md").read_text()
    assert "How good it is" in text_of(report(out))


@pytest.mark.slow
def test_going_on_after_an_interruption_of_either_half(texts: str, tmp_path: Path) -> None:
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    train(texts, out=whole, refit=True, **SETTINGS)
    first = train(texts, out=parted, refit=True, listen=StopAfter(7), **SETTINGS)
    assert first.reason == "interrupted"
    assert not (parted / "held-out").exists()
    second = train(out=parted, refit=True, resume=True, listen=StopAfter(3))
    assert (second.reason, second.steps) == ("interrupted", 3)  # of the second half
    last = train(out=parted, resume=True)
    assert last.reason == "finished"
    assert last.before_refit is not None
    assert (parted / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_stopped_while_the_first_half_is_moved(texts: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(texts, out=out, **SETTINGS)
    (out / "held-out").mkdir()
    (out / "model.safetensors").rename(out / "held-out" / "model.safetensors")  # and no further
    assert train(out=out, resume=True, refit=True).before_refit is not None
    assert evaluate(out / "held-out").metrics


def test_between_its_halves(texts: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(texts, out=out / "held-out", **SETTINGS)
    with pytest.raises(Misuse, match="waits for its refit: go on with --resume"):
        train(texts, out=out, refit=True, **SETTINGS)
    assert train(out=out, resume=True).before_refit is not None  # that it waits is plain


@pytest.mark.slow
@pytest.mark.parametrize("data", ["reverse-pairs:rows=60", "iris", "reverse:rows=80"])
def test_pairs_tables_and_documents(data: str, tmp_path: Path) -> None:
    settings = {
        "reverse-pairs:rows=60": {**tiny("gru"), "training.samples": False, "training.batch_tokens": 64},
        "iris": {"model.encoder": "linear"},
        "reverse:rows=80": tiny("gru"),
    }[data]
    settings = {key: value for key, value in settings.items() if key != "training.batch_size" or "pairs" not in data}
    trained = train(data, out=tmp_path / "run", refit=True, **{**settings, "training.steps": 4})
    assert trained.before_refit is not None
    tokens = [Run(path).card()["data"]["tokens"] for path in (tmp_path / "run", tmp_path / "run" / "held-out")]
    assert "validation" not in tokens[0]
    assert tokens[0]["train"] > tokens[1]["train"]


def test_what_a_refit_refuses_is_said_before_anything_is_spent(texts: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"data.refit holds nothing out, .* give --refit alone"):
        train(texts, out=tmp_path / "run", refit=True, **SETTINGS, **{"data.refit": True})
    with pytest.raises(SettingError, match=r"data.train_fraction 0.5 leaves rows out, and a refit learns from all"):
        train(texts, out=tmp_path / "run", refit=True, **SETTINGS, **{"data.train_fraction": 0.5})
    assert not (tmp_path / "run").exists()
    held = tmp_path / "held.txt"
    held.write_text("some words\n" * 50)
    letters = {**tiny("gru"), "training.steps": 2}
    with pytest.raises(DataError, match=r"a refit cannot join .*held.txt to reverse:rows=80"):
        train("reverse:rows=80", out=tmp_path / "run", refit=True, **letters, **{"data.validation": str(held)})
    assert not (tmp_path / "run").exists()
    done = train(texts, out=tmp_path / "run", **SETTINGS, **{"data.train_fraction": 0.5})
    with pytest.raises(SettingError, match="leaves rows out"):
        train(out=done.run, refit=True, resume=True)
    assert not (tmp_path / "run" / "held-out").exists()


def test_a_draft_has_none(texts: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="a draft is one of many: it has no refit"):
        train(texts, out=tmp_path / "run", refit=True, draft=True, **SETTINGS)
