"""Weights that are many are an index and shards, in Hugging Face's naming; whoever reads a run reads both."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import RunError
from glassformer.exchange.huggingface.export import is_huggingface
from glassformer.runs import weight_files
from glassformer.runs.run import Run
from glassformer.runs.weight_files import INDEX, NEW, SHARDS, WHOLE, digest_of
from helpers.running import DATA, identical, one_line, tiny

LIMIT = 1000
"""Bytes of a shard here."""
FEW, MANY = 10**9, 400


def shards_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(SHARDS))


def index_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / INDEX).read_text()))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "SHARD_BYTES", LIMIT)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, its weights in one file (`whole`) and in shards (`shards`)."""
    folder = tmp_path_factory.mktemp("trained")
    for name, limit in (("whole", FEW), ("shards", LIMIT)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weight_files, "SHARD_BYTES", limit)
            gf.train(DATA, out=folder / name, **tiny("transformer", training__steps=2))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "shards", tmp_path / "run"))


# --- what is written ---


def test_a_training_leaves_an_index_and_shards(trained: Path) -> None:
    run, whole = trained / "shards", load_file(trained / "whole" / WHOLE)
    index, names = index_of(run), shards_of(run)
    assert len(names) > 3
    assert names == [f"model-{number:05}-of-{len(names):05}.safetensors" for number in range(1, len(names) + 1)]
    assert index["metadata"]["total_size"] == sum(weight.nbytes for weight in whole.values())
    for name in names:
        held = load_file(run / name)
        assert held.keys() == {weight for weight, owner in index["weight_map"].items() if owner == name}
        assert len(held) == 1 or sum(weight.nbytes for weight in held.values()) <= LIMIT
    assert not (run / WHOLE).exists()
    assert not (run / NEW).exists()
    assert f"`{SHARDS}` the weights" in (run / "README.md").read_text()
    assert f"`{WHOLE}` the weights" in (trained / "whole" / "README.md").read_text()


def test_it_is_the_same_run_bit_for_bit(trained: Path) -> None:
    whole, shards = Run(trained / "whole"), Run(trained / "shards")
    identical(whole.read_weights(), shards.read_weights())
    assert whole.weight_shapes() == shards.weight_shapes()
    assert whole.weights_digest() == shards.weights_digest() == shards.card()["weights"]


def test_a_tensor_that_is_larger_than_a_shard_has_one_of_its_own(tmp_path: Path) -> None:
    sizes = {"a": 10, "b": 1000, "c": 10, "d": 200, "e": 40, "f": 1}
    Run(tmp_path).write_weights({name: torch.zeros(size) for name, size in sizes.items()})
    held = [sorted(load_file(tmp_path / name)) for name in shards_of(tmp_path)]
    assert held == [["a"], ["b"], ["c", "d", "e"], ["f"]]  # four bytes a number; e fills the third to the last


@pytest.mark.parametrize("limits", [(MANY, LIMIT), (LIMIT, MANY), (MANY, FEW), (FEW, MANY)])
def test_a_later_save_leaves_nothing_of_the_one_before(
    limits: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, limit in enumerate(limits):
        monkeypatch.setattr(weight_files, "SHARD_BYTES", limit)
        weights = {f"layer.{number}": torch.full((90,), float(value)) for number in range(5)}
        Run(tmp_path).write_weights(weights)
    (tmp_path / "glassformer.json").write_text("{}")
    identical(Run(tmp_path).read_weights(verify=False), weights)
    files = {path.name for path in tmp_path.iterdir()} - {"glassformer.json"}
    assert files == ({WHOLE} if limits[1] == FEW else {INDEX, *index_of(tmp_path)["weight_map"].values()})


# --- who reads it ---


def test_text_is_written_and_looked_at_from_the_command_line(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for name in ("whole", "shards"):
        assert main(["generate", str(trained / name), "abc", "--tokens", "9", "--seed", "1", "-q"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""
    assert main(["look", str(trained / "shards"), "abc", "--out", str(tmp_path / "view.html"), "-q"]) == 0


def test_it_goes_out_to_transformers_and_comes_back(trained: Path, tmp_path: Path) -> None:
    theirs, back = tmp_path / "theirs", tmp_path / "back"
    gf.export(trained / "shards", to="hf", folder=theirs)
    assert len(shards_of(theirs)) > 3
    assert not (theirs / WHOLE).exists()
    assert is_huggingface(theirs)
    held: dict[str, Tensor] = {}
    for name in shards_of(theirs):
        held |= load_file(theirs / name)
    loaded = AutoModelForCausalLM.from_pretrained(theirs).state_dict()
    identical({name: loaded[name] for name in held}, held)
    gf.import_model(theirs, back)
    assert len(shards_of(back)) > 3
    identical(Run(back).read_weights(), Run(trained / "whole").read_weights())


def test_an_export_over_another_leaves_no_weights_of_before(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gf.export(trained / "shards", to="hf", folder=tmp_path / "theirs")
    monkeypatch.setattr(weight_files, "SHARD_BYTES", FEW)
    gf.export(trained / "shards", to="hf", folder=tmp_path / "theirs", overwrite=True)
    assert [path.name for path in (tmp_path / "theirs").glob("model*")] == [WHOLE]


def test_a_training_begins_from_it(run: Path, tmp_path: Path) -> None:
    settings = {"training.steps": 1, "training.batch_size": 4, "training.samples": False}
    gf.train(DATA, out=tmp_path / "finetuned", from_run=str(run), **settings)
    before = Run(tmp_path / "finetuned").card()["from"]["weights"]
    assert before == digest_of(run)
    shard = run / shards_of(run)[-1]
    save_file({name: weight + 1 for name, weight in load_file(shard).items()}, shard)
    assert digest_of(run) != before  # of the shards, not of their index alone
    shard.unlink()
    with pytest.raises(RunError, match=rf"names {shard.name}, which is not there"):
        digest_of(run)


def test_the_digest_of_one_file_is_its_sha256(trained: Path) -> None:
    assert digest_of(trained / "whole") == hashlib.sha256((trained / "whole" / WHOLE).read_bytes()).hexdigest()


# --- what is damaged ---


def change_index(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = index_of(run)
    change(index)
    (run / INDEX).write_text(json.dumps(index))


def name_file(name: Any) -> Callable[[Path], None]:
    return lambda run: change_index(
        run, lambda index: index["weight_map"].update(dict.fromkeys(index["weight_map"], name))
    )


def flip_last_bit(run: Path) -> None:
    path = run / shards_of(run)[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def swap(run: Path) -> None:
    one, other = (run / name for name in shards_of(run)[:2])
    one.rename(run / "x")
    other.rename(one)
    (run / "x").rename(other)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shard is missing": (
        lambda run: (run / shards_of(run)[1]).unlink(),
        "cannot read .*model-00002-of-.*No such file",
    ),
    "half a shard": (lambda run: os.truncate(run / shards_of(run)[1], 99), "model-00002-of-.* is damaged"),
    "a bit": (flip_last_bit, "a shard of .*index.json is damaged: its weights are not those"),
    "shards are exchanged": (swap, "of model-00001-of-.* it says something else than is in it"),
    "a weight more": (
        lambda run: change_index(run, lambda index: index["weight_map"].update(more=shards_of(run)[0])),
        r"of model-00001-of-.* it says something else than is in it \(more\)",
    ),
    "a path outside": (name_file("../model-00001-of-00002.safetensors"), "no name of a safetensors file beside it"),
    "a path from the root": (name_file("/etc/x.safetensors"), "no name of a safetensors file beside it"),
    "a name with a zero": (name_file("x\0.safetensors"), "no name of a safetensors file beside it"),
    "half a character": (name_file("\ud800.safetensors"), "no name of a safetensors file beside it"),
    "a long name": (name_file("x" * 300 + ".safetensors"), "x.safetensors"),
    "a number": (name_file(3), "3 is no name of a safetensors file beside it"),
    "no map": (lambda run: change_index(run, lambda index: index.pop("weight_map")), "it has no weight_map"),
    "notes that are none": (
        lambda run: change_index(run, lambda index: index["metadata"].update(glassformer=3)),
        r"index.json is damaged",
    ),
    "no index": (lambda run: (run / INDEX).unlink(), "model.safetensors is missing: deleted, or"),
    "no JSON": (lambda run: (run / INDEX).write_text("{"), "index.json is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_in_one_line(damage: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    do, words = DAMAGE[damage]
    do(run)
    with pytest.raises(RunError, match=words):
        gf.load(run)
    assert main(["generate", str(run), "abc", "--tokens", "2"]) == 1
    one_line(capsys.readouterr().err)


# --- what is being written ---


def test_shards_that_wait_to_be_moved_up_are_the_weights(run: Path) -> None:
    """As a kill leaves them: some moved up, some not; the next writer moves the rest."""
    new = {name: weight + 1 for name, weight in Run(run).read_weights().items()}
    notes = weight_files.read_notes(run)
    shutil.copytree(run, run.parent / "next")
    weight_files.write(run.parent / "next", new, notes)
    names = [*shards_of(run), INDEX]
    (run / NEW).mkdir()
    for number, name in enumerate(names):
        shutil.copy(run.parent / "next" / name, run / NEW if number % 2 or name == INDEX else run)
    digest = digest_of(run)
    identical(weight_files.read(run)[0], new)
    with Run.locked(run, "test"):
        pass
    assert not (run / NEW).exists()
    identical(weight_files.read(run)[0], new)
    assert digest_of(run) == digest == digest_of(run.parent / "next")


def test_a_training_that_writes_while_shards_are_read_is_no_damage(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first shard is of before, the others are new: all are read again."""
    card = Run(run).card()
    Run(run).write_card({**card, "status": "training"})
    others = {name: value + 1 for name, value in Run(run).read_weights().items()}
    reads = []

    def read(path: Path) -> dict[str, Tensor]:
        weights = load_file(path)
        if not reads:
            Run(run).write_weights(others)
        reads.append(path)
        return weights

    monkeypatch.setattr(weight_files, "read_tensors", read)
    identical(Run(run).read_weights(), others)
    assert len(reads) > len(shards_of(run))
