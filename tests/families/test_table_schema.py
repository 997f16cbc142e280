"""A run checks every table against the columns that it learned from."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import glassformer as gf
from glassformer.config.errors import DataError, RunError
from glassformer.data.columns.schema import Schema
from glassformer.families.evaluate import own_corpus
from glassformer.families.labelling import LoadedPredictor
from glassformer.verbs.files import predict_file
from helpers.kinds import write_rows
from helpers.loading import loaded
from helpers.tables import opinions

QUICK = {"steps": 3, "device": "cpu", "draft": True}
SMALL = {"model": "average", "size": "tiny", "model.context": 32, **QUICK}
CITIES = ("Bonn", "Rome", "Ulm")


def mixed_rows(count: int) -> list[dict[str, Any]]:
    """Texts, of which every fifth is missing, numbers and a category; the label is the sign of a number."""
    chance = np.random.default_rng(0)
    rows = []
    for place, (text, _) in enumerate(opinions(count, 2)):
        number = round(float(chance.normal()), 4)
        words = "" if place % 5 == 0 else text
        rows.append({"text": words, "num": number, "city": CITIES[place % 3], "label": "np"[number > 0]})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schema")


@pytest.fixture(scope="module")
def mixed(folder: Path) -> LoadedPredictor:
    data = write_rows(folder / "mixed.csv", mixed_rows(60))
    run = gf.train(data, out=folder / "mixed", label="label", extra_columns="num,city", **SMALL)
    return loaded(run)


@pytest.fixture(scope="module")
def table(folder: Path) -> LoadedPredictor:
    rows = [{name: row[name] for name in ("num", "city", "label")} for row in mixed_rows(60)]
    return loaded(gf.train(write_rows(folder / "table.csv", rows), out=folder / "table", model="mlp", **QUICK))


def test_a_run_keeps_its_schema(mixed: LoadedPredictor) -> None:
    numbers = [row["num"] for row in mixed_rows(60)]
    schema = mixed.schema
    assert (schema.text, schema.labels) == ("text", ("label",))
    found = schema.to_dict()
    low, high = found["num"].pop("range")
    assert min(numbers) <= low < high <= max(numbers)
    assert found == {
        "text": {"type": "text"},
        "num": {"type": "number"},
        "city": {"type": "category", "values": list(CITIES)},
    }


def test_columns_are_matched_by_their_names() -> None:
    named = Schema("title,body", {"n": {"type": "number"}}, ("label",))
    assert named.match("a.csv", ["body", "title", "n"]) == "title,body"
    assert named.ignored(["id", "body", "title", "n", "label"]) == ["id"]
    with pytest.raises(DataError, match=r"a\.csv: no column 'title', which this run reads \(columns: body, n\)"):
        named.match("a.csv", ["body", "n"])
    with pytest.raises(DataError, match="no column 'n'"):
        named.match("a.csv", ["title", "body"])
    assert Schema("text").match("a.csv", ["id", "extra"], "extra") == "extra"
    assert Schema("text").ignored(["id", "extra"], "extra") == ["id"]
    with pytest.raises(DataError, match=r"no column 'extre'; did you mean extra\?"):
        Schema("text").match("a.csv", ["id", "extra"], "extre")
    unnamed = Schema("source", named=False)
    assert (unnamed.match("a.csv", ["source"]), unnamed.match("a.csv", ["en"])) == ("source", None)


@pytest.mark.parametrize("name", ["text", "num", "city"])
def test_a_missing_column_of_a_mixed_table(mixed: LoadedPredictor, tmp_path: Path, name: str) -> None:
    rows = [{key: value for key, value in row.items() if key != name} for row in mixed_rows(9)]
    path = str(write_rows(tmp_path / "a.csv", rows))
    for use in (
        lambda: predict_file(mixed, path, str(tmp_path / "out.csv")),
        lambda: mixed.predict(pd.DataFrame(rows)),
        lambda: mixed.predict(rows[0]),
        lambda: gf.evaluate(mixed, path),
        lambda: gf.evaluate(mixed, pd.DataFrame(rows)),
    ):
        with pytest.raises(DataError, match=f"no column '{name}', which this run reads"):
            use()
    assert not (tmp_path / "out.csv").exists()


def test_unusual_values_are_answered_and_counted(mixed: LoadedPredictor, tmp_path: Path) -> None:
    rows = [{**row, "id": "7"} for row in mixed_rows(6)]
    rows[1]["num"], rows[2]["city"], rows[3]["text"] = 99, "Oslo", "qqq zzz"
    said: list[str] = []
    path = write_rows(tmp_path / "a.csv", rows)
    written = predict_file(mixed, path, tmp_path / "out.jsonl", say=said.append).to_dict()
    assert written["outside_range"] == {"num": 1}
    assert written["unseen_categories"] == {"city": 1}
    assert (written["unknown_text"], written["unanswered"], written["ignored_columns"]) == (1, {}, ["id"])
    assert f"{path}: not read: id (this run did not learn from them)" in said
    assert "numbers outside the range of training: num (1)" in said
    assert "1 text has no token that this run knows" in said
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert all("predicted" in line for line in lines)
    assert [line.get("outside_range") for line in lines] == [None, ["num"], None, None, None, None]
    predict_file(mixed, path, tmp_path / "out.csv")
    marked = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert marked["outside_range"].tolist() == ["", "num", "", "", "", ""]
    assert marked["unseen_categories"].tolist() == ["", "", "city", "", "", ""]
    assert marked["unknown_text"].tolist() == [False, False, False, True, False, False]
    predict_file(mixed, path, tmp_path / "out.parquet")
    typed = pd.read_parquet(tmp_path / "out.parquet")
    assert [*map(list, typed["outside_range"])] == [[], ["num"], [], [], [], []]
    assert typed["unknown_text"].dtype == bool
    found = mixed.predict(rows, say=said.append)
    assert [one.unseen_categories for one in found] == [(), (), ("city",), (), (), ()]
    assert [one.unknown_text for one in found] == [False, False, False, True, False, False]
    said.clear()
    details = gf.evaluate(mixed, path, say=said.append).details["inputs"]
    assert (details["outside_range"], details["unseen_categories"]) == ({"num": 1}, {"city": 1})
    assert f"{path}: not read: id (this run did not learn from them)" in said


def test_ignored_columns_are_a_warning_in_python(mixed: LoadedPredictor, tmp_path: Path) -> None:
    rows = [{**row, "id": "7"} for row in mixed_rows(6)]
    frame, path = pd.DataFrame(rows), str(write_rows(tmp_path / "a.csv", rows))
    for name, use in {
        "the DataFrame": lambda **more: mixed.predict(frame, **more),
        "given": lambda **more: mixed.predict(rows, **more),
        "the DataFrame ": lambda **more: gf.evaluate(mixed, frame, **more),
        "the list": lambda **more: gf.evaluate(mixed, rows, **more),
        path: lambda **more: gf.evaluate(mixed, path, **more),
        f"{path} ": lambda **more: gf.errors(mixed, path, **more),
    }.items():
        line = f"{name.strip()}: not read: id (this run did not learn from them)"
        with pytest.warns(UserWarning, match=f"^{re.escape(line)}$") as warned:
            use()
        assert len(warned) == 1
        said: list[str] = []
        use(say=said.append)
        assert said.count(line) == 1


def test_rows_without_a_text_are_learned_from_and_answered(mixed: LoadedPredictor, folder: Path) -> None:
    assert sum(map(len, own_corpus(mixed).parts.values())) == 60
    written = predict_file(mixed, folder / "mixed.csv", folder / "out.csv").to_dict()
    assert (written["rows"], written["unanswered"]) == (60, {})
    answers = pd.read_csv(folder / "out.csv")
    assert len(answers) == 60
    assert not answers.predicted.isna().any()
    assert gf.evaluate(mixed, str(folder / "mixed.csv")).metrics["examples"] == 60


def test_rows_without_a_text_are_not_the_same_text(mixed: LoadedPredictor) -> None:
    """They are split like other rows, and not kept together as equal texts are."""
    train = own_corpus(mixed).parts["train"]
    blank = [row for row, text in enumerate(train.texts) if not text]
    for rule in ("normal", "exact"):
        assert len(np.unique(train.same(rule)[blank])) == len(blank) > 5


@pytest.mark.parametrize(
    ("value", "wrong"),
    [(1e308, "1e+308 is too large for float32"), ("many", "text where a number is wanted: 'many'")],
)
def test_a_value_of_another_type_or_too_large(table: LoadedPredictor, tmp_path: Path, value: Any, wrong: str) -> None:
    rows = [{"num": 0.5, "city": "Ulm", "label": "p"}, {"num": value, "city": "Ulm", "label": "n"}]
    path = str(write_rows(tmp_path / "a.csv", rows))
    for use, line in (
        (lambda: table.predict(rows), "row 1 (counted from 0)"),
        (lambda: table.predict(pd.DataFrame(rows)), "row 1 (counted from 0)"),
        (lambda: predict_file(table, path, str(tmp_path / "out.csv")), "line 3"),
        (lambda: gf.evaluate(table, path), "line 3"),
    ):
        with pytest.raises(DataError) as refused:
            use()
        assert f", {line}, column 'num': {wrong}" in str(refused.value)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("name", ["num", "label"])
def test_training_refuses_a_number_too_large(tmp_path: Path, name: str) -> None:
    rows = [{"num": place * 1.5, "label": place * 2.5} for place in range(30)]
    rows[7][name] = 1e308
    with pytest.raises(DataError, match=f"line 9, column '{name}': 1e\\+308 is too large for float32"):
        gf.train(write_rows(tmp_path / "a.csv", rows), out=tmp_path / "run", model="linear", label="label", **QUICK)


def test_scores_that_are_not_finite_are_no_label(table: LoadedPredictor) -> None:
    broken = gf.load(table.run, "cpu")
    with torch.no_grad():
        next(broken.model.parameters()).fill_(torch.nan)
    with pytest.raises(RunError, match=r"scores for 'num=0\.5, city=Ulm' are not finite"):
        broken.predict({"num": 0.5, "city": "Ulm"})
