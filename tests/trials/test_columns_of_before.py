"""Comparisons, searches and folds that were begun when a column with decimal commas was no column of numbers go on with
that reading; new ones read it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import Misuse
from glassformer.config.resolve import DATA_RULES, FORMER_RULES
from glassformer.trials.running.folder import Folder
from glassformer.trials.running.question import CompareOptions, ask
from glassformer.trials.tuning.search import plan_search

TRAINED = {"training.device": "cpu", "training.threads": 1, "training.steps": 1}
DECIMAL = {"data.decimal": ","}
SPACE = {"training.lr": [0.01, 0.02]}


@pytest.fixture
def prices(tmp_path: Path) -> str:
    """A table whose label, as of before, has few classes, and is a number now."""
    rows = [f"{number % 7},{number % 5 + 1},{number % 3},5" for number in range(60)]
    file = tmp_path / "prices.csv"
    file.write_text("rooms;floor;price\n" + "\n".join(row.replace(",", ";", 2) for row in rows), encoding="utf-8")
    return str(file)


def readings(out: Path) -> set[tuple[str, str | None]]:
    """The task and the decimal sign of each run in a folder."""
    configs = [json.loads(card.read_text(encoding="utf-8"))["config"] for card in out.rglob("glassformer.json")]
    return {(config["task"], config["data"]["decimal"]) for config in configs}


def without_rules(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key.removeprefix("--") not in DATA_RULES}


@pytest.mark.slow
def test_a_comparison(prices: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    requested = {"data.path": prices, **TRAINED}
    options = CompareOptions(models=("linear",), varied={}, seeds=1, floors=False, references=False)
    then, ids = ask({**FORMER_RULES, **requested}, options, lambda line: None).key
    Folder(out := Path("runs/compare-prices-1")).open(
        {**then, "settings": without_rules(then["settings"])}, ids, overwrite=False
    )
    heard: list[str] = []
    asked = {"models": "linear", "seeds": 1, "floors": False, "references": False, **TRAINED}
    gf.compare(prices, say=heard.append, **asked)
    assert readings(out) == {("classification", "plain")}
    assert not any("decimal" in line for line in heard)
    with pytest.raises(Misuse, match=r"another data.decimal \(plain, not ,\)"):
        gf.compare(prices, out=out, **asked, **DECIMAL)


@pytest.mark.slow
def test_a_search(prices: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (out := Path("runs/tune-prices-linear-1")).mkdir(parents=True)
    then = plan_search(prices, ["linear"], TRAINED, space=SPACE, rules=FORMER_RULES).identity()
    (out / "search.json").write_text(json.dumps(without_rules(then)), encoding="utf-8")
    asked = {"model": "linear", "space": SPACE, "trials": 1, **TRAINED}
    tuned = gf.tune(prices, **asked)
    assert (tuned.out, readings(out)) == (str(out), {("classification", "plain")})
    with pytest.raises(Misuse, match=r"--data.decimal was plain, and now is ,"):
        gf.tune(prices, out=out, **asked, **DECIMAL)
    new = gf.tune(prices, out=tmp_path / "new", **asked)
    assert readings(tmp_path / "new") == {("regression", None)}
    assert "decimal" not in Path(new.recipe).read_text(encoding="utf-8")
    assert gf.tune(prices, out=tmp_path / "new", **asked).looks == new.looks


def test_folds(prices: str, tmp_path: Path) -> None:
    (tmp_path / "folds").mkdir()
    then = {"data.path": prices, "data.folds": 2, "model.encoder": "linear", **TRAINED}
    (tmp_path / "folds" / "folds.json").write_text(json.dumps({"settings": then}), encoding="utf-8")
    asked = {"model": "linear", "folds": 2, **TRAINED}
    gf.cross_validate(prices, out=tmp_path / "folds", **asked)
    assert readings(tmp_path / "folds") == {("classification", "plain")}
    gf.cross_validate(prices, out=tmp_path / "new", **asked)
    assert readings(tmp_path / "new") == {("regression", None)}
    with pytest.raises(Misuse, match=r"another data.decimal"):
        gf.cross_validate(prices, out=tmp_path / "new", **asked, **DECIMAL)
