"""Fine-tuning, `--from`: another run's settings into a configuration, its tokens, and how the training then goes where
nobody says: slowly, and not for long.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.presets import DECODER_TASK, DEFAULT_TASK, MIXED, has_decoder, labels_examples, reads_stream
from glassformer.config.resolve import BUDGETS, Config
from glassformer.finetuning.model_settings import first_settings, fixed_settings, refuse_others
from glassformer.finetuning.sources import FinetuneSources
from glassformer.text.tokenizer import Tokenizer

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


@dataclass(frozen=True)
class Finetuning:
    """A training that starts from other runs, as a person asked for it."""

    sources: FinetuneSources
    said: Mapping[str, Any]

    @staticmethod
    def of(said: Mapping[str, Any]) -> "Finetuning | None":
        """By dotted key; None where nothing is begun from."""
        sources = FinetuneSources.of(said.get("model.from_run"), said.get("model.decoder_from"))
        return None if sources is None else Finetuning(sources, said)

    @property
    def task(self) -> str | None:
        """What is learned of a text without labels, where nobody says."""
        if self.sources.decoder is not None:
            return DECODER_TASK
        return self.sources.first.task if reads_stream(self.sources.first.task) else None

    @property
    def encoder(self) -> str:
        return self.sources.first.config.model.encoder

    def settings(self, task: str | None, rows: int | None = None) -> dict[str, Any]:
        """The settings that follow, by dotted key; what was said and cannot be is refused."""
        task = task or DEFAULT_TASK
        fixed = fixed_settings(self.sources, task)
        refuse_others(self.sources, fixed, self.said)
        first = first_settings(self.sources, task, self.said)
        return {**first, **first_training(self.sources, task, self.said, rows), **fixed}

    def finish(self, config: Config) -> Config:
        """The configuration with what only all of it tells."""
        if labels_examples(config.task) and config.data.kind == MIXED:
            raise SettingError(
                f"{self.sources.first} reads texts alone, and the data has other columns: leave them out (--data.kind "
                "text), or --from"
            )
        return slower(config, self.said)


def source_tokenizers(config: Config) -> tuple[Tokenizer, Tokenizer | None]:
    """The tokenizers of the runs that a training begins from: of what is read, and of the targets."""
    sources = FinetuneSources.of(config.model.from_run, config.model.decoder_from)
    assert sources is not None
    return sources.tokenizers(config.task)


def rounded(rate: float) -> float:
    """To one digit, as a person would write it."""
    return float(f"{rate:.0e}")


def finetuning_rate(task: str, width: int, last_blocks: int | None, *, whole: bool = True) -> float:
    """`whole`: nothing but a head is new."""
    if labels_examples(task) and last_blocks == 0:
        return HEAD_RATE
    return rounded(RATE / width) if whole else PARTS_RATE


def first_training(sources: FinetuneSources, task: str, said: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
    """Settings of the training by dotted key. `rows`: of labelled data; None: as many as there may be."""
    if reads_stream(task):
        return {}
    starts: dict[str, Any] = {"training.optimizer": "adamw", "training.weight_decay": 0.01, "training.warmup": WARMUP}
    blocks = said.get("training.last_blocks")
    if said.get("training.optimizer") in (None, "adamw", "muon"):  # the others have rates of another size
        whole = not has_decoder(task) or sources.whole
        starts["training.lr"] = finetuning_rate(task, sources.first.config.model.width, blocks, whole=whole)
    if labels_examples(task) and rows is not None:
        batch = said.get("training.batch_size", SMALL_BATCH if rows < FEW_ROWS else BATCH)
        starts["training.batch_size"] = batch
        if all(said.get(budget) is None for budget in BUDGETS):
            train = max(1, round(rows * said.get("data.train_fraction", 1.0)))
            epochs, updates = (HEAD_EPOCHS, HEAD_UPDATES) if blocks == 0 else (EPOCHS, UPDATES)
            starts["training.epochs"] = float(min(MOST_EPOCHS, max(epochs, math.ceil(updates * batch / train))))
    return starts


def slower(config: Config, said: Mapping[str, Any]) -> Config:
    """A model that goes on with its own task learns at a tenth of the usual rate."""
    if not reads_stream(config.task) or said.get("training.lr") is not None:
        return config
    assert config.training.lr is not None
    return replace(config, training=replace(config.training, lr=rounded(FURTHER * config.training.lr)))
