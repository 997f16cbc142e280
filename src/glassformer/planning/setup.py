"""What is planned: settings, the task, how its model is built, and the batch that needs most."""

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
"""Batches among which the largest is looked for."""
CPU = torch.device("cpu")
ONLY_BY_NAME = "a plan is made of models by name (--model), not of a person's own nn.Module"


@dataclass(frozen=True)
class PlannedTraining:
    """A training that is not begun."""

    config: Config
    task: Task
    build: Callable[[Config], nn.Module]
    """Makes the model, without what it would learn from its data before the first step."""
    batch: int
    """Examples in the largest batch."""
    batch_tokens: int
    """Tokens in it."""
    piece: Piece
    """All of that batch."""
    tokens: dict[str, int]
    """How many each part has."""
    per_update: float
    """Tokens that an update reads, on average."""
    prepared: Prepared | None = None
    reading: float = 0.0
    """Seconds that reading the data and learning its tokens took."""

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.task]

    @property
    def updates(self) -> int | None:
        return total_steps(self.config.training, self.task)

    def model(self) -> nn.Module:
        """A real one, as a training starts from."""
        made = self.build(self.config)
        if self.prepared is not None:
            learn_from_data(made, self.prepared, self.config)
        return made

    @property
    def blocks(self) -> int | None:
        """How many layers there are that are alike; None where they are not, or not as many on both sides."""
        if self.config.training.last_blocks is not None:  # some are trained, some are not
            return None
        model = self.config.model
        stacks: set[tuple[str | None, int | None]] = {(model.encoder, model.layers)}
        if self.family.has_decoder:
            stacks.add((model.decoder, model.decoder_layers))
        return model.layers if stacks == {("transformer", model.layers)} else None

    def with_blocks(self, count: int) -> Config:
        """The same model with so many blocks."""
        return replace(self.config, model=self.config.model.with_values(layers=count, decoder_layers=count))

    def build_blocks(self, count: int) -> nn.Module:
        """That model."""
        return self.build(self.with_blocks(count))

    def rows(self, count: int) -> Piece:
        """So many examples of that batch."""
        return [tensor[:count] for tensor in self.piece]


def flags_of(data: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plan by dotted key."""
    if callable(settings.get("model")):
        raise SettingError(ONLY_BY_NAME)
    return flag_settings(data, settings)


def from_data(flags: dict[str, Any], config: str | Path | None, *, gpus: int | None) -> PlannedTraining:
    """Return the plan of a training run on data. With `gpus`, defaults are those of a GPU."""
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
    count = min(BATCHES, max(1, int(task.steps_per_epoch)))
    batches = (task.batch(step) for step in range(count))
    batch = max(batches, key=lambda batch: sum(tensor.numel() for tensor in batch.tensors(CPU)))
    new: Sequence[str] = ()
    if family.has_decoder and resolved.training.last_blocks is not None:  # what is new is trained as well
        with listening(silent):
            taken = learn_from_data(build_model(resolved, prepared), prepared, resolved)
        new = () if taken is None else taken["new"]

    def build(config: Config) -> nn.Module:
        made = build_model(config, prepared)
        freeze(made, config.training.last_blocks, new)
        return made

    per_update = float(batch.tokens) if task.steady else prepared.tokens["train"] / task.steps_per_epoch
    return PlannedTraining(
        resolved,
        task,
        build,
        batch.size,
        batch.tokens,
        batch.tensors(CPU),
        prepared.tokens,
        per_update,
        prepared,
        reading,
    )


def _shared_by(gpus: int, training: TrainingSettings) -> TrainingSettings:
    """The usual batch, or where it cannot be shared evenly, an example for each GPU."""
    parts = gpus * training.accumulation_steps
    return training if training.batch_size % parts == 0 else replace(training, batch_size=parts)


def from_tokens(flags: dict[str, Any], config: str | Path | None, tokens: int, *, gpus: int) -> PlannedTraining:
    """A training on so many tokens that nobody has read."""
    file = file_settings(config)
    said = {**file, **flags}
    family = FAMILIES[said.get("task") or DEFAULT_TASK]
    if not family.predicts_next:
        raise SettingError(f"--training-tokens is for language models: a plan for {family.task} needs DATA")
    if said.get("model.from_run") is not None:
        raise SettingError("--training-tokens is for models that begin anew: a plan with --from needs DATA")
    if all(said.get(budget) is None for budget in BUDGETS):
        flags = {**flags, "training.epochs": 1}
    resolved = resolve(file, flags)
    if "training.batch_size" not in said:
        resolved = replace(resolved, training=_shared_by(gpus, resolved.training))
    vocab = resolved.tokenizer.vocab_size or (4096 if resolved.tokenizer.kind == "bpe" else None)
    if vocab is None:
        raise SettingError(
            f"how many tokens of kind {resolved.tokenizer.kind} there are, only DATA or --vocab-size says"
        )
    context, batch = resolved.model.context, resolved.training.batch_size
    task = LanguageModelling({}, context=context, start=None, last_only=resolved.training.targets == "last")
    task.steps_per_epoch = tokens / (context * batch)
    ids = torch.empty(batch, context, dtype=torch.long, device="meta")

    def build(config: Config) -> nn.Module:
        return build_language_model(config.model, vocab=vocab, seed=config.training.seed)

    each = batch * context
    following = ids[:, -1:] if task.last_only else ids
    return PlannedTraining(resolved, task, build, batch, each, (ids, following), {"train": tokens}, float(each))
