"""A card that asks for more than the file of weights holds is refused before memory is taken."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import RunError, SettingError
from glassformer.config.limits import VARIABLE
from glassformer.families import load as load_module
from glassformer.runs.run import CARD
from helpers.running import labelled, one_line
from helpers.tables import opinions, write_table


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sizes")
    write_table(folder / "opinions.csv", opinions(60))
    gf.train(folder / "opinions.csv", out=folder / "run", **labelled("transformer", training__steps=2))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [("width", 1_000_000), ("layers", 1_000_000), ("layers", 900), ("hidden", 10**9), ("vocab", 10**9)],
)
def test_sizes_are_held_against_the_header(
    trained: Path, tmp_path: Path, key: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(trained / "run", tmp_path / "run"))
    card: dict[str, Any] = json.loads((run / CARD).read_text())
    card["config"]["model"][key] = value
    (run / CARD).write_text(json.dumps(card))

    def no_numbers(weight: Tensor, *_: object, **__: object) -> Tensor:
        assert weight.device.type == "meta"
        return weight

    for name in ("normal_", "zeros_", "uniform_", "ones_"):
        monkeypatch.setattr(torch.nn.init, name, no_numbers)
    with pytest.raises(RunError) as caught:
        gf.load(run, verify=False)
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_built_without_numbers_loads(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load_module.build_model

    def with_numbers(*args: Any) -> Any:
        torch.zeros(1).item()
        return build(*args)

    monkeypatch.setattr(load_module, "build_model", with_numbers)
    assert gf.load(trained / "run").parameters > 0


def test_a_training_that_cannot_fit(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for settings in (
        ["--model.width", "100000"],
        ["--model.layers", "10000000"],
        ["--model", "lstm", "--model.width", "1000000"],
    ):
        words = [str(trained / "opinions.csv"), *settings]
        assert main(["train", *words, "--out", str(tmp_path / "r")]) == 2
        said = one_line(capsys.readouterr().err.splitlines()[-1])
        assert "weights, gradients and optimiser alone take" in said
        assert "a smaller batch is no help" in said
        assert not (tmp_path / "r").exists()
    assert main(["plan", *words, "--no-probe"]) == 2
    assert "alone take" in capsys.readouterr().err


def test_what_is_free_may_be_exceeded(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = labelled("bag", training__steps=1)
    free = "glassformer.planning.capacity._free"
    monkeypatch.setattr(free, lambda: 10)
    with pytest.raises(SettingError, match=r"of 0\.0 KiB free on this machine; lower --size"):
        gf.train(trained / "opinions.csv", out=tmp_path / "r", **settings)
    monkeypatch.setenv(VARIABLE, "memory_share=1G")
    gf.train(trained / "opinions.csv", out=tmp_path / "r", **settings)
