"""Set-up of a plan: the settings, the task, the function that builds the model, and the largest batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import SettingError
from glassformer.config.messages import listening, silent
from glassformer.config.presets import DEFAULT_TASK
from glassformer.config.resolve import BUDGETS, Config, resolve
from glassformer.config.sections import TrainingSettings
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.build import build_model, learn_from_data, prepare
from glassformer.families.recognition import file_settings, flag_settings, infer_config, with_vectors
from glassformer.models.build import build_language_model
from glassformer.planning.training_step import Piece
from glassformer.tasks.base import Task
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.budget import Stopwatch
from glassformer.training.optimiser import freeze
from glassformer.training.schedule import total_steps

BATCHES = 64
"""Number of batches from which the largest is chosen."""
CPU = torch.device("cpu")
ONLY_BY_NAME = "a plan is made of models by name (--model), not of a person's own nn.Module"


@dataclass(frozen=True)
class PlannedTraining:
    """Training run that has not started."""

    config: Config
    task: Task
    build: Callable[[Config], nn.Module]
    """Function that builds the model, without values that are learned from the data before the first step."""
    batch: int
    """Number of examples in the largest batch."""
    batch_tokens: int
    """Number of tokens in the largest batch."""
    piece: Piece
    """Tensors of the largest batch."""
    tokens: dict[str, int]
    """Number of tokens by part of the data."""
    per_update: float
    """Mean tokens per update."""
    prepared: Prepared | None = None
    reading: float = 0.0
    """Seconds of reading the data and learning its tokens."""

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.task]

    @property
    def updates(self) -> int | None:
        return total_steps(self.config.training, self.task)

    def model(self) -> nn.Module:
        """Return the model that training would start from."""
        model = self.build(self.config)
        if self.prepared is not None:
            learn_from_data(model, self.prepared, self.config)
        return model

    @property
    def blocks(self) -> int | None:
        """Return the number of equal blocks; None if blocks differ, or encoder and decoder have different numbers."""
        if self.config.training.last_blocks is not None:  # some blocks are trained, others are frozen
            return None
        model = self.config.model
        stacks: set[tuple[str | None, int | None]] = {(model.encoder, model.layers)}
        if self.family.has_decoder:
            stacks.add((model.decoder, model.decoder_layers))
        return model.layers if stacks == {("transformer", model.layers)} else None

    def with_blocks(self, count: int) -> Config:
        """Return the settings of the same model with `count` blocks."""
        return replace(self.config, model=self.config.model.with_values(layers=count, decoder_layers=count))

    def rows(self, count: int) -> Piece:
        """Return the first `count` examples of the largest batch."""
        return [tensor[:count] for tensor in self.piece]


def flags_of(data: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a plan by dotted key."""
    if callable(settings.get("model")):
        raise SettingError(ONLY_BY_NAME)
    return flag_settings(data, settings)


def from_data(flags: dict[str, Any], config: str | Path | None, *, gpus: int | None) -> PlannedTraining:
    """Return a training run on data. With `gpus`, the defaults are for a GPU."""
    clock, file = Stopwatch(), file_settings(config)
    if gpus is not None:
        flags = {**flags, "training.device": "cuda"}
    resolved, table = infer_config(file, with_vectors({**file, **flags}, flags))
    if resolved.model.encoder == OWN:
        raise SettingError(ONLY_BY_NAME)
    family = FAMILIES[resolved.task]
    if family.labels_examples and resolved.training.last_blocks == 0:
        raise SettingError("training.last_blocks 0 trains a head on features computed once, which no plan is made of")
    if gpus is not None and "training.batch_size" not in {**file, **flags}:
        resolved = replace(resolved, training=_shared_by(gpus, resolved.training))
    prepared = prepare(resolved, rows=table)
    reading = clock()
    task = prepared.task
    batches = (task.batch(step) for step in range(min(BATCHES, max(1, int(task.steps_per_epoch)))))
    batch = max(batches, key=lambda batch: sum(tensor.numel() for tensor in batch.tensors(CPU)))
    new: Sequence[str] = ()
    if family.has_decoder and resolved.training.last_blocks is not None:  # new weights are trained as well
        with listening(silent):
            taken = learn_from_data(build_model(resolved, prepared), prepared, resolved)
        new = () if taken is None else taken["new"]

    def build(config: Config) -> nn.Module:
        model = build_model(config, prepared)
        freeze(model, config.training.last_blocks, new)
        return model

    piece, tokens = batch.tensors(CPU), prepared.tokens
    per_update = float(batch.tokens) if task.steady else tokens["train"] / task.steps_per_epoch
    return PlannedTraining(
        resolved, task, build, batch.size, batch.tokens, piece, tokens, per_update, prepared, reading
    )


def _shared_by(gpus: int, training: TrainingSettings) -> TrainingSettings:
    """Return settings with a batch that GPUs share evenly: unchanged, or one example per GPU and accumulation step."""
    parts = gpus * training.accumulation_steps
    return training if training.batch_size % parts == 0 else replace(training, batch_size=parts)


def from_tokens(flags: dict[str, Any], config: str | Path | None, tokens: int, *, gpus: int) -> PlannedTraining:
    """Return a training run on a number of tokens, without data."""
    file = file_settings(config)
    given = {**file, **flags}
    family = FAMILIES[given.get("task") or DEFAULT_TASK]
    if not family.predicts_next:
        raise SettingError(f"--training-tokens is for language models: a plan for {family.task} needs DATA")
    if given.get("model.from_run") is not None:
        raise SettingError("--training-tokens is for models trained from scratch: a plan with --from needs DATA")
    if all(given.get(budget) is None for budget in BUDGETS):
        flags = {**flags, "training.epochs": 1}
    resolved = resolve(file, flags)
    if "training.batch_size" not in given:
        resolved = replace(resolved, training=_shared_by(gpus, resolved.training))
    kind = resolved.tokenizer.kind
    vocab = resolved.tokenizer.vocab_size or (4096 if kind == "bpe" else None)
    if vocab is None:
        raise SettingError(f"the vocabulary size of tokenizer kind {kind} is unknown: give DATA or --vocab-size")
    context, batch = resolved.model.context, resolved.training.batch_size
    task = LanguageModelling({}, context=context, start=None, last_only=resolved.training.targets == "last")
    task.steps_per_epoch = tokens / (context * batch)
    ids = torch.empty(batch, context, dtype=torch.long, device="meta")

    def build(config: Config) -> nn.Module:
        return build_language_model(config.model, vocab=vocab, seed=config.training.seed)

    each = batch * context
    following = ids[:, -1:] if task.last_only else ids
    return PlannedTraining(resolved, task, build, batch, each, (ids, following), {"train": tokens}, float(each))
