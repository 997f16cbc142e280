"""Runs on tables with decimal commas and dates: the same reading wherever the values come from."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.families.labelling import LoadedPredictor
from glassformer.verbs.files import predict_file
from helpers.kinds import write_rows
from helpers.loading import loaded

QUICK: dict[str, Any] = {"training.steps": 3, "training.batch_size": 8, "training.threads": 1, "model": "linear"}
DAYS = [f"{number % 28 + 1:02}.{number % 12 + 1:02}.2024" for number in range(60)]


def rows(write: Callable[[float], Any]) -> list[dict[str, Any]]:
    """Prices from 0.317 to 1000 and more, some of which a comma and a point would mean otherwise."""
    prices = [0.317 + number * 33.125 + (1.234 if number % 3 else 0) for number in range(60)]
    return [
        {"price": write(price), "day": day, "city": ("Ulm", "Bonn")[number % 2], "amount": write(price / 8)}
        for number, (price, day) in enumerate(zip(prices, DAYS, strict=True))
    ]


def german(number: float) -> str:
    return f"{number:,.3f}".translate({ord(","): ".", ord("."): ","})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedPredictor:
    folder = tmp_path_factory.mktemp("written")
    said: list[Any] = []
    trained = gf.train(
        write_rows(folder / "german.csv", rows(german)), out=folder / "run", label="amount", listen=said.append, **QUICK
    )
    assert any("numbers: '0,317' in price is 0.317" in str(event) for event in said)
    assert any("number columns: price, day: days; category columns: city, day: month" in str(event) for event in said)
    return loaded(trained)


def test_the_same_answers_from_files_and_from_memory(run: LoadedPredictor, tmp_path: Path) -> None:
    written, plain = rows(german), rows(lambda number: round(number, 3))
    with warnings.catch_warnings():  # some of the rows are not in the training part
        warnings.filterwarnings("ignore", "numbers outside the range of training")
        same_answers(run, written, plain, tmp_path)


def same_answers(run: LoadedPredictor, written: list[Any], plain: list[Any], tmp_path: Path) -> None:
    expected = [one.value for one in run.predict(written)]
    assert [one.value for one in run.predict(plain)] == expected
    assert [one.value for one in run.predict(pd.DataFrame(plain))] == expected
    assert [one.value for one in run.predict(pd.DataFrame(written))] == expected
    assert [one.value for one in run.predict([json.dumps(row) for row in plain])] == expected
    lines = tmp_path / "plain.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in plain))
    predict_file(run, str(lines), str(tmp_path / "out.jsonl"))
    assert [json.loads(line)["predicted"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == expected
    scores = [
        gf.evaluate(run, data).metrics
        for data in (run.config.data.path, str(lines), pd.DataFrame(plain), pd.DataFrame(written))
    ]
    assert all(score == scores[0] for score in scores)


def test_another_spelling_and_other_columns_are_said(run: LoadedPredictor) -> None:
    said: list[str] = []
    run.predict([{"price": "84.44", "day": "", "city": "Ulm", "zip": "89073"}], say=said.append)
    assert said == [
        "given: not read: zip (this run did not learn from them)",
        "column 'price': 1 value is written with the other decimal sign, '84.44' is read as 84.44",
    ]


def test_in_a_program_it_is_a_warning_at_the_call(run: LoadedPredictor) -> None:
    frame = pd.DataFrame({"price": [1.5, 1e9], "day": ["", "1.2.2024"], "city": ["Ulm", "Rom"]})
    with pytest.warns(UserWarning, match="column|range") as warned:
        run.predict(frame)
    assert {one.filename for one in warned} == {__file__}
    assert [str(one.message) for one in warned] == [
        "numbers outside the range of training: price (1)",
        "column 'city': 1 value not in training, such as 'Rom', treated as unknown",
    ]


def test_labels_that_are_missing_or_new_are_skipped_and_counted(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "a.csv", [{"a": n % 7, "b": n * 3 % 11, "kind": "xyz"[n % 3]} for n in range(60)])
    odd = [{"a": 1, "b": 2, "kind": kind} for kind in ("x", "", "w", "y")]
    other = write_rows(tmp_path / "odd.csv", odd)
    with pytest.warns(UserWarning, match="^skipped: 1 row "):
        run = loaded(gf.train(table, out=tmp_path / "run", validation=str(other), bad_rows="skip", **QUICK))
    assert "skipped: 1 row without a label, line 3" in run.run.card()["data"]["report"]
    said: list[str] = []
    assert gf.evaluate(run, str(other), say=said.append).metrics["examples"] == 3
    assert said[1:] == [
        "skipped: 1 row without a label, line 3",
        "1 row has a label that does not occur in training ('w'), line 4: counted as wrong",
    ]
    assert gf.evaluate(run, pd.DataFrame(odd[:1] + odd[2:])).metrics["examples"] == 3
    with pytest.raises(DataError, match="line 3: no label in column 'kind'"):
        gf.evaluate(run, str(other), reading={"bad_rows": "error"})
