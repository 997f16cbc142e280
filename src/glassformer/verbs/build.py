"""From a configuration to its model: one of ours by name, or a person's own."""

from collections.abc import Callable

import torch
from torch import nn

from glassformer.config.errors import RunError, SettingError
from glassformer.config.presets import LANGUAGE_MODEL, OWN
from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.models.build import build_language_model, build_reader, put_vectors
from glassformer.models.reader import BagReader, Reader
from glassformer.tasks.answers import Answers
from glassformer.tasks.labelling import Labelling
from glassformer.text.vectors import read_vectors
from glassformer.verbs.prepare import Prepared

OwnModel = nn.Module | Callable[[int, int], nn.Module]
"""A model of one's own, (B×T tokens, B×T mask) → B×outputs, or what makes it from the vocabulary and the outputs."""


def build_model(config: Config, *, vocab: int, answers: Answers | None, own: OwnModel | None = None) -> nn.Module:
    """With its first weights."""
    if config.model.encoder == OWN:
        return _own(config, vocab, answers, own)
    seed = config.training.seed
    if answers is None:
        return build_language_model(config.model, vocab=vocab, seed=seed)
    return build_reader(config.model, vocab=vocab, outputs=answers.outputs, seed=seed)


def _own(config: Config, vocab: int, answers: Answers | None, own: OwnModel | None) -> nn.Module:
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    if answers is None:
        raise SettingError(f"a model of one's own learns labels or numbers, and the task is {LANGUAGE_MODEL}")
    if isinstance(own, nn.Module):
        return own
    if not callable(own):
        raise SettingError(f"model=… must be a name, an nn.Module, or make one, not {type(own).__name__}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        made = own(vocab, answers.outputs)
    if not isinstance(made, nn.Module):
        raise SettingError(f"model=… must be an nn.Module or make one, not {type(made).__name__}")
    return made


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config, say: Say) -> None:
    """What a model takes from its data before the first step: a bag's word frequencies, words' vectors from a file."""
    if isinstance(model, BagReader):
        assert isinstance(prepared.task, Labelling)
        model.bag.learn_frequencies((ids, mask) for _, ids, mask in prepared.task.parts["train"].batches())
    if config.model.vectors is not None:
        assert isinstance(model, Reader)
        words = {prepared.tokenizer.token(id): id for id in range(prepared.tokenizer.vocab_size)}
        ids, vectors = read_vectors(config.model.vectors, words)
        put_vectors(model, ids, vectors)
        say(f"vectors: {len(ids):,} of {len(words):,} words found in {config.model.vectors}")
