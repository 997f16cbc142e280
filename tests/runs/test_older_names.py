"""Runs whose weights have the names of an older version: they load, go on bit for bit, and are begun from."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.families.load import load
from glassformer.families.translation import LoadedTranslator
from glassformer.inspection.capture import capture
from glassformer.models.weights import current_name, former_name, put_weights
from glassformer.runs import history
from glassformer.runs.checkpoints import STATE, list_checkpoints
from glassformer.runs.files import digest
from glassformer.runs.run import Run
from glassformer.training.frozen import is_new
from glassformer.verbs.train import train
from helpers.running import StopAfter, identical, same_run
from helpers.translating import mirrored, translating, write_tmx

OLD = ("decoder.blocks.0.recall.query.weight", "decoder.blocks.1.around_recall.norm.weight")
SETTINGS = {
    **translating(training__steps=6, training__average=4, training__checkpoint_every=2, model__dropout=0.2),
    "training.keep_checkpoints": True,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tmx(tmp_path_factory.mktemp("data") / "pairs.tmx", mirrored(60)))


@pytest.fixture(scope="module")
def stopped(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that was stopped on its way."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    train(data, out=out, listen=StopAfter(4), **SETTINGS)
    return out


@pytest.fixture
def old(stopped: Path, tmp_path: Path) -> Path:
    return aged(stopped, tmp_path / "old")


def aged(run: Path, out: Path) -> Path:
    """A copy of a run as the version before would have left it."""
    shutil.copytree(run, out)
    for file in out.rglob("*.safetensors"):
        save_file({former_name(name): tensor for name, tensor in load_file(file).items()}, file)
    for path in list_checkpoints(out / "checkpoints"):
        state = json.loads((path / STATE).read_text())
        state["digests"] |= {file.name: digest(file) for file in path.glob("*.safetensors")}
        (path / STATE).write_text(json.dumps(state))
    card = json.loads((out / "glassformer.json").read_text())
    (out / "glassformer.json").write_text(json.dumps({**card, "format": 1}))
    return out


def translator(run: Path) -> LoadedTranslator:
    loaded = load(run, "cpu")
    assert isinstance(loaded, LoadedTranslator)
    return loaded


def test_names_are_changed_part_by_part() -> None:
    now = [current_name(name) for name in OLD]
    assert now == ["decoder.blocks.0.cross_attention.query.weight",
                   "decoder.blocks.1.around_cross_attention.norm.weight"]  # fmt: skip
    assert [former_name(name) for name in now] == list(OLD)
    assert [current_name(name) for name in now] == now
    assert current_name("decoder.blocks.0.recalls.weight") == "decoder.blocks.0.recalls.weight"


def test_weights_and_moments_load(old: Path, stopped: Path) -> None:
    assert set(OLD) <= load_file(old / "model.safetensors").keys()
    mine, theirs = translator(old), translator(stopped)
    identical(mine.model.state_dict(), theirs.model.state_dict())
    assert mine.translate("abc") == theirs.translate("abc")
    step = history.steps_of(mine.run)[1]
    for loaded in (mine, theirs):
        put_weights(loaded.model, history.weights_at(loaded.run, step), "a moment")
    identical(mine.model.state_dict(), theirs.model.state_dict())


@pytest.mark.slow
def test_a_run_goes_on_bit_for_bit(old: Path, data: str, tmp_path: Path) -> None:
    """The weights, what the optimiser remembers and the average: all of them come back."""
    assert any(
        "recall" in name for name in load_file(list_checkpoints(old / "checkpoints")[-1] / "average.safetensors")
    )
    train(data, out=tmp_path / "whole", **SETTINGS)
    train(out=old, resume=True)
    same_run(old, tmp_path / "whole")
    assert Run(old).card()["format"] == 2  # which an older glassformer refuses, for it does not know the names


@pytest.mark.slow
def test_a_run_is_begun_from(old: Path, stopped: Path, data: str, tmp_path: Path) -> None:
    more = {"steps": 1, "training.lr": 0.0, "training.weight_decay": 0.0, "training.average": None}
    made = [tmp_path / run.name for run in (old, stopped)]
    for run, out in zip((old, stopped), made, strict=True):
        train(data, out=out.with_suffix(".new"), from_run=str(run), **more)
        assert Run(out.with_suffix(".new")).card()["from"]["new"] == []
    mine, theirs = (load_file(out.with_suffix(".new") / "model.safetensors") for out in made)
    identical(mine, theirs)
    assert torch.equal(mine[current_name(OLD[0])], load_file(old / "model.safetensors")[OLD[0]])


def test_what_an_older_card_calls_new() -> None:
    assert is_new(current_name(OLD[0]), ["decoder.blocks.*.recall"])
    assert not is_new(current_name(OLD[1]), ["decoder.blocks.*.recall"])


@pytest.mark.parametrize("pattern", ["decoder.blocks.*.recall.weights", "*.recall.weights", "*recall.weights"])
def test_capture_knows_the_older_names(pattern: str, old: Path) -> None:
    model = translator(old).model
    with torch.inference_mode(), capture(model, [pattern]) as seen:
        model(torch.tensor([[3, 4, 5]]), None, torch.tensor([[1, 4]]))
    assert list(seen) == [f"decoder.blocks.{layer}.cross_attention.weights" for layer in range(2)]
    assert "decoder.blocks.1.recall.weights" in seen
    assert seen["decoder.blocks.1.recall.weights"] is seen["decoder.blocks.1.cross_attention.weights"]


class Own(nn.Module):
    """A module of one's own, with a part that is called as a part of ours once was."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.recall = nn.Embedding(vocab, 5)
        self.out = nn.Linear(5, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.out((self.recall(tokens) * mask.unsqueeze(-1)).sum(1))


@pytest.mark.slow
def test_ones_own_module_may_call_its_parts_what_it_likes(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "".join(f"word{row} a,{'yes' if row % 2 else 'no'}\n" for row in range(40)))
    settings = {"training.optimizer": "adamw", "training.schedule": "constant", "tokenizer.min_count": 1}
    train(table, out=tmp_path / "whole", model=Own, steps=4, **settings)
    train(table, out=tmp_path / "half", model=Own, steps=2, **settings)
    train(out=tmp_path / "half", resume=True, model=Own, steps=4)
    files = [load_file(tmp_path / name / "model.safetensors") for name in ("half", "whole")]
    identical(*files)
    assert "recall.weight" in files[0]
