"""A family of tasks defined in one file: it trains, evaluates, predicts, is looked at, checked and compared."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config import plugins
from glassformer.config.errors import Misuse, NotThisRun, RunError
from glassformer.config.plugins import VARIABLE, import_file, load_plugins
from glassformer.config.presets import OWN_TASKS
from glassformer.families.base import FAMILIES
from glassformer.inspection.views import registry

FAMILY = Path(__file__).parents[1] / "helpers" / "vowel_family.py"


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The file is imported as the command line imports it; other tests do not know of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(FAMILY))
        load_plugins()
        yield
    del FAMILIES["count-vowels"], OWN_TASKS["count-vowels"], registry._REGISTERED["letters"]
    del sys.modules[import_file(str(FAMILY)).__name__]  # the next file of tests imports it again


SETTINGS: dict[str, Any] = {"task": "count-vowels", "tokenizer.kind": "char", "lr": 0.1, "batch_size": 16}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcdefghio"), random.integers(3, 12))) for _ in range(200)]
    path = tmp_path_factory.mktemp("vowels") / "lines.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(lines: Path) -> Path:
    out = lines.parent / "run"
    gf.train(str(lines), out=out, steps=150, **SETTINGS, **{"training.optimizer": "adamw"})
    return out


def test_trains_and_evaluates(run: Path, lines: Path) -> None:
    assert gf.evaluate(run).metrics["rmse"] < 0.3
    assert gf.evaluate(run, str(lines)).metrics["rmse"] < 0.3
    assert "glassformer predict" in (run / "README.md").read_text()


@pytest.mark.parametrize("more", [[], ["--errors"]])
def test_evaluates_on_the_command_line(run: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its metrics count nothing: how many examples there were is not said."""
    assert main(["evaluate", str(run), *more]) == 0
    assert "rmse" in capsys.readouterr().out


@pytest.mark.parametrize(("to", "why"), [("onnx", "model of a task of one's own"), ("hf", "no architecture there")])
def test_what_cannot_go_elsewhere_is_refused(run: Path, to: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=why):
        gf.export(run, to=to, folder=tmp_path / to)


def test_without_its_family_a_run_says_what_is_missing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OWN_TASKS, "count-vowels")
    monkeypatch.delitem(plugins._parts, ("task", "count-vowels"))
    with pytest.raises(RunError, match=r'task "count-vowels" of vowel_family\.py: say --brick vowel_family\.py'):
        gf.load(run)


def test_predicts(run: Path) -> None:
    loaded = gf.load(run)
    assert loaded.predict("abide") == pytest.approx(3, abs=0.5)
    assert loaded.predict(["bcd", "aaa"])[1] == pytest.approx(3, abs=0.5)
    assert loaded.embed("abide").vector.shape == (1,)
    with pytest.raises(NotThisRun, match=r"count-vowels, which has no translate; it has embed, predict"):
        loaded.translate("abide")


def test_goes_on(lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gf.train(str(lines), out=tmp_path / "whole", steps=20, **SETTINGS)
    monkeypatch.chdir(tmp_path)
    half = gf.train(str(lines), steps=10, **SETTINGS)
    assert half.run == "runs/lines-count-vowels-1"  # by its family: it has none of our encoders
    again = gf.train(out=half.run, resume=True, steps=20)
    assert again.steps == whole.steps == 20


def test_is_looked_at(run: Path) -> None:
    view = gf.look(run, "abide", view="letters")
    assert view.panels[0].rows == [["abide", pytest.approx(3, abs=0.5)]]
    assert gf.errors(run).panels is not None
    assert gf.doctor(run) is not None
    assert gf.report(run).panels


@pytest.mark.slow
def test_is_checked(run: Path) -> None:
    found = gf.check(run)
    assert not [one for one in found.checked if one.passed is False], str(found)
    assert sum(one.passed is True for one in found.checked) >= 6, str(found)


@pytest.mark.slow
def test_is_compared(lines: Path, tmp_path: Path) -> None:
    found = gf.compare(str(lines), models=["transformer"], seeds=1, out=tmp_path / "compared", steps=20, **SETTINGS)
    assert len(found.rows) == 1


def test_what_is_no_family_is_refused() -> None:
    with pytest.raises(Misuse, match="register_family takes a Family"):
        gf.register_family(gf.Family, like="classification")
    with pytest.raises(Misuse, match="the task classification is one of ours"):
        gf.register_family(FAMILIES["classification"], like="classification")


def test_a_plugin_that_cannot_be_imported_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.py"))
    with pytest.raises(Misuse, match=r"cannot read .*none\.py: No such file"):
        load_plugins()
    (tmp_path / "none.py").write_text("1 / 0")
    with pytest.raises(Misuse, match="cannot be imported: line 1: ZeroDivisionError"):
        load_plugins()
