"""Runs of tables, images and mixed examples: trained, saved, loaded, gone on with; the same answers at every turn."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import DataError, Misuse, RunError, SettingError
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.load import load
from glassformer.models.inputs import Shape
from glassformer.runs.run import Run
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.files import predict_file
from glassformer.verbs.train import Trained, train
from helpers.kinds import rows_of, write_bars, write_rows
from helpers.running import identical, tensors_of
from helpers.tables import opinions

QUICK = {"training.steps": 3, "training.batch_size": 8, "training.threads": 1, "data.validation_fraction": 0.2}
SMALL = {"width": 12, "layers": 2, "heads": 2, "head_hidden": 11}
EVERY = [(kind, name) for kind in ("table", "image", "mixed") for name, info in ENCODERS.items() if kind in info.reads]
LEARNED = {
    "table": {"numbers", "categories", "dates"},
    "image": {"size", "mean", "spread", "top"},
    "mixed": {"table", "image"},
}
Make = Callable[..., Trained]


def mixed_rows(folder: Path) -> list[dict[str, Any]]:
    write_bars(folder / "bars", 30)
    kinds = ("lying", "standing")
    texts = [text for text, _ in opinions(30)]
    return [
        {
            "text": texts[n],
            "file": f"bars/{kinds[n % 2]}/{n}.png",
            "n": str(n % 7),
            "city": "xyz"[n % 3],
            "label": kinds[n % 2],
        }
        for n in range(30)
    ]


def data_of(kind: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    if kind == "table":
        return write_rows(folder / "a.csv", rows_of(60)), {}
    if kind == "image":
        return write_bars(folder / "bars", 60), {"data.shift": 1}
    return write_rows(folder / "a.csv", mixed_rows(folder)), {"extra_columns": "n,city", "image": "file"}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    for draw in ("draw_curves", "draw_confusion"):
        monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)

    def run(kind: str, name: str, out: str = "run", **more: Any) -> Trained:
        data, settings = data_of(kind, tmp_path)
        small = {f"model.{key}": value for key, value in SMALL.items() if _used(kind, name, key)}
        return train(data, out=tmp_path / out, model=name, **{**QUICK, **settings, **small, **more})

    return run


def _used(kind: str, name: str, key: str) -> bool:
    from helpers.kinds import config_of

    return config_of(kind, name).idle(f"model.{key}") is None


def loaded(run: Trained) -> LoadedPredictor:
    found = load(run, "cpu")
    assert isinstance(found, LoadedPredictor)
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_encoder_of_every_kind_trains_and_comes_back(kind: str, name: str, make: Make) -> None:
    run = make(kind, name)
    assert run.steps == 3
    assert run.validation["examples"] == (6 if kind == "mixed" else 12)
    again = evaluate(run, device="cpu")
    assert again.metrics["loss"] == pytest.approx(run.validation["loss"], rel=1e-5)
    assert "texts" not in again.metrics
    assert all("example" in record for record in again.records)
    card = Run.open(run).card()
    assert set(card["features"]) == LEARNED[kind]
    assert (card["tokenizer"] is None) == (kind != "mixed") == (not Path(run.run, "tokenizer.json").exists())
    assert card["config"]["data"]["kind"] == kind


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "name"), [("table", "mlp"), ("image", "cnn"), ("mixed", "transformer")])
def test_going_on_equals_going_through(kind: str, name: str, make: Make, tmp_path: Path) -> None:
    whole = make(kind, name, "whole", **{"training.steps": 6, "training.schedule": "constant"})
    half = make(kind, name, "half", **{"training.steps": 3, "training.schedule": "constant"})
    train(out=half.run, resume=True, steps=6)
    one, other = (tensors_of(Path(run.run)) for run in (whole, half))
    identical(one, other)


# What they say


def test_predicting_rows(make: Make, tmp_path: Path) -> None:
    run = loaded(make("table", "mlp"))
    rows = rows_of(5, seed=29)
    found = run.predict(rows)
    assert found[0].text == ", ".join(f"{name}={rows[0][name]}" for name in ("height", "weight", "city"))
    as_json = run.predict([json.dumps(row) for row in rows])
    numbers = run.predict([{**row, "height": float(row["height"])} for row in rows])
    assert found == as_json
    assert [one.label for one in numbers] == [one.label for one in found]
    alone = run.predict(rows[0])
    assert alone.label == found[0].label
    assert alone.probabilities == pytest.approx(found[0].probabilities)  # a CPU may sum a batch in another order
    assert found[0].to_dict().keys() == {"example", "label", "probability", "probabilities"}
    path = write_rows(tmp_path / "new.csv", [{"extra": "1", **row} for row in rows])
    assert predict_file(run, str(path), str(tmp_path / "out.jsonl")).rows == 5
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["predicted"] for line in lines] == [one.label for one in found]
    assert [line["probability"] for line in lines] == pytest.approx([one.probability for one in found], abs=1e-6)
    vectors = run.embed(rows)
    assert vectors[0].vector.shape == (5,)  # what the MLP reads: two numbers, three cities
    np.testing.assert_allclose(vectors[0].vector, run.embed(rows[0]).vector)


def test_predicting_images(make: Make, tmp_path: Path) -> None:
    run = loaded(make("image", "cnn"))
    write_bars(tmp_path / "new", 4, seed=5)
    files = sorted(str(path) for path in (tmp_path / "new").rglob("*.png"))
    said: list[str] = []
    found = run.predict(files, say=said.append)
    assert [one.text for one in found] == files
    assert said == []
    alone = run.predict(files[0])
    assert (alone.text, alone.label) == (found[0].text, found[0].label)
    assert alone.probability == pytest.approx(found[0].probability, abs=1e-6)  # alone or among others: to rounding
    write_bars(tmp_path / "large", 2, size=(22, 14), channels=3)
    large = sorted(str(path) for path in (tmp_path / "large").rglob("*.png"))
    assert len(run.predict(large, say=said.append)) == 2
    assert said == ["2 of 2 images brought to the 11×7 pixels that this run reads"]
    given = evaluate(run, str(tmp_path / "new"))
    assert given.metrics["examples"] == len(files) == 4
    said_of_file = {Path(one.text).relative_to(tmp_path / "new").as_posix(): one.label for one in found}
    assert {record["example"]: record["predicted"] for record in given.records} == said_of_file
    right = [one.label == Path(one.text).parent.name for one in found]
    assert given.metrics["accuracy"] == pytest.approx(np.mean(right))


def test_predicting_mixed_rows(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = loaded(make("mixed", "transformer"))
    path = tmp_path / "a.csv"
    assert predict_file(run, str(path), str(tmp_path / "out.jsonl")).rows == 30
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    whole = evaluate(run, str(path))
    assert [line["predicted"] for line in lines] == [record["predicted"] for record in whole.records]
    rows, alone = mixed_rows(tmp_path), lines[3]
    rows[3]["text"] = " "
    write_rows(tmp_path / "b.csv", rows)
    predict_file(run, str(tmp_path / "b.csv"), str(tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert all("predicted" in line for line in lines)  # a missing text is a missing value like any other
    assert lines[3]["probability"] != pytest.approx(alone["probability"], abs=1e-6)
    monkeypatch.chdir(tmp_path)
    assert run.predict(rows[:2]) == run.predict([json.dumps(row) for row in rows[:2]])
    write_bars(tmp_path / "large", 2, size=(22, 14))
    large = {**rows[0], "file": "large/lying/0.png"}
    assert len(run.predict([large, rows[1]])) == 2
    write_rows(tmp_path / "c.csv", [{**rows[0], "text": ""}])
    written = predict_file(run, str(tmp_path / "c.csv"), str(tmp_path / "out.jsonl"))
    assert (written.rows, written.to_dict()["unanswered"]) == (1, {})
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    for missing in ({**rows[0], "text": ""}, {**rows[0], "text": None}):
        expected = run.predict(missing)
        assert json.loads(line)["probability"] == pytest.approx(expected.probability, abs=1e-6)
        assert (expected.unknown_text, expected.unknown_tokens) == (False, 0.0)


# What they are asked that they cannot do


def test_what_rows_cannot_be(make: Make, tmp_path: Path) -> None:
    run = loaded(make("table", "linear"))
    for example in ("hello", "[1]", "3"):
        with pytest.raises(Misuse, match=r'reads rows, as JSON: \{"height": "…", "weight": "…", "city": "…"\}'):
            run.predict(example)
    with pytest.raises(DataError, match="given: no column 'weight', which this run reads"):
        run.predict({"height": 3, "city": "Rome"})
    with pytest.raises(
        DataError, match=r"given, row 0 \(counted from 0\), column 'weight': text where a number is wanted: 'heavy'"
    ):
        run.predict({"height": 3, "weight": "heavy", "city": "Rome"})
    with pytest.raises(Misuse, match="a vector for each example"):
        run.embed(rows_of(1)[0], tokens=True)
    lacking = write_rows(tmp_path / "b.csv", [{"height": "1", "size": "S"}])
    for ask in (lambda: evaluate(run, str(lacking)), lambda: predict_file(run, str(lacking), str(tmp_path / "o.csv"))):
        with pytest.raises(DataError, match=r"b\.csv: no column 'weight', which this run reads"):
            ask()


def test_a_constant_column_need_not_be_there_later(make: Make, tmp_path: Path) -> None:
    rows = [{"always": "7", **row} for row in rows_of(60)]
    said: list[Any] = []
    run = train(write_rows(tmp_path / "a.csv", rows), out=tmp_path / "r", model="linear", listen=said.append, **QUICK)
    assert any("not read: always (the same in every row)" in str(event) for event in said)
    assert evaluate(run, str(write_rows(tmp_path / "b.csv", rows_of(9)))).metrics["examples"] == 9
    assert evaluate(run).metrics["loss"] == pytest.approx(run.validation["loss"], rel=1e-5)


def test_features_that_were_damaged(make: Make) -> None:
    run = Run.open(make("table", "linear"))
    run.update_card(features={"numbers": []})
    with pytest.raises(RunError, match=r"glassformer\.json is damaged: the features of its examples cannot be read"):
        load(run, verify=False)
    run.update_card(features=None)
    with pytest.raises(RunError, match="has no tokenizer"):
        Run.open(run.path)


class Own(nn.Module):
    def __init__(self, shape: Shape, outputs: int) -> None:
        super().__init__()
        self.map = nn.Linear(shape.numbers, outputs)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        return self.map(numbers)


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "a.csv", rows_of(60))
    run = train(data, out=tmp_path / "run", model=Own, **QUICK)
    found = load(run, "cpu", model=Own)
    assert isinstance(found, LoadedPredictor)
    assert len(found.predict(rows_of(3))) == 3
    with pytest.raises(SettingError, match="the model gave a tuple for 1 example, but must give"):
        train(data, out=tmp_path / "other", model=Wrong(), **QUICK)


class Wrong(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, *inputs: Tensor) -> Any:
        return inputs
