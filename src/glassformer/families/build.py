"""Prepare the data of a configuration as a task, and build a model with its initial weights."""

from typing import Any

import torch
from torch import nn

from glassformer.bricks.own import make_part
from glassformer.config.encoders import OWN
from glassformer.config.errors import DataError, GlassformerError, RunError, SettingError, error_line
from glassformer.config.messages import listening, say, silent
from glassformer.config.plugins import OwnPart, own_part
from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, DataParts, OwnModel, Prepared, Processor, tokenizers_of
from glassformer.finetuning.sources import source_tokenizers
from glassformer.finetuning.weights import take_from_runs
from glassformer.models.build import learned_count, parameter_count, put_vectors, sized
from glassformer.models.modules import Predictor, device_of
from glassformer.runs.folders import CARD
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vectors import read_vectors


class OtherData(DataError):
    """Raised when the data differs from the data that a run started with."""


def split_data(config: Config, rows: Any = None) -> DataParts:
    """Return the data, divided into parts. `rows`: the data if it has been read already."""
    return FAMILIES[config.task].split_data(config, rows)


def prepare(config: Config, run: Run | None = None, rows: Any = None) -> Prepared:
    """Return the data of a configuration as a task, with the processor learned from it.

    `run`: a run that started with this data; its tokenizers are used. `rows`: the data if it has been read already.
    """
    known = Processor() if run is None else tokenizers_of(run)
    if known.tokenizer is None and config.is_finetuned:
        tokenizer, target_tokenizer = source_tokenizers(config)
        known = Processor(tokenizer=tokenizer, target_tokenizer=target_tokenizer)
    corpus = split_data(config, rows)
    if run is not None and corpus.fingerprint != run.card().get("data", {}).get("fingerprint"):
        raise OtherData(f"{run.path}: the data differs from the data that this run started with")
    say(f"data: {corpus.report()}")
    prepared = FAMILIES[config.task].prepare(config, corpus, known)
    prepared.task.validates = "validation" in corpus.parts
    return prepared


@listening(silent)
def prepare_again(run: Run, instead: str = "") -> Prepared:
    """Return the data that a run was trained on, as it was prepared then.

    `instead`: the end of the error message if the data is unknown, which says what to do.
    """
    if "imported" in run.card():
        raise DataError(f"{run.path} was imported: what it was trained on is not known here{instead}")
    try:
        return prepare(run.config(), run)
    except OtherData:
        raise
    except DataError as error:
        raise DataError(f"the training data of {run.path} cannot be read: {error}") from None
    except SettingError as error:
        raise RunError(f"{run.path / CARD}: {error}") from None


def tokenizer_of_texts(texts: list[str], config: Config) -> Tokenizer:
    """Train a tokenizer on the training part only, because held-out texts must be new to the tokenizer too."""
    size = sum(len(text.encode()) for text in texts)
    return Tokenizer.train(texts, config.tokenizer, total_bytes=size)


def say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int]) -> None:
    shares = {name: f" ({unknown[name] / count:.2%} unknown)" for name, count in tokens.items() if unknown[name]}
    counts = ", ".join(f"{count:,} {name}{shares.get(name, '')}" for name, count in tokens.items())
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")


def build_model(config: Config, processor: Processor, own: OwnModel | None = None) -> nn.Module:
    """Return the model with its initial weights. `own`: a user's own model."""
    family, name = FAMILIES[config.task], config.model.encoder
    if (registered := own_part("model", name)) is not None:
        return family.own_model(config, processor, _maker(registered, config))
    if name != OWN:
        return family.build_model(config, processor)
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    if isinstance(own, type):
        own = _maker(OwnPart("model", own.__name__, own, file=None, digest=None), config)
    return family.own_model(config, processor, own)


def _maker(part: OwnPart, config: Config) -> OwnModel:
    """Return a function that builds a registered model from its input size and its number of outputs.

    A class gets only the arguments that its `__init__` names.
    """
    reads = "vocab" if config.data.kind == TEXT else "shape"
    return lambda first, outputs: make_part(part, {reads: first, "outputs": outputs, "context": config.model.context})


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config) -> dict[str, Any] | None:
    """Initialise a model with word frequencies, pretrained word vectors or the weights of other runs.

    Return the entry about the source run for the run's card; None if the model is not fine-tuned.
    """
    FAMILIES[config.task].learn_from_data(model, prepared)
    if config.model.vectors is not None:
        assert isinstance(model, Predictor)
        assert prepared.tokenizer is not None
        words = {prepared.tokenizer.token(id): id for id in range(prepared.tokenizer.vocab_size)}
        ids, vectors = read_vectors(config.model.vectors, words)
        put_vectors(model, ids, vectors)
        say(f"vectors: {len(ids):,} of {len(words):,} words found in {config.model.vectors}")
    return take_from_runs(model, config, prepared.answers) if config.is_finetuned else None


def try_out(model: nn.Module, prepared: Prepared, name: str = "model=…") -> None:
    """Raise `SettingError` if a user's model fails on one example, before a run is created or replaced."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise SettingError(f"{type(model).__name__} has no weights to learn")
    training = model.training
    tensors = prepared.task.batch(0).rows(0, 1).tensors(device_of(model))
    try:
        with torch.no_grad():
            prepared.task.loss(model.eval(), *tensors)
    except GlassformerError:
        raise
    except Exception as error:
        raise SettingError(f"{name} fails on the first example: {error_line(error)}") from error
    model.train(training)


def say_size(model: nn.Module) -> None:
    """Report the number of parameters, and the memory for training if it is at least 1 GiB.

    Weights take 4 bytes each. Trained weights take another 12 bytes for the gradient and the two moments of the
    optimiser.
    """
    count, learned = parameter_count(model), learned_count(model)
    needed = (4 * count + 12 * learned) / 2**30
    note = f": about {needed:.0f} GiB with gradients and the optimiser's memory" if needed >= 1 else ""
    say(f"model: {sized(count, learned)}{note}")
