"""`check`: what a run was exported to computes what the run computes; or it does not, and that is found."""

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.checks.result import CheckResult
from glassformer.verbs.check import check
from glassformer.verbs.export import export

SETTINGS: dict[str, Any] = {
    "tokenizer.kind": "char", "model.context": 16, "model.width": 16, "steps": 3, "training.samples": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return gf.train("copy", out=tmp_path_factory.mktemp("runs") / "run", model="average", **SETTINGS).run


def checked(run: str) -> CheckResult:
    (found,) = check(run, only="exported").checked
    return found


def test_a_folder_that_holds_no_export(run: str) -> None:
    assert checked(run).words == "not exported"
    Path(run, "export").mkdir()
    assert checked(run).passed is None
    assert "nothing is known of how to read" in checked(run).words


def test_an_export_is_compared_with_its_run(run: str, tmp_path: Path) -> None:
    export(run, to="onnx", folder=Path(run, "export"))
    found = checked(run)
    assert found.passed
    assert found.difference is not None
    assert found.difference < 1e-5
    assert found.words.endswith("alone and padded together, here and by onnxruntime")
    other = gf.train("copy", out=tmp_path / "other", model="average", seed=9, **SETTINGS).run
    Path(run, "export").rename(Path(other, "export"))
    assert checked(other).passed is False


def test_a_hugging_face_folder_is_compared_with_its_run(tmp_path: Path) -> None:
    """Two classes have one score here and two there."""
    settings = {"model.context": 16, "model.width": 16, "model.layers": 1, "style": "bert", "steps": 3}
    run = gf.train("opinions:rows=60", out=tmp_path / "run", **settings).run
    export(run, to="hf", folder=Path(run, "export"))
    found = checked(run)
    assert found.passed
    assert found.words.endswith("here and by what was imported again")
    other = gf.train("opinions:rows=60", out=tmp_path / "other", seed=9, **settings).run
    Path(run, "export").rename(Path(other, "export"))
    assert checked(other).passed is False
