"""What is searched where nobody says: around where each model's settings start. Torch-free."""

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from glassformer.config.defaults import WORDS
from glassformer.config.encoders import RECURRENT
from glassformer.config.errors import SettingError
from glassformer.config.presets import IMAGE, TABLE, has_decoder, labels_examples, reads_stream
from glassformer.config.resolve import BUDGETS, Config
from glassformer.trials.tuning.space import Dimension

SIZED = ("model.layers", "model.heads", "model.width")
"""What a size that was asked for decides."""
FACTOR = 8
"""The learning rate is searched from so much below its start to so much above."""
POOLS = {
    "average": ("mean", "sum", "max"),
    "transformer": ("mean", "max", "attention", "first"),
    **dict.fromkeys(("window", "cnn"), ("max", "mean", "attention")),
    **dict.fromkeys(RECURRENT, ("max", "mean", "attention", "last")),
}
HEAD = {"model.head_layers": (1, 2)}


def default_space(config: Config, fixed: Collection[str]) -> list[Dimension]:
    """For a model on this data, as `config` would train it; what is `fixed` is not searched."""
    fixed = {*fixed, *SIZED} if "model.size" in fixed else fixed
    every = _finetuned(config, fixed) if config.is_finetuned else _from_scratch(config, fixed)
    usable = [_with_start(dimension, config) for dimension in every if _is_open(dimension, config, fixed)]
    if not usable:
        raise SettingError(f"every setting of {config.model.encoder} that could be searched is given: leave one open")
    return usable


def _is_open(dimension: Dimension, config: Config, fixed: Collection[str]) -> bool:
    """Whether nobody gave it, and it does something here."""
    if dimension.when:
        idle = any(key in fixed and config.get(key) not in values for key, values in dimension.when.items())
    else:
        idle = config.idle(dimension.key) is not None
    return not idle and dimension.key not in fixed


def _with_start(dimension: Dimension, config: Config) -> Dimension:
    """With the value that the setting starts from among its values."""
    start = config.get(dimension.key)
    if not dimension.values or dimension.when or dimension.holds(start):
        return dimension
    values = [*dimension.values, start]
    numbers = all(isinstance(value, int | float) for value in values)
    return replace(dimension, values=tuple(sorted(values) if numbers else values))


def _from_scratch(config: Config, fixed: Collection[str]) -> Iterator[Dimension]:
    yield from _training(config, fixed)
    yield from _tokens(config)
    yield from _shape(config, fixed)
    if labels_examples(config.task):
        yield from _head(config)
    if config.data.kind == IMAGE:
        yield choice("data.shift", 0, 1, 2)


def _finetuned(config: Config, fixed: Collection[str]) -> Iterator[Dimension]:
    """What is searched of a model that begins from another run: all but its body."""
    body = ("training.optimizer", "training.average")
    yield from (dimension for dimension in _training(config, fixed) if dimension.key not in body)
    alone = labels_examples(config.task) and config.training.last_blocks == 0
    if not alone or config.model.head_layers:  # a head alone reads features that were computed without dropout
        yield Dimension("model.dropout", low=0.0, high=0.3, step=0.05)
    yield choice("training.layer_decay", 1.0, 0.9, 0.8)
    if labels_examples(config.task):
        yield choice("model.pool", *(("last", "mean") if config.model.causal else ("mean", "first", "max")))


# --- how it is trained ---


def _training(config: Config, fixed: Collection[str]) -> Iterator[Dimension]:
    training = config.training
    lr = training.lr or 1e-3
    yield Dimension("training.lr", low=_round(lr / FACTOR), high=_round(lr * FACTOR), log=True)
    if "transformer" in (config.model.encoder, config.model.decoder):
        yield choice("training.optimizer", "muon", "adamw")
    if training.weight_decay > 0:
        low, high = min(1e-3, training.weight_decay), max(0.3, training.weight_decay)
        yield Dimension("training.weight_decay", low=low, high=high, log=True)
    else:
        yield choice("training.weight_decay", 0.0, 0.001, 0.01, 0.1)
    if training.epochs is not None and not any(budget in fixed for budget in BUDGETS):
        yield Dimension("training.epochs", low=training.epochs / 2, high=2 * training.epochs, log=True)
    if training.steps is None:  # of a number of updates, a larger batch would only be a longer training
        yield choice("training.batch_size", 16, 32, 64, 128)
    yield choice("training.label_smoothing", 0.0, 0.05, 0.1)
    yield choice("training.average", None, 50, 200)


# --- what it reads ---


def _tokens(config: Config) -> Iterator[Dimension]:
    if has_decoder(config.task) and config.tokenizer.kind == "bpe":
        yield choice("tokenizer.vocab_size", 2000, 4000, 8000)
    if not labels_examples(config.task) or config.data.kind not in WORDS:  # a language model's loss is that of a token
        return
    bag = config.model.encoder == "bag"
    if bag:
        yield choice("tokenizer.kind", "word", "char")
    if config.tokenizer.file is None:
        yield choice("tokenizer.min_count", 1, 2, 3, when={"tokenizer.kind": ("word",)})
    if bag:
        yield choice("model.ngrams", 1, 2, 3, when={"tokenizer.kind": ("word", "bpe")})
        spelled = {"tokenizer.kind": ("char",)}
        yield choice("model.ngrams", 3, 4, 5, 6, when=spelled)
        yield Dimension("model.words", low=0, high=3, whole=True, when=spelled)
        yield choice("model.buckets", 2**18, 2**20, when=spelled)
        yield choice("model.weighting", "tfidf", "counts")
    yield Dimension("model.word_dropout", low=0.0, high=0.5, step=0.1)


# --- how it is built ---


def _shape(config: Config, fixed: Collection[str]) -> Iterator[Dimension]:
    """Whatever some encoder has: what this one has no use for is left out later."""
    model, encoder, kind = config.model, config.model.encoder, config.data.kind
    yield Dimension("model.dropout", low=0.0, high=0.6, step=0.05)
    widths = [model.width] if "model.width" in fixed else _widths(model.width)
    if "model.heads" in fixed and "transformer" in (encoder, model.decoder):
        widths = [width for width in widths if width % (2 * model.heads) == 0]
    if len(widths) > 1:
        yield choice("model.width", *widths)
    deeper = 2 if reads_stream(config.task) or encoder == "transformer" else 0
    deepest = max(3 if encoder in RECURRENT else 4, model.layers + deeper)
    yield Dimension("model.layers", low=1, high=deepest, whole=True)
    heads = [heads for heads in sorted({2, 4, 8, model.heads}) if all(width % (2 * heads) == 0 for width in widths)]
    if len(heads) > 1 and model.heads in heads:
        yield choice("model.heads", *heads)
    yield choice("model.kernel", *((3, 5) if kind == IMAGE else (2, 3, 4, 5)))
    yield choice("model.dilation", 1, 2)
    yield choice("model.window", *((3, 5, 8) if labels_examples(config.task) else (8, 16, 32)))
    if labels_examples(config.task):
        yield choice("model.bidirectional", False, True)
    if encoder in RECURRENT:
        yield choice("model.attention", "additive", "scaled", "dot")


def _head(config: Config) -> Iterator[Dimension]:
    encoder, kind = config.model.encoder, config.data.kind
    pools = ("flatten", "mean", "max") if encoder == "cnn" and kind == IMAGE else POOLS.get(encoder, ())
    if pools and kind != TABLE:
        yield choice("model.pool", *pools)
    yield choice("model.head_layers", *((1, 2) if encoder == "mlp" else (0, 1)))
    if config.idle("model.head_layers") is None:
        yield choice("model.head_hidden", *sorted({64, 128, 256, config.model.head_hidden or 128}), when=HEAD)


def choice(key: str, *values: Any, when: dict[str, tuple[Any, ...]] | None = None) -> Dimension:
    return Dimension(key, values=values, when=when or {})


def _widths(start: int) -> list[int]:
    """Half of it, it, and double, in steps of 16 where that is possible."""
    grain = 16 if start % 16 == 0 else 8
    return sorted({max(grain, round(start * factor / grain) * grain) for factor in (0.5, 1.0, 2.0)} | {start})


def _round(number: float) -> float:
    """To two digits, which is how a person would write it."""
    return round(number, 1 - math.floor(math.log10(number)))
