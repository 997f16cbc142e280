"""The data of a configuration as a task, and a model with its first weights."""

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
    """Data that is not what a run began with."""


def split_data(config: Config, rows: Any = None) -> DataParts:
    """The data and what is held out of it. `rows`: where it has been read already."""
    return FAMILIES[config.task].split_data(config, rows)


def prepare(config: Config, run: Run | None = None, rows: Any = None) -> Prepared:
    """`run`: what began with this data, and has tokenizers for it. `rows`: where the data has been read already."""
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
    """The data that a run was trained on, as it was read then. `instead`: what to do where nobody knows it."""
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
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    size = sum(len(text.encode()) for text in texts)
    return Tokenizer.train(texts, config.tokenizer, total_bytes=size)


def say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int]) -> None:
    shares = {name: f" ({unknown[name] / count:.2%} unknown)" for name, count in tokens.items() if unknown[name]}
    counts = ", ".join(f"{count:,} {name}{shares.get(name, '')}" for name, count in tokens.items())
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")


def build_model(config: Config, processor: Processor, own: OwnModel | None = None) -> nn.Module:
    """The model with its first weights. `own`: a person's own."""
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
    """Return a function of what the model reads and its outputs, which passes to a class those that it names."""
    reads = "vocab" if config.data.kind == TEXT else "shape"
    return lambda first, outputs: make_part(part, {reads: first, "outputs": outputs, "context": config.model.context})


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config) -> dict[str, Any] | None:
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
    return take_from_runs(model, config, prepared.answers) if config.is_finetuned else None


def try_out(model: nn.Module, prepared: Prepared, name: str = "model=…") -> None:
    """A model with a person's own code on one example, before a run is begun or replaced."""
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
    """How large it is, and whether this machine can hold it: weights, and of what is learned gradients and two moments,
    4 bytes each.
    """
    count, learned = parameter_count(model), learned_count(model)
    needed = (4 * count + 12 * learned) / 2**30
    note = f": about {needed:.0f} GiB with gradients and the optimiser's memory" if needed >= 1 else ""
    say(f"model: {sized(count, learned)}{note}")
