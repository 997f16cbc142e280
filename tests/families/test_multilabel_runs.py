"""Runs that say several labels: trained, loaded, asked, looked into, with every model that reads texts."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.main import main
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.load import load
from glassformer.rendering.panels import Table
from glassformer.reporting.report import report
from glassformer.runs.run import Run
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.look import look
from glassformer.verbs.train import train
from helpers.running import Command, labelled
from helpers.tagged import tagged, write_cells, write_columns, write_lists, write_numbers

ASKED = "the soup and bread with the coin price"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bag that has learned its labels."""
    folder = tmp_path_factory.mktemp("labels")
    settings = labelled("bag", training__steps=150, training__lr=0.3)
    train(str(write_cells(folder / "m.csv")), out=folder / "run", **settings)
    return folder / "run"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def test_a_run_says_all_labels_that_are_likely(run: Path) -> None:
    loaded = load(run)
    assert isinstance(loaded, LoadedPredictor)
    said = loaded.predict(ASKED)
    assert said.labels == ["food", "money"]
    assert said.probabilities is not None
    assert said.label is None
    assert said.probability is None
    assert said.to_dict() == {
        "text": ASKED,
        "labels": ["food", "money"],
        "probabilities": said.probabilities,
        "unknown_text": False,
        "unknown_tokens": 0.0,
    }
    assert loaded.predict("the of and").labels == []
    found = evaluate(run)
    assert found.metrics["micro_f1"] == Run(run).card()["validation"]["micro_f1"] > 0.9
    assert "labels | food, money, sport" in (run / "README.md").read_text()


def test_the_report_shows_each_label_and_what_was_wrong(run: Path) -> None:
    panels = {panel.title: panel for panel in report(run).panels}
    table = panels["Label by label"]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["food", "money", "sport"]
    assert "Least expected labels" in panels


def test_data_of_ones_own(run: Path, tmp_path: Path) -> None:
    other = write_cells(tmp_path / "other.csv", 40)
    assert evaluate(run, str(other)).metrics["texts"] == 40
    (tmp_path / "odd.csv").write_text("text,tags\nthe soup,food;war\n")
    with pytest.raises(Misuse, match=r"odd.csv, line 2, column 'tags': the label 'war' does not occur in training"):
        evaluate(run, str(tmp_path / "odd.csv"))


def test_files_in_and_out(run: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"text\n{ASKED}\nthe of and\n")
    code, _, _ = command("predict", run, "--file", tmp_path / "in.csv", "--out", tmp_path / "o.csv", "--probabilities")
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "o.csv").read_text().splitlines()))
    assert list(rows[0]) == ["text", "predicted", "p_food", "p_money", "p_sport", "unknown_text"]
    assert [row["predicted"] for row in rows] == ["food;money", ""]
    code, out, _ = command("predict", run, "--file", tmp_path / "in.csv", "--json")
    assert [json.loads(line)["predicted"] for line in out.splitlines()] == [["food", "money"], []]
    code, out, _ = command("predict", run, ASKED, "the of and")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["food; money", "(none)"]
    code, out, _ = command("predict", run, "--json", ASKED)
    assert json.loads(out)["labels"] == ["food", "money"]
    code, out, _ = command("evaluate", run)
    assert "micro F1" in out
    assert "label  precision" in out
    code, out, _ = command("data", "check", run.parent / "m.csv")
    assert code == 0
    assert "food" in out
    code, out, _ = command("data", "show", run.parent / "m.csv", "--rows", "2")
    assert code == 0


def test_looking_inside(run: Path) -> None:
    decided: Any = look(run, ASKED, view="attribution")
    assert "food" in decided.title or "money" in decided.title
    assert look(run, ASKED, view="versus", versus="the ball")
    for view in ("numbers", "step"):
        with pytest.raises(Misuse, match=f"has no {view} to look at"):
            look(run, ASKED, view=view)


@pytest.mark.parametrize("encoder", [name for name, info in ENCODERS.items() if TEXT in info.reads])
def test_every_model_of_texts_and_every_way_of_writing_labels(encoder: str, tmp_path: Path) -> None:
    path = write_lists(tmp_path / "m.jsonl", 60)
    trained = train(str(path), out=tmp_path / "run", draft=True, **labelled(encoder, training__steps=2))
    assert trained.task == "multilabel"
    assert 0 <= trained.validation["micro_f1"] <= 1
    loaded = load(tmp_path / "run")
    assert isinstance(loaded, LoadedPredictor)
    assert set(loaded.predict(ASKED).probabilities or ()) == {"food", "money", "sport"}
    record = trained.evaluations["validation"].records[0]
    assert record["labels"] == dict(tagged(60))[record["text"]]


def test_tables_columns_and_mixtures(tmp_path: Path) -> None:
    numbers = write_numbers(tmp_path / "n.csv", 300)
    found = train(str(numbers), out=tmp_path / "n", model="mlp", draft=True, **{"training.steps": 150})
    assert found.validation["micro_f1"] > 0.9
    assert evaluate(tmp_path / "n", str(numbers)).metrics["examples"] == 300
    columns = write_columns(tmp_path / "c.csv", 60)
    settings = labelled("average", training__steps=2)
    train(str(columns), out=tmp_path / "c", label="food,money,sport", draft=True, **settings)
    assert evaluate(tmp_path / "c").metrics["texts"] == 6
    assert evaluate(tmp_path / "c", str(columns)).metrics["texts"] == 60
    lines = columns.read_text().splitlines()
    mixed = tmp_path / "x.csv"
    mixed.write_text("\n".join([f"{lines[0]},length", *(f"{line},{len(line)}" for line in lines[1:])]))
    train(str(mixed), out=tmp_path / "x", label="food,money,sport", extra_columns="length", draft=True, **settings)
    assert evaluate(tmp_path / "x", str(mixed)).metrics["examples"] == 60


def test_a_refit_of_labels(tmp_path: Path) -> None:
    settings = labelled("bag", training__steps=4)
    trained = train(str(write_cells(tmp_path / "m.csv", 60)), out=tmp_path / "run", refit=True, **settings)
    assert trained.before_refit is not None
    assert "micro F1" in trained.before_refit["words"]


def test_pictures_in_folders_have_one_class_each(command: Command, tmp_path: Path) -> None:
    from helpers.kinds import write_bars

    write_bars(tmp_path / "bars", 12)
    code, _, err = command("train", tmp_path / "bars", "--task", "multilabel", "--model", "linear")
    assert code == 2
    assert "multilabel of pictures needs" in err
