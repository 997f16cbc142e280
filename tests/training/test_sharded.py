"""FSDP: processes with a shard each are one process with the whole model, to rounding; and checkpoints go from any
number of processes to any other.
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

from glassformer.config.errors import GlassformerError, Misuse, SettingError
from glassformer.config.resolve import resolve
from glassformer.runs.stored_tensors import Rows, StoredTensors, write_rows
from glassformer.training.distributed.processes import Processes, check_device
from glassformer.verbs.train import train
from helpers import training_together
from helpers.running import (
    DATA,
    finish,
    identical,
    labelled,
    losses_of,
    tensors_of,
    tiny,
)
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating

STEPS = {"training.steps": 12, "training.validate_every": 6}


class Case(NamedTuple):
    data: Any
    settings: dict[str, Any]


def cases(folder: Path) -> dict[str, Case]:
    """Every family, every optimiser, and what meets a shard in a step."""
    texts = str(write_table(folder / "texts.csv", opinions(60)))
    numbers = str(write_table(folder / "numbers.csv", amounts(60), ("text", "number")))
    pairs = str(write_table(folder / "pairs.csv", mirrored(60), ("source", "target")))
    corpus = folder / "corpus.txt"
    corpus.write_text("\n\n".join("the cat sat on the mat\nand saw a hen " * (1 + n % 3) for n in range(60)))
    words = {"tokenizer.kind": "word", "tokenizer.min_count": 1}
    from_run = folder / "before"
    train(texts, out=from_run, **labelled("transformer", **STEPS))
    return {
        "muon": Case(DATA, tiny()),
        "adamw": Case(DATA, tiny(training__optimizer="adamw", training__accumulation_steps=2, training__batch_size=8)),
        "sgd": Case(DATA, tiny("lstm", training__optimizer="sgd", training__l2=0.001, training__weight_decay=0.1)),
        "momentum": Case(DATA, tiny("gru", training__optimizer="momentum", training__average=5)),
        "classic": Case(
            DATA, tiny(style="classic", training__average=5, training__accumulation_steps=2, training__batch_size=8)
        ),
        "recompute": Case(DATA, tiny(training__recompute=True, training__grad_clip=0.1)),
        "masked": Case(str(corpus), {"task": "masked-language-model", **without_samples(tiny(**words))}),
        "documents apart": Case(str(corpus), tiny(**words, data__documents_apart=True)),
        "labels": Case(texts, labelled("transformer")),
        "bag": Case(texts, labelled("bag")),
        "numbers": Case(numbers, labelled("lstm")),
        "translation": Case(pairs, translating()),
        "lstm translation": Case(pairs, translating("lstm")),
        "head alone": Case(
            texts,
            {
                "model.from_run": str(from_run),
                "training.last_blocks": 0,
                "model.dropout": 0.0,
                "model.word_dropout": 0.0,
            },
        ),
        "bf16": Case(DATA, tiny(training__precision="bf16", training__optimizer="sgd", training__lr=0.1)),
        "frozen body": Case(
            texts,
            {
                "model.from_run": str(from_run),
                "training.last_blocks": 1,
                "model.dropout": 0.0,
                "model.word_dropout": 0.0,
            },
        ),
    }


def test_a_model_of_ones_own_is_sharded_too(tmp_path: Path) -> None:
    """By one process, its module given as it is, with a table that two parts share; it ends with its numbers."""

    class Own(nn.Module):
        def __init__(self, vocab: int, outputs: int) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(vocab, 8), nn.Linear(8, outputs)
            scale = torch.full((8,), 2.0)
            for part in (self.embed, self.head):
                part.register_buffer("scale", scale, persistent=False)

        def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
            x = self.embed(tokens) * self.embed.scale * mask.unsqueeze(-1)
            return self.head(x.sum(1) * self.head.scale)

    texts = str(write_table(tmp_path / "texts.csv", opinions(60)))
    plain, sharded = (
        train(texts, out=tmp_path / parallel, model=Own, **STEPS, **{"training.parallel": parallel})
        for parallel in ("ddp", "fsdp")
    )
    close(tmp_path / "fsdp", tmp_path / "ddp")
    assert sharded.validation == pytest.approx(plain.validation)


def test_a_full_disk_for_a_shard_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes fails, and the training says so and leaves nothing half written."""

    def full(*args: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("glassformer.runs.checkpoints.write_rows", full)
    with pytest.raises(GlassformerError, match="No space left on device"):
        train(DATA, out=tmp_path / "run", **tiny(), **STEPS, **FSDP)
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def without_samples(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "training.samples"}


def together(world: int, trainings: Sequence[dict[str, Any]], folder: Path) -> None:
    file = folder / f"trainings-{world}.json"
    file.write_text(json.dumps(trainings))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    process = subprocess.Popen(
        [*torchrun, str(Path(training_together.__file__)), str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    code, _, err = finish(process)
    assert code == 0, err[-3000:]


def close(one: Path, other: Path, tolerance: float = 1e-4) -> None:
    """Weights, optimiser, averages and losses of two runs, equal to rounding."""
    rough = "bf16" in one.name
    assert losses_of(one) == pytest.approx(losses_of(other), rel=1e-2 if rough else 2e-5), one.name
    if rough:
        return
    mine, theirs = tensors_of(one), tensors_of(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        if "key.bias" in name:  # the softmax takes it out again: its gradient is rounding alone, which Adam makes large
            continue
        far = (value - theirs[name]).abs().max() if value.numel() else torch.zeros(())
        assert far <= tolerance * (1 + theirs[name].abs().max()), (one.name, name)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_shards_are_the_whole(world: int, tmp_path: Path) -> None:
    trainings = []
    for name, (data, settings) in cases(tmp_path).items():
        settings = {**settings, **STEPS}
        train(data, out=tmp_path / "one" / name, **settings)
        for parallel in ("ddp", "fsdp") if world == 2 else ("fsdp",):
            out = str(tmp_path / parallel / name)
            trainings.append({"data": data, "out": out, "settings": {**settings, "training.parallel": parallel}})
    together(world, trainings, tmp_path)
    for training in trainings:
        out = Path(training["out"])
        close(out, tmp_path / "one" / out.name)


HALF = {"training.steps": 6, "training.schedule_steps": 12, "training.validate_every": 3}
WHOLE = {**HALF, "training.steps": 12}
FSDP = {"training.parallel": "fsdp"}


@pytest.mark.slow
def test_a_checkpoint_goes_to_any_number_of_processes(tmp_path: Path) -> None:
    """Saved by one, two and three, loaded by one, two and three, as shards and whole; on as many, bit for bit."""
    settings = tiny(training__average=4, training__batch_size=6)
    whole = train(DATA, out=tmp_path / "whole", **settings, **WHOLE)
    train(DATA, out=tmp_path / "by 1", **settings, **HALF)
    for world in (2, 3):
        plan = {"by": HALF, "whole": WHOLE}
        trainings = [
            {"data": DATA, "out": str(tmp_path / f"{name} {world}"), "settings": {**settings, **steps, **FSDP}}
            for name, steps in plan.items()
        ]
        together(world, trainings, tmp_path)
    for world in (1, 2, 3):
        trainings = []
        for saved in (1, 2, 3):
            for parallel in ("ddp", "fsdp"):
                out = tmp_path / f"{saved} to {world} {parallel}"
                shutil.copytree(tmp_path / f"by {saved}", out)
                changes = {"training.steps": 12, "training.parallel": parallel}
                trainings.append({"data": None, "out": str(out), "settings": changes})
        together(world, trainings, tmp_path)
        for training in trainings:
            close(Path(training["out"]), tmp_path / "whole")
        if world > 1:
            identical(tensors_of(tmp_path / f"{world} to {world} fsdp"), tensors_of(tmp_path / f"whole {world}"))
    assert whole.reason == "finished"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_the_shards_that_are_written(tmp_path: Path) -> None:
    """In the format of torch.distributed.checkpoint: rows of two files become one tensor, and a single number stays."""
    whole = torch.arange(35.0).reshape(7, 5)
    for number, rows in enumerate((slice(0, 4), slice(4, 7))):
        single = {"step": Rows(torch.tensor(3.0))} if number == 0 else {}
        write_rows(tmp_path / f"{number}.safetensors", {"matrix": Rows(whole[rows], rows.start), **single})
    read = {"matrix": torch.zeros(7, 5)}
    load(read, storage_reader=HuggingFaceStorageReader(str(tmp_path)), no_dist=True)
    assert torch.equal(read["matrix"], whole)
    stored = StoredTensors.of_files(sorted(tmp_path.iterdir()))
    assert torch.equal(stored["matrix"], whole)
    assert torch.equal(stored.rows("matrix", slice(3, 6)), whole[3:6])
    assert stored.rows("matrix", slice(7, 7)).shape == (0, 5)
    assert float(stored["step"]) == 3
    assert stored.shape("step") == ()


@pytest.mark.parametrize(
    ("world", "parallel", "refused"),
    [(1, "fsdp", "training.parallel fsdp"), (2, "auto", "a training by 2 processes"), (1, "auto", None)],
)
def test_processes_on_a_mac_compute_on_its_cpu(world: int, parallel: str, refused: str | None) -> None:
    """Torch exchanges nothing between processes on mps, and shards nothing there."""
    settings = resolve({}, {"training.parallel": parallel}, {"task": "language-model"}).training
    check_device(settings, Processes(world=world), torch.device("cpu"))
    with (
        contextlib.nullcontext()
        if refused is None
        else pytest.raises(SettingError, match=f"{refused} .*--training.device cpu")
    ):
        check_device(settings, Processes(world=world), torch.device("mps"))


def test_restarts_need_a_folder_to_go_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(Misuse, match="name its folder with --out"):
        train(DATA, **tiny())
