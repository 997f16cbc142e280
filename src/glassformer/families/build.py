"""From a configuration to its model: one of ours by name, or a person's own."""

from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import RunError, Say, SettingError
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, OwnModel, Prepared, Processor
from glassformer.finetuning.weights import take_from_runs
from glassformer.models.build import learned_count, parameter_count, put_vectors, sized
from glassformer.models.reader import Predictor
from glassformer.tasks.labelling import device_of
from glassformer.text.vectors import read_vectors


def build_model(config: Config, processor: Processor, own: OwnModel | None = None) -> nn.Module:
    """The model with its first weights. `own`: a person's own."""
    family = FAMILIES[config.task]
    if config.model.encoder != OWN:
        return family.build_model(config, processor)
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    return family.own_model(config, processor, own)


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config, say: Say) -> dict[str, Any] | None:
    """What a model takes from elsewhere before the first step: a bag's word frequencies, words' vectors from a file,
    what another run has learned. Gives what a card says of that run.
    """
    FAMILIES[config.task].learn_from_data(model, prepared)
    if config.model.vectors is not None:
        assert isinstance(model, Predictor)
        assert prepared.tokenizer is not None
        words = {prepared.tokenizer.token(id): id for id in range(prepared.tokenizer.vocab_size)}
        ids, vectors = read_vectors(config.model.vectors, words)
        put_vectors(model, ids, vectors)
        say(f"vectors: {len(ids):,} of {len(words):,} words found in {config.model.vectors}")
    return take_from_runs(model, config, prepared.answers, say) if config.is_finetuned else None


def try_out(model: nn.Module, prepared: Prepared) -> None:
    """A person's own model on one example, before a run is begun or replaced."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise SettingError(f"{type(model).__name__} has no weights to learn")
    training = model.training
    with torch.no_grad():
        prepared.task.loss(model.eval(), *prepared.task.batch(0).rows(0, 1).tensors(device_of(model)))
    model.train(training)


def say_size(model: nn.Module, say: Say) -> None:
    """How large it is, and whether this machine can hold it: weights, and of what is learned gradients and two moments,
    4 bytes each.
    """
    count, learned = parameter_count(model), learned_count(model)
    needed = (4 * count + 12 * learned) / 2**30
    note = f": about {needed:.0f} GiB with gradients and the optimiser's memory" if needed >= 1 else ""
    say(f"model: {sized(count, learned)}{note}")
