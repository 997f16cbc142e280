"""FSDP: two and three processes, each with its shards, are one process with the whole model, to rounding; checkpoints go
from any number of processes to any other.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from glassformer.verbs.train import train
from helpers import training_together
from helpers.running import DATA, finish, labelled, losses_of, tensors_of, tiny
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
    assert losses_of(one) == pytest.approx(losses_of(other), rel=2e-5), one.name
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
