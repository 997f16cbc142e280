"""What is searched where nobody says: around where each model's settings start. Torch-free."""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from glassformer.config.encoders import RECURRENT
from glassformer.config.errors import SettingError
from glassformer.config.presets import IMAGE, TABLE, has_decoder, labels_examples, reads_stream
from glassformer.config.resolve import BUDGETS, WORDS, Config
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
RUNS = (3, 4, 5, 6)
"""Characters of the longest run in a bag of characters."""
MOST_BUCKETS = 2**20
HEAD = {"model.head_layers": (1, 2)}


Candidates = list[tuple[Dimension, bool]]
"""Dimensions, and whether each is searched here."""


def default_space(config: Config, fixed: Collection[str], characters: int | None = None) -> list[Dimension]:
    """The space for a model on this data, as `config` would train it; what is `fixed` is not searched. `characters`: of
    all texts together, where that is known.
    """
    fixed = {*fixed, *SIZED} if "model.size" in fixed else fixed
    if config.is_finetuned:
        candidates = _finetuned(config, fixed)
    else:
        candidates = [*_training(config, fixed), *_tokens(config, characters), *_shape(config, fixed), *_head(config)]
    wanted = [dimension for dimension, searched in candidates if searched]
    usable = [_with_start(dimension, config) for dimension in wanted if _is_open(dimension, config, fixed)]
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
    """The dimension with the value that the setting starts from among its values."""
    start = config.get(dimension.key)
    if not dimension.values or dimension.when or dimension.holds(start):
        return dimension
    values = [*dimension.values, start]
    numbers = all(isinstance(value, int | float) for value in values)
    return replace(dimension, values=tuple(sorted(values) if numbers else values))


def _finetuned(config: Config, fixed: Collection[str]) -> Candidates:
    """What is searched of a model that begins from another run: all but its body."""
    body = ("training.optimizer", "training.average")
    labels = labels_examples(config.task)
    head_alone = labels and config.training.last_blocks == 0 and not config.model.head_layers
    pools = ("last", "mean") if config.model.causal else ("mean", "first", "max")
    return [
        *((dimension, searched) for dimension, searched in _training(config, fixed) if dimension.key not in body),
        # a head alone reads features that were computed without dropout
        (Dimension("model.dropout", low=0.0, high=0.3, step=0.05), not head_alone),
        (choice("training.layer_decay", 1.0, 0.9, 0.8), True),
        (choice("model.pool", *pools), labels),
    ]


def _training(config: Config, fixed: Collection[str]) -> Candidates:
    """How it is trained."""
    training = config.training
    lr, decay, epochs = training.lr or 1e-3, training.weight_decay, training.epochs or 0.0
    has_budget = any(budget in fixed for budget in BUDGETS)
    return [
        (Dimension("training.lr", low=_round(lr / FACTOR), high=_round(lr * FACTOR), log=True), True),
        (choice("training.optimizer", "muon", "adamw"), _has_transformer(config)),
        (Dimension("training.weight_decay", low=min(1e-3, decay), high=max(0.3, decay), log=True), decay > 0),
        (choice("training.weight_decay", 0.0, 0.001, 0.01, 0.1), decay <= 0),
        (Dimension("training.epochs", low=epochs / 2, high=2 * epochs, log=True), epochs > 0 and not has_budget),
        # of a number of updates, a larger batch would only be a longer training
        (choice("training.batch_size", 16, 32, 64, 128), training.steps is None),
        (choice("training.label_smoothing", 0.0, 0.05, 0.1), True),
        (choice("training.average", None, 50, 200), True),
    ]


def _tokens(config: Config, characters: int | None) -> Candidates:
    """What it reads."""
    subwords = has_decoder(config.task) and config.tokenizer.kind == "bpe"
    words = labels_examples(config.task) and config.data.kind in WORDS  # a language model's loss is that of a token
    bag = words and config.model.encoder == "bag"
    spelled = {"tokenizer.kind": ("char",)}
    return [
        (choice("tokenizer.vocab_size", 2000, 4000, 8000), subwords),
        (choice("tokenizer.kind", "word", "char"), bag),
        (
            choice("tokenizer.min_count", 1, 2, 3, when={"tokenizer.kind": ("word",)}),
            words and config.tokenizer.file is None,
        ),
        (choice("model.ngrams", 1, 2, 3, when={"tokenizer.kind": ("word", "bpe")}), bag),
        (choice("model.ngrams", *RUNS, when=spelled), bag),
        (Dimension("model.words", low=0, high=3, whole=True, when=spelled), bag),
        (choice("model.buckets", *_buckets(characters), when=spelled), bag),
        (choice("model.weighting", "tfidf", "counts"), bag),
        (Dimension("model.word_dropout", low=0.0, high=0.5, step=0.1), words),
    ]


def _buckets(characters: int | None) -> tuple[int, int]:
    """Places for runs of characters: as many as there can be runs, or a million; and a quarter of that."""
    most = MOST_BUCKETS
    if characters is not None:
        most = min(most, 2 ** math.ceil(math.log2(max(8, max(RUNS) * characters))))
    return most // 4, most


def _shape(config: Config, fixed: Collection[str]) -> Candidates:
    """How it is built: whatever some encoder has; what this one has no use for is left out later."""
    model, recurrent, labels = config.model, config.model.encoder in RECURRENT, labels_examples(config.task)
    widths = [model.width] if "model.width" in fixed else _widths(model.width)
    if "model.heads" in fixed and _has_transformer(config):
        widths = [width for width in widths if width % (2 * model.heads) == 0]
    deeper = 2 if reads_stream(config.task) or model.encoder == "transformer" else 0
    deepest = max(3 if recurrent else 4, model.layers + deeper)
    heads = [heads for heads in sorted({2, 4, 8, model.heads}) if all(width % (2 * heads) == 0 for width in widths)]
    return [
        (Dimension("model.dropout", low=0.0, high=0.6, step=0.05), True),
        (choice("model.width", *widths), len(widths) > 1),
        (Dimension("model.layers", low=1, high=deepest, whole=True), True),
        (choice("model.heads", *heads), len(heads) > 1 and model.heads in heads),
        (choice("model.kernel", *((3, 5) if config.data.kind == IMAGE else (2, 3, 4, 5))), True),
        (choice("model.dilation", 1, 2), True),
        (choice("model.window", *((3, 5, 8) if labels else (8, 16, 32))), True),
        (choice("model.bidirectional", False, True), labels),
        (choice("model.attention", "additive", "scaled", "dot"), recurrent),
    ]


def _head(config: Config) -> Candidates:
    """How it answers, and what images are changed by."""
    encoder, kind, labels = config.model.encoder, config.data.kind, labels_examples(config.task)
    pools = ("flatten", "mean", "max") if encoder == "cnn" and kind == IMAGE else POOLS.get(encoder, ())
    hidden = sorted({64, 128, 256, config.model.head_hidden or 128})
    return [
        (choice("model.pool", *pools), labels and bool(pools) and kind != TABLE),
        (choice("model.head_layers", *((1, 2) if encoder == "mlp" else (0, 1))), labels),
        (choice("model.head_hidden", *hidden, when=HEAD), labels and config.idle("model.head_layers") is None),
        (choice("data.shift", 0, 1, 2), kind == IMAGE),
    ]


def _has_transformer(config: Config) -> bool:
    return "transformer" in (config.model.encoder, config.model.decoder)


def choice(key: str, *values: Any, when: dict[str, tuple[Any, ...]] | None = None) -> Dimension:
    return Dimension(key, values=values, when=when or {})


def _widths(start: int) -> list[int]:
    """Half of it, it, and double, in steps of 16 where that is possible."""
    grain = 16 if start % 16 == 0 else 8
    return sorted({max(grain, round(start * factor / grain) * grain) for factor in (0.5, 1.0, 2.0)} | {start})


def _round(number: float) -> float:
    """The number to two digits, which is how a person would write it."""
    return round(number, 1 - math.floor(math.log10(number)))
