"""Files of weights: one for a run, shards with an index for an exported folder."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import RunError
from glassformer.exchange.huggingface.export import is_huggingface
from glassformer.runs import weight_files
from glassformer.runs.run import Run
from glassformer.runs.weight_files import INDEX, SHARDS, WHOLE, digest_of, weight_map
from helpers.running import DATA, identical, one_line, tiny

LIMIT = 1000
"""Bytes of a shard here."""


def shards_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(SHARDS))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "SHARD_BYTES", LIMIT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained language model."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    gf.train(DATA, out=folder, **tiny("transformer", training__steps=2))
    return folder


def test_a_run_has_one_file_of_weights_whatever_their_size(run: Path) -> None:
    assert [path.name for path in run.glob("model*")] == [WHOLE]
    assert sum(weight.nbytes for weight in load_file(run / WHOLE).values()) > LIMIT


def test_an_index_names_the_shard_of_each_tensor(tmp_path: Path) -> None:
    sizes = {"a": 10, "b": 1000, "c": 10, "d": 200, "e": 40, "f": 1}
    weights = {name: torch.zeros(size) for name, size in sizes.items()}
    weight_files.save(tmp_path, weights)
    names = shards_of(tmp_path)
    assert names == [f"model-{number:05}-of-00004.safetensors" for number in range(1, 5)]
    held = [sorted(load_file(tmp_path / name)) for name in names]
    assert held == [["a"], ["b"], ["c", "d", "e"], ["f"]]  # four bytes a number; e fills the third to the last
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"] == {"total_size": sum(weight.nbytes for weight in weights.values()), "format": "pt"}
    assert weight_map(index) == {weight: name for name, some in zip(names, held, strict=True) for weight in some}


def test_it_goes_out_to_transformers_and_comes_back(run: Path, tmp_path: Path) -> None:
    theirs, back = tmp_path / "theirs", tmp_path / "back"
    gf.export(run, to="hf", folder=theirs)
    assert len(shards_of(theirs)) > 3
    assert not (theirs / WHOLE).exists()
    assert is_huggingface(theirs)
    held: dict[str, Tensor] = {}
    for name in shards_of(theirs):
        held |= load_file(theirs / name)
    loaded = AutoModelForCausalLM.from_pretrained(theirs).state_dict()
    identical({name: loaded[name] for name in held}, held)
    gf.import_model(theirs, back)
    identical(Run(back).read_weights(), Run(run).read_weights())


def test_an_export_over_another_leaves_no_weights_of_before(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gf.export(run, to="hf", folder=tmp_path / "theirs")
    monkeypatch.setattr(weight_files, "SHARD_BYTES", 10**9)
    gf.export(run, to="hf", folder=tmp_path / "theirs", overwrite=True)
    assert [path.name for path in (tmp_path / "theirs").glob("model*")] == [WHOLE]


def test_the_digest_is_the_sha256_of_the_file(run: Path) -> None:
    assert digest_of(run) == hashlib.sha256((run / WHOLE).read_bytes()).hexdigest()


NAMES: dict[str, tuple[Any, str]] = {
    "a path outside": ("../model-00001-of-00002.safetensors", "is not the name of a safetensors file beside it"),
    "a path from the root": ("/etc/x.safetensors", "is not the name of a safetensors file beside it"),
    "a name with a zero": ("x\0.safetensors", "is not the name of a safetensors file beside it"),
    "half a character": ("\ud800.safetensors", "is not the name of a safetensors file beside it"),
    "a number": (3, "3 is not the name of a safetensors file beside it"),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_index_names_only_files_beside_it(name: str) -> None:
    file, words = NAMES[name]
    with pytest.raises(ValueError, match=words):
        weight_map({"weight_map": {"a": file}})
    with pytest.raises(ValueError, match="it has no weight_map"):
        weight_map({})


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "half a file": (lambda path: os.truncate(path, 99), "model.safetensors is damaged"),
    "no file": (lambda path: path.unlink(), "model.safetensors is missing: "),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_in_one_line(damage: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    do, words = DAMAGE[damage]
    do(copy / WHOLE)
    with pytest.raises(RunError, match=words):
        gf.load(copy)
    assert main(["generate", str(copy), "abc", "--tokens", "2"]) == 1
    one_line(capsys.readouterr().err)
