"""Another house's model as one of ours: what it says becomes settings, its weights become ours, number by number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import LABELLING, MASKED, TRANSLATION, VECTORS
from glassformer.config.resolve import Config, resolve
from glassformer.config.say import Say, silent
from glassformer.exchange.external_model import Found
from glassformer.exchange.huggingface.architecture import Architecture, Reading, Unsupported, short
from glassformer.exchange.huggingface.matching import Match
from glassformer.exchange.huggingface.registry import architecture_of
from glassformer.models.build import (
    build_language_model,
    build_masked_model,
    build_reader,
    build_seq2seq,
    build_vectors,
)
from glassformer.models.weights import take_weights
from glassformer.tasks.answers import Answers, read_answers


@dataclass(frozen=True)
class Imported:
    """A model of ours that computes what the other one computes."""

    model: nn.Module
    config: Config
    answers: Answers | None
    architecture: str


def import_found(found: Found, say: Say = silent) -> Imported:
    """What was found, as a model of ours. Nothing is read before all names and shapes are known to fit."""
    architecture, name = architecture_of(found.config, found.name)
    _plain_numbers(found)
    reading = architecture.read(found.config, name)
    config = _settings(found, reading)
    answers = None
    if config.task in LABELLING:
        answers = read_answers(reading.labels, reading.loss, found.name)
    matches = architecture.matches(config.model, config.task, name)
    sources = _fitting(found, architecture, reading, matches, _without_numbers(config, found, answers))
    for pattern, note in reading.notes.items():
        if any(fnmatchcase(weight, pattern) for weight in found.weights.shapes):
            say(note)
    say(f"{name}: {len(sources)} weights fit; reading them")
    model = build(config, found, answers)
    _fill(model, found, matches, sources)
    _check_repeated(found, architecture, reading, sources)
    return Imported(model.eval(), config, answers, name)


def build(config: Config, found: Found, answers: Answers | None) -> nn.Module:
    """A model for these settings, with weights that do not matter yet."""
    model, vocab = config.model, found.tokenizer.vocab_size
    if config.task == TRANSLATION:
        target = vocab if found.target_tokenizer is None else found.target_tokenizer.vocab_size
        if model.vocab is not None:  # the table that both sides share may hold more than either's tokens
            vocab = target = max(vocab, target)
        return build_seq2seq(model, source_vocab=vocab, target_vocab=target)
    if config.task == MASKED:
        return build_masked_model(model, vocab=vocab)
    if config.task == VECTORS:
        return build_vectors(model, vocab=vocab)
    if answers is not None:
        return build_reader(model, vocab=vocab, outputs=answers.outputs)
    return build_language_model(model, vocab=vocab)


def _plain_numbers(found: Found) -> None:
    """Refuse weights that are not the numbers themselves."""
    if (quantised := found.config.get("quantization_config")) is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise Unsupported(
            f"{found.name} is quantised ({short(method)}), and only plain numbers are read here: get the model it was "
            "made from, or a GGUF file"
        )


def _settings(found: Found, reading: Reading) -> Config:
    settings = {"task": reading.task, **{f"model.{key}": value for key, value in reading.settings.items()}}
    if reading.loss is not None:
        settings["training.loss"] = reading.loss
    layers = max(reading.settings["layers"], reading.settings.get("decoder_layers") or 0)
    if layers > len(found.weights.shapes):
        raise DataError(
            f"{found.name} says that it has {layers:,} layers, but holds {len(found.weights.shapes):,} weights"
        )
    try:
        return resolve({**settings, **found.settings}, {}, strict=False)
    except Misuse as error:
        raise DataError(f"{found.name} cannot be built here: {error}") from None


def _without_numbers(config: Config, found: Found, answers: Answers | None) -> dict[str, Tensor]:
    """The weights that our model would have: only their shapes are there."""
    try:
        with torch.device("meta"):
            return take_weights(build(config, found, answers))
    except Misuse as error:
        raise DataError(f"{found.name} cannot be built here: {error}") from None
    except (RuntimeError, OverflowError, TypeError):  # sizes beyond all counting
        raise DataError(f"{found.name} asks for sizes that no model has: its settings are damaged") from None


def _fitting(
    found: Found, architecture: Architecture, reading: Reading, matches: Sequence[Match], ours: Mapping[str, Tensor]
) -> dict[str, str]:
    """By the name that each of theirs should have, the one that it has. All are there, of the right shape; no more."""
    if ours.keys() != (known := {name for match in matches for name in match.ours}):
        apart = sorted(ours.keys() ^ known)
        raise AssertionError(f"{architecture.model_type} matches other weights than the model has: {apart[:3]}")
    shapes = found.weights.shapes
    sources: dict[str, str] = {}
    for match in matches:
        wanted = match.to_theirs([ours[name] for name in match.ours])
        for name, like in zip(match.theirs, wanted, strict=True):
            source = next((one for one in (name, *architecture.aliases(name)) if one in shapes), None)
            if source is None and name in match.absent:
                continue
            if source is None:
                raise DataError(f"{found.name} lacks the weight {name}")
            if not _fits(shapes[source], tuple(like.shape), any_rows=name in match.any_rows):
                raise DataError(
                    f"{found.name}: {source} is {_times(shapes[source])}, but by its settings must be "
                    f"{_times(tuple(like.shape))}"
                )
            sources[name] = source
    said = {*sources.values(), *_repeats(architecture, reading)}
    if extra := sorted(name for name in shapes.keys() - said if not _ignored(name, reading, architecture)):
        more = f" and {len(extra) - 1:,} more" if len(extra) > 1 else ""
        raise Unsupported(f"{found.name} holds {extra[0]}{more}, which {architecture.model_type} has no place for here")
    return sources


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...], *, any_rows: bool) -> bool:
    return shape[1:] == wanted[1:] and len(shape) == len(wanted) and bool(shape[0]) if any_rows else shape == wanted


def _ignored(name: str, reading: Reading, architecture: Architecture) -> bool:
    whole = (name, f"{architecture.base}{name}")
    return any(one.startswith(part) or fnmatchcase(one, part) for one in whole for part in reading.ignored)


def _repeats(architecture: Architecture, reading: Reading) -> list[str]:
    return [one for name in reading.repeated for one in (name, *architecture.aliases(name))]


@torch.no_grad()
def _fill(model: nn.Module, found: Found, matches: Sequence[Match], sources: Mapping[str, str]) -> None:
    """One after the other, so that no more than one of theirs is held beside the model."""
    held = take_weights(model)
    for match in matches:
        theirs = _theirs(found, match, sources, held)
        for name, weight in zip(match.ours, match.to_ours(theirs), strict=True):
            held[name].copy_(weight)


def _theirs(found: Found, match: Match, sources: Mapping[str, str], held: Mapping[str, Tensor]) -> list[Tensor]:
    """The weights of one match; zeros for one that its file may lack, and does."""
    if all(name in sources for name in match.theirs):
        return [_read(found, sources[name]) for name in match.theirs]
    like = match.to_theirs([held[name] for name in match.ours])
    return [
        _read(found, sources[name]) if name in sources else torch.zeros_like(one)
        for name, one in zip(match.theirs, like, strict=True)
    ]


def _read(found: Found, name: str) -> Tensor:
    weight = found.weights.read(name)
    if tuple(weight.shape) != tuple(found.weights.shapes[name]):
        raise DataError(f"{found.name}: {name} has another shape than its file says")
    if not torch.isfinite(weight).all():
        raise DataError(f"{found.name}: {name} holds numbers that are none (NaN or infinite): the file is damaged")
    return weight


def _check_repeated(found: Found, architecture: Architecture, reading: Reading, sources: Mapping[str, str]) -> None:
    """What is said to be the same must be: a head that was trained on its own is not the word vectors."""
    for name, other in reading.repeated.items():
        for one in (name, *architecture.aliases(name)):
            if one not in found.weights.shapes or other not in sources:
                continue
            shape, wanted = (found.weights.shapes[each] for each in (one, sources[other]))
            if shape != wanted or not torch.equal(_read(found, one), _read(found, sources[other])):
                raise Unsupported(f"{found.name}: {one} differs from {sources[other]}, though its settings tie them")


def _times(shape: Sequence[Any]) -> str:
    return " × ".join(map(str, shape)) or "one number"
