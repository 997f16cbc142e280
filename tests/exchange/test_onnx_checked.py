"""`check`: what a run was exported to computes what the run computes; or it does not, and that is found."""

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.checks.result import CheckResult
from glassformer.config.errors import Misuse
from glassformer.exchange.exporting import exports_of
from glassformer.verbs.check import check
from glassformer.verbs.exchange import export

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_knows_where_it_was_exported_to(tmp_path: Path) -> None:
    """It is found from the run, also after both have moved; and by its name, if only one has."""
    (tmp_path / "here").mkdir()
    run = gf.train("copy", out=tmp_path / "here" / "run", model="average", **SETTINGS).run
    export(run, to="onnx", folder=tmp_path / "here" / "elsewhere")
    export(run, to="onnx", folder=tmp_path / "here" / "elsewhere", overwrite=True)
    assert exports_of(Path(run)) == [tmp_path / "here" / "elsewhere"]
    assert checked(run).passed
    (tmp_path / "here").rename(tmp_path / "there")
    moved = str(tmp_path / "there" / "run")
    assert checked(moved).passed
    (tmp_path / "there" / "elsewhere").rename(tmp_path / "lost")
    gone = checked(moved)
    assert gone.passed is None
    assert gone.words.startswith("not exported any more: ")
    (found,) = check(moved, only="exported", export=tmp_path / "lost").checked
    assert found.passed
    with pytest.raises(Misuse, match="there is no such folder"):
        check(moved, export=tmp_path / "nowhere")


@pytest.mark.slow
def test_a_run_that_cannot_be_written_is_exported_all_the_same(tmp_path: Path) -> None:
    run, heard = gf.train("copy", out=tmp_path / "run", model="average", **SETTINGS).run, list[str]()
    Path(run, "exports.json").mkdir()
    export(run, to="onnx", folder=tmp_path / "out", say=heard.append)
    assert any("--export" in line for line in heard)
    assert (tmp_path / "out" / "model.onnx").is_file()


@pytest.mark.slow
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
