"""Exports that cannot be, or would be wrong: one line, and nothing is left behind."""

import contextlib
import sys
from pathlib import Path

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from glassformer.bricks.norm import LayerNorm
from glassformer.config.errors import GlassformerError, Misuse, RunError
from glassformer.config.presets import TEXT
from glassformer.exchange.exporting import check_empty, fill_folder
from glassformer.exchange.onnx import graph as onnx_graph
from glassformer.exchange.onnx import twins as onnx_twins
from glassformer.exchange.onnx.export import FILES
from glassformer.exchange.onnx.graph import OnnxModel
from helpers.exported import LETTERS, export, reader, writer
from helpers.support import tokens


class Forgetful(LayerNorm):
    """A twin that is none."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x) * 1.01


class Undecided(nn.Module):
    """What it does depends on what it reads: no graph can hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(LETTERS.vocab_size, 3)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        return self.table(words).sum(1) if int(words.sum()) % 2 else self.table(words).amax(1)


def one_line(error: pytest.ExceptionInfo[GlassformerError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow
def test_a_graph_that_computes_something_else_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(onnx_twins.TWINS, LayerNorm, Forgetful)
    what = reader(TEXT, "cnn", norm="layer")
    with pytest.raises(RunError, match=r"differs from its run by 0\.\d+ of the largest score") as error:
        export(what, tmp_path / "out")
    one_line(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_model_that_no_graph_can_hold(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="cannot be exported to ONNX: ") as error:
        export({**reader(TEXT, "average"), "model": Undecided().eval()}, tmp_path / "out")
    one_line(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["onnx", "onnxruntime", "onnxscript"])
def test_a_package_that_is_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Misuse, match=rf"ONNX needs {name}: pip install 'glassformer\[onnx\]'"):
        export(writer("average"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Misuse, match="is not empty: replace what is in it with --overwrite, or name another folder"):
        export(writer("average"), tmp_path)
    with pytest.raises(Misuse, match=r"notes\.txt is a file: name a folder"):
        export(writer("average"), tmp_path / "notes.txt")
    check_empty(tmp_path / "new")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_overwriting_takes_what_an_export_left_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("notes.txt", "encoder.onnx", "README.md"):
        (out / name).write_text("old")
    with fill_folder(out, overwrite=True, owned=FILES) as place:
        (place / "README.md").write_text("new")
        (place / "model.onnx").write_text("new")
        assert (out / "README.md").read_text() == "old"
    found = {file.name: file.read_text() for file in out.iterdir()}
    assert found == {"notes.txt": "old", "README.md": "new", "model.onnx": "new"}
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_what_breaks_off_leaves_the_old_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.onnx").write_text("old")
    with contextlib.suppress(KeyError), fill_folder(out, overwrite=True, owned=FILES) as place:
        (place / "model.onnx").write_text("new")
        raise KeyError
    assert (out / "model.onnx").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_weights_too_large_for_one_file_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "MAX_INLINE_BYTES", 100)
    what = writer("average")
    files = export(what, tmp_path / "out")
    assert "model.onnx.data" in {file.name for file in files}
    ids = tokens(2, 3, vocab=LETTERS.vocab_size)
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    found = OnnxModel(tmp_path / "elsewhere")(ids, None)
    torch.testing.assert_close(found, what["model"](ids).detach())
    (tmp_path / "elsewhere" / "model.onnx.data").unlink()
    with pytest.raises(Misuse, match=r"model\.onnx cannot be opened by onnxruntime"):
        OnnxModel(tmp_path / "elsewhere")


@pytest.mark.slow
def test_a_run_in_training_and_in_another_precision(tmp_path: Path) -> None:
    """What is exported is the model in use; the one given stays as it is."""
    what = writer("average", dropout=0.5)
    model = what["model"].double().train()
    export(what, tmp_path / "out")
    assert model.training
    assert model.head.weight.dtype == torch.float64
    ids = tokens(2, 3, vocab=LETTERS.vocab_size)
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    (found,) = session.run(None, {"tokens": ids.numpy(), "mask": torch.ones_like(ids).bool().numpy()})
    torch.testing.assert_close(torch.from_numpy(found), model.eval()(ids).detach().float())
