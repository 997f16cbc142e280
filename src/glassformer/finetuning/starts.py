"""How a training that begins from another run goes, where nobody says: slowly, and not for long."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.config.presets import LABELLING, PACKED, TRANSLATION
from glassformer.config.resolve import BUDGETS, Config
from glassformer.finetuning.source import Sources

RATE = 0.02
"""Over the width: the wider a model, the smaller its steps."""
HEAD_RATE = 1e-2
"""Of a head that learns alone."""
PARTS_RATE = 3e-4
"""Of a translator of which a part is new: that has all to learn."""
FURTHER = 0.1
"""What a model that goes on with its own task learns at, of the usual rate."""
EPOCHS, MOST_EPOCHS, UPDATES = 3, 20, 200
HEAD_EPOCHS, HEAD_UPDATES = 10, 1000
"""Of a head alone, which costs next to nothing."""
BATCH, SMALL_BATCH, FEW_ROWS = 32, 16, 1000
WARMUP = 100_000
"""Never reached: a warm-up takes a tenth of the run at most."""


def rounded(rate: float) -> float:
    """To one digit, as a person would write it."""
    return float(f"{rate:.0e}")


def begun_rate(task: str, width: int, last_blocks: int | None, *, whole: bool = True) -> float:
    """`whole`: nothing but a head is new."""
    if task in LABELLING and last_blocks == 0:
        return HEAD_RATE
    return rounded(RATE / width) if whole else PARTS_RATE


def first_training(sources: Sources, task: str, said: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
    """Settings of the training by dotted key. `rows`: of labelled data; None: as many as there may be."""
    if task in PACKED:
        return {}
    starts: dict[str, Any] = {"training.optimizer": "adamw", "training.weight_decay": 0.01, "training.warmup": WARMUP}
    blocks = said.get("training.last_blocks")
    if said.get("training.optimizer") in (None, "adamw", "muon"):  # the others have rates of another size
        whole = task != TRANSLATION or sources.whole
        starts["training.lr"] = begun_rate(task, sources.first.config.model.width, blocks, whole=whole)
    if task in LABELLING and rows is not None:
        batch = said.get("training.batch_size", SMALL_BATCH if rows < FEW_ROWS else BATCH)
        starts["training.batch_size"] = batch
        if all(said.get(budget) is None for budget in BUDGETS):
            train = max(1, round(rows * said.get("data.train_fraction", 1.0)))
            epochs, updates = (HEAD_EPOCHS, HEAD_UPDATES) if blocks == 0 else (EPOCHS, UPDATES)
            starts["training.epochs"] = float(min(MOST_EPOCHS, max(epochs, math.ceil(updates * batch / train))))
    return starts


def slower(config: Config, said: Mapping[str, Any]) -> Config:
    """A model that goes on with its own task learns at a tenth of the usual rate."""
    if config.task not in PACKED or said.get("training.lr") is not None:
        return config
    assert config.training.lr is not None
    return replace(config, training=replace(config.training, lr=rounded(FURTHER * config.training.lr)))
