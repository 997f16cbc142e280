"""Import of a third-party model: config.json becomes settings, and each weight is copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glassformer.config.errors import DataError, Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.config.presets import LANGUAGE_MODEL, MASKED, TRANSLATION, VECTORS
from glassformer.config.progress import progress_of
from glassformer.config.resolve import Config, resolve
from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    read_tables,
    short,
    transformer_of,
)
from glassformer.exchange.huggingface.architectures import ARCHITECTURES
from glassformer.models.build import (
    build_language_model,
    build_masked_model,
    build_predictor,
    build_seq2seq,
    build_vectors,
)
from glassformer.models.weights import shapes_alone, take_weights
from glassformer.tasks.answers import Answers, read_answers


@dataclass(frozen=True)
class ImportedModel:
    """A glassformer model equivalent to the imported one."""

    model: nn.Module
    config: Config
    answers: Answers | None
    architecture: str


def architecture_of(config: JsonObject, source: str) -> tuple[Architecture, str]:
    """Return the architecture that a config.json names, and the name of its class."""
    names, classes = config.get("architectures"), read_tables()["classes"]
    name = names[0] if isinstance(names, list) and names else names
    if not isinstance(name, str) or name not in classes:
        raise Unsupported(f"{source} is a {short(name)}, which cannot be imported; these can: {', '.join(classes)}")
    return ARCHITECTURES[classes[name][0]], name


def import_external(external: ExternalModel) -> ImportedModel:
    """Convert an external model. All names and shapes are checked before any weight is read."""
    architecture, name = architecture_of(external.config, external.name)
    if (quantised := external.config.get("quantization_config")) is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise Unsupported(f"{external.name} is quantised ({short(method)}): import its original, or a GGUF file")
    parsed = architecture.read(ConfigValues(external.config, architecture.name), name)
    answers = None if parsed.labels is None else read_answers(parsed.labels, parsed.loss, external.name)
    config, shapes = _plan(external, parsed, answers)
    matches = architecture.matches(shapes, transformer_of(config), name)
    sources = _sources(external, architecture, parsed, matches, shapes)
    for pattern, note in architecture.of_task("notes", parsed.task).items():
        if any(fnmatchcase(weight, pattern) for weight in external.weights.shapes):
            say(note)
    say(f"{name}: {len(sources)} weights fit; reading them")
    model = build(config, external, answers)
    _fill(model, external, matches, sources)
    _check_repeated(external, architecture, parsed, sources)
    return ImportedModel(model.eval(), config, answers, name)


def build(config: Config, external: ExternalModel, answers: Answers | None) -> nn.Module:
    """Return a model for these settings with arbitrary weights."""
    model, tokens = config.model, external.tokens
    vocab = tokens.tokenizer.vocab_size
    if config.task == TRANSLATION:
        target = vocab if tokens.target_tokenizer is None else tokens.target_tokenizer.vocab_size
        if model.vocab is not None:  # the shared table may have more rows than either vocabulary
            vocab = target = max(vocab, target)
        return build_seq2seq(model, source_vocab=vocab, target_vocab=target)
    if answers is not None:
        return build_predictor(model, vocab=vocab, outputs=answers.outputs)
    builders = {MASKED: build_masked_model, VECTORS: build_vectors, LANGUAGE_MODEL: build_language_model}
    return builders[config.task](model, vocab=vocab)


def _plan(external: ExternalModel, parsed: ParsedConfig, answers: Answers | None) -> tuple[Config, dict[str, Tensor]]:
    """Return the settings, and the weights of our model on the meta device."""
    settings = {"task": parsed.task, **{f"model.{key}": value for key, value in parsed.settings.items()}}
    if parsed.loss is not None:
        settings["training.loss"] = parsed.loss
    layers, weights = max(parsed.settings["layers"], parsed.settings.get("decoder_layers") or 0), external.weights
    if layers > len(weights.shapes):
        raise DataError(f"{external.name} is set to {layers:,} layers, but holds {len(weights.shapes):,} weights")
    try:
        config = resolve({**settings, **external.settings}, {}, strict=False)
        with shapes_alone():
            return config, take_weights(build(config, external, answers))
    except Misuse as error:
        raise DataError(f"{external.name} cannot be built here: {error}") from None
    except (RuntimeError, OverflowError, TypeError):  # sizes beyond torch's limits
        raise DataError(f"{external.name} asks for sizes that no model has: its settings are damaged") from None


def _sources(
    external: ExternalModel,
    architecture: Architecture,
    parsed: ParsedConfig,
    matches: Sequence[Match],
    ours: Mapping[str, Tensor],
) -> dict[str, str]:
    """Return the actual name of each expected weight; raise if a weight is missing, unexpected or of another shape."""
    shapes = external.weights.shapes
    sources: dict[str, str] = {}
    for match in matches:
        likes = match.to_theirs([ours[name] for name in match.ours])
        for name, like in zip(match.theirs, likes, strict=True):
            source = next((alias for alias in (name, *architecture.aliases(name)) if alias in shapes), None)
            if source is None and name in match.optional:
                continue
            if source is None:
                raise DataError(f"{external.name} lacks the weight {name}")
            shape, wanted = shapes[source], tuple(like.shape)
            if name in match.any_rows and shape and shape[0]:
                wanted = (shape[0], *wanted[1:])
            if shape != wanted:
                raise DataError(f"{external.name}: {source} is {_times(shape)}, but must be {_times(wanted)}")
            sources[name] = source
    repeats = {alias for name in parsed.repeated for alias in (name, *architecture.aliases(name))}
    rest = shapes.keys() - sources.values() - repeats
    if extra := sorted(name for name in rest if not architecture.is_ignored(name, parsed.task)):
        more = f" and {len(extra) - 1:,} more" if len(extra) > 1 else ""
        raise Unsupported(f"{external.name} holds {extra[0]}{more}, which no {architecture.model_type} here has")
    return sources


@torch.no_grad()
def _fill(model: nn.Module, external: ExternalModel, matches: Sequence[Match], sources: Mapping[str, str]) -> None:
    """Copy the weights one by one, so that at most one of theirs is in memory. Missing optional weights are zeros."""
    ours = take_weights(model)
    done, total, progress = 0, sum(weight.numel() for weight in ours.values()), progress_of("parameter")
    for match in matches:
        progress(done, total)
        likes = match.to_theirs([ours[name].to("meta") for name in match.ours])
        theirs = [
            _read(external, sources[name]) if name in sources else torch.zeros_like(like, device="cpu")
            for name, like in zip(match.theirs, likes, strict=True)
        ]
        for name, weight in zip(match.ours, match.to_ours(theirs), strict=True):
            ours[name].copy_(weight)
            done += ours[name].numel()
    progress(done, total)


def _read(external: ExternalModel, name: str) -> Tensor:
    weight = external.weights.read(name)
    if not torch.isfinite(weight).all():
        raise DataError(f"{external.name}: {name} holds numbers that are none (NaN or infinite): the file is damaged")
    return weight


def _check_repeated(
    external: ExternalModel, architecture: Architecture, parsed: ParsedConfig, sources: Mapping[str, str]
) -> None:
    """Raise `Unsupported` unless repeated weights are equal: a separately trained head is not tied."""
    shapes = external.weights.shapes
    for name, original in parsed.repeated.items():
        for repeat in (name, *architecture.aliases(name)):
            if repeat not in shapes or original not in sources:
                continue
            source = sources[original]
            if shapes[repeat] != shapes[source] or not torch.equal(_read(external, repeat), _read(external, source)):
                raise Unsupported(f"{external.name}: {repeat} differs from {source}, though its settings tie them")


def _times(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "one number"
