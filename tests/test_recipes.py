"""Every recipe runs as it stands."""

import json
from pathlib import Path

import pytest

from glassformer.cli.main import main

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["train", "--config", str(recipe), "--steps", "3", "--out", str(tmp_path / "run"), "--json"])
    trained = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, trained["task"], trained["steps"]) == (0, "classification", 3)
    assert 0 <= trained["validation"]["accuracy"] <= 1
