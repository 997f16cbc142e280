"""Every recipe runs as it stands."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from glassformer.cli.main import main
from glassformer.config.resolve import read_config
from glassformer.families.requests import ConfigRequest
from glassformer.verbs.train import train

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.yaml"))
SMALL = {
    "translation-base": ["--model.layers", "2", "--model.width", "32", "--model.hidden", "64", "--batch-tokens", "800"],
    "multi30k": ["--batch-tokens", "800"],
    "fine-tune-translation": ["--batch-tokens", "800"],
}
"""What makes a recipe for a GPU small enough for a test."""


QUICK = {"digits-cnn", "regression"}
"""Recipes that take about a second."""


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem not in QUICK)) for path in RECIPES],
)
def test_a_recipe_trains(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    words = ["train", "--config", str(recipe), "--steps", "3", "--out", str(tmp_path / "run"), "--json"]
    words += SMALL.get(recipe.stem, [])
    if "path" not in settings.get("data", {}):  # a recipe for data of one's own
        words.append(str(data_for(settings["task"], tmp_path)))
    if recipe.stem.startswith("fine-tune"):
        words += ["--from", str(run_for(settings["task"], words[-1], tmp_path))]
    code = main(words)
    trained = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, trained["steps"]) == (0, 3)
    measured = trained["validation"]
    assert all(math.isfinite(value) for value in measured.values())
    if trained["task"] == "classification":
        assert 0 <= measured["accuracy"] <= 1
    elif trained["task"] == "regression":
        assert measured["rmse"] > 0
    elif trained["task"] == "translation":
        assert 0 <= measured["chrf"] <= 100
    else:
        assert measured["perplexity"] > 1


@pytest.mark.parametrize("name", ["dates", "multi30k", "translation-base", "translation-small"])
def test_a_recipe_of_a_translator_is_the_same_on_a_cpu_and_a_gpu(name: str) -> None:
    (recipe,) = (path for path in RECIPES if path.stem == name)
    file = read_config(recipe)
    cpu, gpu = (ConfigRequest(file, {"device": device}).resolve({}) for device in ("cpu", "cuda"))
    assert cpu.model == gpu.model
    assert cpu.training == replace(gpu.training, device="cpu")


def run_for(task: str, data: str, folder: Path) -> Path:
    """A small run to begin from."""
    small = {
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 16,
        "model.context": 32,
        "data.validation_fraction": 0.05,
    }
    train(data, out=folder / "before", draft=True, steps=1, task=task, **small)
    return folder / "before"


def data_for(task: str, folder: Path) -> Path:
    """Something small of the right kind."""
    if task == "language-model":
        file = folder / "text.txt"
        file.write_text("All the world's a stage, and all the men and women merely players. " * 60, encoding="utf-8")
        return file
    if task == "classification":
        file = folder / "reviews.csv"
        rows = [f"part {number} is fine,good\npart {number} is dull,bad" for number in range(20)]
        file.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
        return file
    file = folder / "pairs.tsv"
    rows = [f"{number} green bottles\t{number} grüne Flaschen" for number in range(200)]
    file.write_text("\n".join(["source\ttarget", *rows]), encoding="utf-8")
    return file
