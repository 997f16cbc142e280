"""`glassformer tune` as a person uses it."""

import json
from pathlib import Path

import pytest
import yaml

from helpers.running import Command

QUICK = ("--model", "average", "--steps", "2", "--training.batch_size", "8", "--model.width", "8")
DATA = "opinions:rows=120"


def test_a_search_and_its_recipe(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
    code, out, err = command("tune", DATA, *QUICK, "--trials", 2, "--data.test_fraction", 0.1)
    assert code == 0
    assert "2 trials. Best on validation: accuracy" in out
    assert "The best of 2 validation scores is optimistic, because it was chosen by that score. Test: accuracy" in out
    folder = tmp_path / "runs" / "tune-opinions-average-1"
    assert "recipe.yaml" in out
    assert "trial 0: accuracy" in err
    assert "settings as they start" in err
    assert "trial 1: accuracy" in err
    assert "next: glassformer" in err
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {
        "best", "recipe.yaml", "search.json", "study.log", "trials", "tune.html", "tune.json",
    }  # fmt: skip
    code, out, err = command("tune", DATA, *QUICK, "--trials", 2, "--data.test_fraction", 0.1, "--json")
    assert code == 0
    numbers = json.loads(out)
    assert len(numbers["trials"]) == 2
    assert numbers["run"] == "runs/tune-opinions-average-1/best"
    assert "trial 1" not in err  # nothing is tried again
    code, out, _ = command("train", DATA, "--config", folder / "recipe.yaml", "--out", "again", "--json")
    assert code == 0
    assert json.loads(out)["validation"] == numbers["validation"]


def test_what_would_be_searched(command: Command, tmp_path: Path) -> None:
    code, out, err = command("tune", DATA, "--model", "bag", "--lr", 0.1, "--show-space")
    assert code == 0
    space = yaml.safe_load(out)
    assert space["tokenizer.kind"] == ["word", "char"]
    assert space["model.ngrams"][1] == {"choices": [3, 4, 5, 6], "when": {"tokenizer.kind": ["char"]}}
    assert "training.lr" not in space
    assert "--space FILE" in err
    assert list(tmp_path.glob("runs*")) == []
    code, out, _ = command("tune", DATA, "--models", "bag,cnn", "--show-space")
    assert code == 0
    assert set(yaml.safe_load(out)) == {"bag", "cnn"}
    (tmp_path / "space.yaml").write_text(out)
    how = ("--steps", 2, "--no-final", "--trials", 1, "--minutes", 5, "--json")
    code, out, _ = command("tune", DATA, "--models", "bag,cnn", "--space", "space.yaml", *how)
    assert code == 0
    assert json.loads(out)["run"] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "DATA is missing"),
        ([DATA, "--model", "lsmt"], "unknown model 'lsmt'; did you mean lstm?"),
        ([DATA, "--trails", "3"], "unknown option --trails; did you mean --trials?"),
        ([DATA, "--trials", "0"], "--trials is 0, but must be at least 1"),
        ([DATA, "--trials", "many"], "--trials: invalid int value: 'many'"),
        ([DATA, "--trial-minutes", "0"], "--trial-minutes is 0, but must be above 0"),
        ([DATA, "--steps", "3", "--trial-minutes", "1"], "training.steps and training.minutes: give one of them"),
        ([DATA, "--space", "missing.yaml"], "cannot read the config missing.yaml"),
        ([DATA, "--space", "bad.yaml"], "bad.yaml: unknown setting 'model.widht'; did you mean model.width?"),
        ([DATA, "--storage", "trials.txt"], "--storage trials.txt: name a journal that ends in .log"),
        ([DATA, "--out", "bad.yaml"], "bad.yaml is a file: name a folder with --out"),
        ([DATA, "--out", "."], "is not empty and holds no search"),
        (["missing.csv"], "missing.csv"),
    ],
)
def test_bad_input_is_one_line(command: Command, tmp_path: Path, words: list[str], told: str) -> None:
    (tmp_path / "bad.yaml").write_text("model.widht: [1, 2]\n")
    code, out, err = command("tune", *words)
    assert (code, out) == (2, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("glassformer: ")
    assert told in last
    assert "Traceback" not in err
