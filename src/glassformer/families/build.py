"""From a configuration to its model: one of ours by name, or a person's own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import RunError, SettingError
from glassformer.config.presets import MASKED, TEXT, TRANSLATION, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.features.inputs import Features
from glassformer.families.prepare import Prepared
from glassformer.finetuning.weights import take_from_runs
from glassformer.models.build import (
    build_language_model,
    build_masked_model,
    build_reader,
    build_seq2seq,
    build_vectors,
    learned_count,
    parameter_count,
    put_vectors,
    sized,
)
from glassformer.models.reader import BagReader, Reader
from glassformer.models.shape import Shape
from glassformer.tasks.answers import Answers
from glassformer.tasks.labelling import Labelling, device_of
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vectors import read_vectors

OwnModel = nn.Module | Callable[[Any, int], nn.Module]
"""A model of one's own, or what makes it. Of texts: (B×T tokens, B×T mask) → B×outputs, made from the vocabulary and
the outputs. Of other examples: called with numbers and categories, pixels, or all that there is of them; made from
their `Shape` and the outputs."""


def build_model(
    config: Config,
    *,
    tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer | None,
    features: Features | None,
    answers: Answers | None,
    own: OwnModel | None = None,
) -> nn.Module:
    """With its first weights."""
    shape = _shape(tokenizer, features)
    if config.model.encoder == OWN:
        return _own(config, shape, answers, own)
    vocab = shape.vocab
    seed = config.training.seed
    if config.task == TRANSLATION:
        target_vocab = vocab if target_tokenizer is None else target_tokenizer.vocab_size
        return build_seq2seq(config.model, source_vocab=vocab, target_vocab=target_vocab, seed=seed)
    if config.task == MASKED:
        return build_masked_model(config.model, vocab=vocab, seed=seed)
    if config.task == VECTORS:
        return build_vectors(config.model, vocab=vocab, seed=seed)
    if answers is None:
        return build_language_model(config.model, vocab=vocab, seed=seed)
    return build_reader(config.model, shape=shape, outputs=answers.outputs, seed=seed)


def _shape(tokenizer: Tokenizer | None, features: Features | None) -> Shape:
    """What a model has to know of what it reads."""
    if features is not None:
        return features.shape
    return Shape(vocab=0 if tokenizer is None else tokenizer.vocab_size)


def _own(config: Config, shape: Shape, answers: Answers | None, own: OwnModel | None) -> nn.Module:
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    if answers is None:
        raise SettingError(f"a model of one's own learns labels or numbers, and the task is {config.task}")
    if isinstance(own, nn.Module):
        return own
    if not callable(own):
        raise SettingError(f"model=… must be a name, an nn.Module, or make one, not {type(own).__name__}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        made = own(shape.vocab if config.data.kind == TEXT else shape, answers.outputs)
    if not isinstance(made, nn.Module):
        raise SettingError(f"model=… must be an nn.Module or make one, not {type(made).__name__}")
    return made


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config, say: Say) -> dict[str, Any] | None:
    """What a model takes from elsewhere before the first step: a bag's word frequencies, words' vectors from a file,
    what another run has learned. Gives what a card says of that run.
    """
    if isinstance(model, BagReader):
        assert isinstance(prepared.task, Labelling)
        model.bag.learn_frequencies((ids, mask) for _, (ids, mask) in prepared.task.parts["train"].batches())
    if config.model.vectors is not None:
        assert isinstance(model, Reader)
        assert prepared.tokenizer is not None
        words = {prepared.tokenizer.token(id): id for id in range(prepared.tokenizer.vocab_size)}
        ids, vectors = read_vectors(config.model.vectors, words)
        put_vectors(model, ids, vectors)
        say(f"vectors: {len(ids):,} of {len(words):,} words found in {config.model.vectors}")
    return take_from_runs(model, config, prepared.answers, say) if config.begun else None


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
