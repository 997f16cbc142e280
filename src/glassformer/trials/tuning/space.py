"""Search spaces: settings, and the values of each that may be tried; the defaults by model. Torch-free."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from glassformer.config.errors import SettingError, unknown
from glassformer.config.model_section import RECURRENT
from glassformer.config.presets import IMAGE, TABLE, has_decoder, labels_examples, reads_stream
from glassformer.config.resolve import ALIASES, BUDGETS, FIELDS, KINDS_WITH_WORDS, SECTIONS, Config, full_key, keys
from glassformer.config.setting import check_value, choices_of, kind_of, parse, value_text

Plain = str | int | float | bool | None
Conditions = Mapping[str, tuple[Plain, ...]]


@dataclass(frozen=True)
class Dimension:
    """A setting to search, and its candidates: one of `values`, or a number from `low` to `high`."""

    key: str
    values: tuple[Plain, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """Whether the range is sampled on a logarithmic scale."""
    step: float | None = None
    whole: bool = False
    when: Conditions = field(default_factory=dict)
    """Values of other settings under which the dimension applies; empty: always."""

    @property
    def name(self) -> str:
        """The setting with its conditions: a setting may have several ranges, each under a condition."""
        conditions = [f"{key} {'/'.join(map(to_word, values))}" for key, values in self.when.items()]
        return self.key + (f" ({', '.join(conditions)})" if conditions else "")

    def holds(self, value: Any) -> bool:
        """Return whether a value may be tried."""
        if self.values:
            return any(value == own and isinstance(value, bool) == isinstance(own, bool) for own in self.values)
        if value is None or isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        grain = self.step or (1 if self.whole else None)
        steps = (value - self.low) / grain if grain else 0.0
        return abs(steps - round(steps)) < 1e-9

    def applies(self, values: Mapping[str, Any]) -> bool:
        return all(values.get(key) in wanted for key, wanted in self.when.items())

    def to_plain(self) -> Any:
        """Return the dimension as YAML spells it."""
        when = {"when": {key: list(values) for key, values in self.when.items()}} if self.when else {}
        if self.values:
            return {"choices": list(self.values), **when} if when else list(self.values)
        number = int if self.whole else float
        log = {"log": True} if self.log else {}
        step = {"step": number(self.step)} if self.step is not None else {}
        return {"low": number(self.low), "high": number(self.high), **log, **step, **when}


def sample(space: Sequence[Dimension], suggest: Callable[[Dimension], Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Draw settings from a space. `known`: values of the settings that are not searched, for conditions."""
    drawn: dict[str, Any] = {}
    for dimension in space:
        if dimension.key not in drawn and dimension.applies({**known, **drawn}):
            drawn[dimension.key] = suggest(dimension)
    return drawn


def plain(space: Sequence[Dimension]) -> dict[str, Any]:
    """Return a space as YAML spells it, by setting; a setting with several ranges has a list of them."""
    out: dict[str, Any] = {}
    for dimension in space:
        out.setdefault(dimension.key, []).append(dimension.to_plain())
    return {key: ranges[0] if len(ranges) == 1 else ranges for key, ranges in out.items()}


# --- reading a space ---

CHOICE_KEYS = ("choices", "when")
RANGE_KEYS = ("low", "high", "log", "step", "when")
UNSEARCHABLE = {
    "model.encoder": "name the models to choose from with --model, as in --model bag,cnn",
    "training.choose_by": "it decides which trial is the best, so it cannot be searched: set --training.choose_by NAME",
    "training.seed": "a lucky seed is not a setting; --seeds N scores each trial by several seeds",
}


def _refuse(condition: object, message: str) -> None:
    if condition:
        raise SettingError(message)


def read_space(spec: Mapping[str, Any], where: str) -> list[Dimension]:
    """Read a space from YAML: `model.width: [64, 128]`, `training.lr: {low: 1e-4, high: 1e-2, log: true}`."""
    out: list[Dimension] = []
    for key, value in dotted(spec).items():
        label = f"{where}: {key}"
        key = full_key(key)
        _refuse(key not in keys(), f"{where}: {unknown('setting', key, [*keys(), *ALIASES])}")
        _refuse(key in UNSEARCHABLE, f"{label}: {UNSEARCHABLE.get(key)}")
        compared = key.startswith("data.") and key not in ("data.shift", "data.flip")
        _refuse(compared, f"{label} decides what is compared with what, and cannot be searched")
        several = isinstance(value, list) and len(value) > 0 and all(isinstance(part, dict) for part in value)
        out += [_dimension(key, part, label) for part in (value if several else [value])]
    _refuse(not out, f"{where} names no setting to search, as in: model.width: [64, 128]")
    searched = [dimension.key for dimension in out]
    for place, dimension in enumerate(out):
        for key in dimension.when:
            late = key in searched and key not in searched[:place]
            _refuse(late, f"{where}: {dimension.key} depends on {key}, which must come before it")
    budgets = list(dict.fromkeys(key for key in searched if key in BUDGETS))
    _refuse(len(budgets) > 1, f"{where}: {' and '.join(budgets[:2])} both say how long to train: search one of them")
    return out


def dotted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Replace sections (`model:` and below it `width: …`) by dotted keys."""
    out: dict[str, Any] = {}
    for key, value in spec.items():
        is_section = key in SECTIONS and isinstance(value, dict)
        out |= {f"{key}.{name}": inner for name, inner in value.items()} if is_section else {str(key): value}
    return out


def _dimension(key: str, value: Any, label: str) -> Dimension:
    if isinstance(value, list):
        value = {"choices": value}
    if not isinstance(value, dict):
        raise SettingError(f"{label} wants a list of values or a range {{low: …, high: …}}, not {value!r}; "
                           f"one value is a flag: --{key} {to_word(value)}")  # fmt: skip
    known = CHOICE_KEYS if "choices" in value else RANGE_KEYS
    for name in value:
        _refuse(name not in known, f"{label}: {unknown('word', str(name), known)}")
    when = _conditions(value.get("when") or {}, label)
    if "choices" in value:
        return Dimension(key, values=_choices(key, value["choices"], label), when=when)
    return _range(key, value, label, when)


def _choices(key: str, values: Any, label: str) -> tuple[Plain, ...]:
    _refuse(not isinstance(values, list) or not values, f"{label} has no values to choose from, as in [1, 2]")
    parsed = tuple(_value(key, value, label) for value in values)
    for place, value in enumerate(parsed):
        _refuse(value in parsed[:place], f"{label} has {to_word(value)} twice")
    return parsed


def _conditions(spec: Any, label: str) -> Conditions:
    if not isinstance(spec, dict):
        raise SettingError(f"{label}: when wants a setting and its values, as in when: {{model.head_layers: [1, 2]}}")
    out = {}
    for name, values in spec.items():
        key = full_key(name)
        _refuse(key not in keys(), f"{label}: when: {unknown('setting', str(name), keys())}")
        out[key] = _choices(key, values if isinstance(values, list) else [values], f"{label}: when: {name}")
    return out


def _range(key: str, value: Mapping[str, Any], label: str, when: Conditions) -> Dimension:
    kind = kind_of(FIELDS[key])[0]
    if kind not in (int, float):
        examples = choices_of(key, FIELDS[key].metadata["rule"]) or ("true", "false")
        raise SettingError(f"{label} is not a number: list its values, as in [{', '.join(examples)}]")
    for name in ("low", "high"):
        _refuse(value.get(name) is None, f"{label}: a range has low and high, and {name} is missing")
    low, high = (_value(key, value[name], f"{label}: {name}") for name in ("low", "high"))
    log = value.get("log", False)
    _refuse(not isinstance(log, bool), f"{label}: log is true or false, not {log!r}")
    step = None if value.get("step") is None else parse(f"{label}: step", FIELDS[key], value["step"])
    _refuse(low >= high, f"{label}: low {low:g} must be below high {high:g}")
    _refuse(log and low <= 0, f"{label}: log needs low above 0, and it is {low:g}")
    if step is not None:
        _refuse(not 0 < step <= high - low, f"{label}: step {step:g} must be above 0, and at most {high - low:g}")
        _refuse(log, f"{label}: give log or step, not both")
    return Dimension(key, low=low, high=high, log=log, step=step, whole=kind is int, when=when)


def _value(key: str, value: Any, label: str) -> Any:
    """Return a value in the setting's type; raise `SettingError` if it breaks the setting's rule."""
    field = FIELDS[key]
    parsed = parse(label, field, value)
    try:
        check_value(key, field, parsed)
    except SettingError as error:
        raise SettingError(f"{label.removesuffix(key)}{error}") from None
    return parsed


def to_word(value: Any) -> str:
    """Return a value as YAML spells it."""
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else value_text(value)


# --- default spaces ---

SIZE_KEYS = ("model.layers", "model.heads", "model.width")
"""Settings that `model.size` sets."""
LR_FACTOR = 8
"""The learning rate is searched from its default divided by this factor to its default times it."""
POOLS = {
    "average": ("mean", "sum", "max"),
    "transformer": ("mean", "max", "attention", "first"),
    **dict.fromkeys(("window", "cnn"), ("max", "mean", "attention")),
    **dict.fromkeys(RECURRENT, ("max", "mean", "attention", "last")),
}
NGRAM_LENGTHS = (3, 4, 5, 6)
"""Maximum length of the n-grams in a bag of character n-grams."""
MAX_BUCKETS = 2**20
WITH_HIDDEN_LAYER = {"model.head_layers": (1, 2)}

Candidates = list[tuple[Dimension, bool]]
"""Dimensions, and whether each is searched for this model and data."""


def default_space(config: Config, fixed: Collection[str], characters: int | None = None) -> list[Dimension]:
    """Return the space for a model on this data, without `fixed` settings.

    `config`: the configuration that would be trained; `characters`: total length of the texts, None if unknown.
    """
    fixed = {*fixed, *SIZE_KEYS} if "model.size" in fixed else fixed
    if config.is_finetuned:
        candidates = _finetuned(config, fixed)
    else:
        candidates = [*_training(config, fixed), *_tokens(config, characters), *_shape(config, fixed), *_head(config)]
    wanted = [dimension for dimension, searched in candidates if searched]
    usable = [_with_start(dimension, config) for dimension in wanted if _is_open(dimension, config, fixed)]
    if not usable:
        raise SettingError(f"every setting of {config.model.encoder} that could be searched is fixed: leave one open")
    return usable


def _is_open(dimension: Dimension, config: Config, fixed: Collection[str]) -> bool:
    """Return whether a dimension is not fixed and has an effect in this configuration."""
    if dimension.when:
        idle = any(key in fixed and config.get(key) not in values for key, values in dimension.when.items())
    else:
        idle = config.idle(dimension.key) is not None
    return not idle and dimension.key not in fixed


def _with_start(dimension: Dimension, config: Config) -> Dimension:
    """Return the dimension with the default of the setting among its values."""
    start = config.get(dimension.key)
    if not dimension.values or dimension.when or dimension.holds(start):
        return dimension
    values = [*dimension.values, start]
    numbers = all(isinstance(value, int | float) for value in values)
    return replace(dimension, values=tuple(sorted(values) if numbers else values))


def _finetuned(config: Config, fixed: Collection[str]) -> Candidates:
    """Return candidates for a model that is fine-tuned from a run, whose body is fixed."""
    body = ("training.optimizer", "training.average")
    labels = labels_examples(config.task)
    head_alone = labels and config.training.last_blocks == 0 and not config.model.head_layers
    pools = ("last", "mean") if config.model.causal else ("mean", "first", "max")
    return [
        *((dimension, searched) for dimension, searched in _training(config, fixed) if dimension.key not in body),
        # if only a linear head is trained, its features were computed without dropout
        (Dimension("model.dropout", low=0.0, high=0.3, step=0.05), not head_alone),
        (choice("training.layer_decay", 1.0, 0.9, 0.8), True),
        (choice("model.pool", *pools), labels),
    ]


def _training(config: Config, fixed: Collection[str]) -> Candidates:
    """Return candidates for training."""
    training = config.training
    lr, decay, epochs = training.lr or 1e-3, training.weight_decay, training.epochs or 0.0
    has_budget = any(budget in fixed for budget in BUDGETS)
    return [
        (Dimension("training.lr", low=_round(lr / LR_FACTOR), high=_round(lr * LR_FACTOR), log=True), True),
        (choice("training.optimizer", "muon", "adamw"), _has_transformer(config)),
        (Dimension("training.weight_decay", low=min(1e-3, decay), high=max(0.3, decay), log=True), decay > 0),
        (choice("training.weight_decay", 0.0, 0.001, 0.01, 0.1), decay <= 0),
        (Dimension("training.epochs", low=epochs / 2, high=2 * epochs, log=True), epochs > 0 and not has_budget),
        # with a fixed number of updates, a larger batch would only train longer
        (choice("training.batch_size", 16, 32, 64, 128), training.steps is None),
        (choice("training.label_smoothing", 0.0, 0.05, 0.1), True),
        (choice("training.average", None, 50, 200), True),
    ]


def _tokens(config: Config, characters: int | None) -> Candidates:
    """Return candidates for the tokenizer and the bag."""
    subwords = has_decoder(config.task) and config.tokenizer.kind == "bpe"
    words = (
        labels_examples(config.task) and config.data.kind in KINDS_WITH_WORDS
    )  # a language model's loss is per token, so another tokenizer would change its meaning
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
        (choice("model.ngrams", *NGRAM_LENGTHS, when=spelled), bag),
        (Dimension("model.words", low=0, high=3, whole=True, when=spelled), bag),
        (choice("model.buckets", *_buckets(characters), when=spelled), bag),
        (choice("model.weighting", "tfidf", "counts"), bag),
        (Dimension("model.word_dropout", low=0.0, high=0.5, step=0.1), words),
    ]


def _buckets(characters: int | None) -> tuple[int, int]:
    """Return two numbers of buckets: a power of two for all character n-grams (at most 2^20), and a quarter of it."""
    most = MAX_BUCKETS
    if characters is not None:
        most = min(most, 2 ** math.ceil(math.log2(max(8, max(NGRAM_LENGTHS) * characters))))
    return most // 4, most


def _shape(config: Config, fixed: Collection[str]) -> Candidates:
    """Return candidates for the model; `_is_open` removes those that its encoder does not use."""
    model, recurrent, labels = config.model, config.model.encoder in RECURRENT, labels_examples(config.task)
    widths = [model.width] if "model.width" in fixed else _widths(model.width)
    given_heads = config.get("model.heads") or 4
    if "model.heads" in fixed and _has_transformer(config):
        widths = [width for width in widths if width % (2 * given_heads) == 0]
    deeper = 2 if reads_stream(config.task) or model.encoder == "transformer" else 0
    deepest = max(3 if recurrent else 4, model.layers + deeper)
    heads = [heads for heads in sorted({2, 4, 8, given_heads}) if all(width % (2 * heads) == 0 for width in widths)]
    return [
        (Dimension("model.dropout", low=0.0, high=0.6, step=0.05), True),
        (choice("model.width", *widths), len(widths) > 1),
        (Dimension("model.layers", low=1, high=deepest, whole=True), True),
        (choice("model.heads", *heads), len(heads) > 1 and given_heads in heads),
        (choice("model.kernel", *((3, 5) if config.data.kind == IMAGE else (2, 3, 4, 5))), True),
        (choice("model.dilation", 1, 2), True),
        (choice("model.window", *((3, 5, 8) if labels else (8, 16, 32))), True),
        (choice("model.bidirectional", False, True), labels),
        (choice("model.attention", "additive", "scaled", "dot"), recurrent),
    ]


def _head(config: Config) -> Candidates:
    """Return candidates for pooling, the head and the augmentation of images."""
    encoder, kind, labels = config.model.encoder, config.data.kind, labels_examples(config.task)
    pools = ("flatten", "mean", "max") if encoder == "cnn" and kind == IMAGE else POOLS.get(encoder, ())
    hidden = sorted({64, 128, 256, config.model.head_hidden or 128})
    return [
        (choice("model.pool", *pools), labels and bool(pools) and kind != TABLE),
        (choice("model.head_layers", *((1, 2) if encoder == "mlp" else (0, 1))), labels),
        (
            choice("model.head_hidden", *hidden, when=WITH_HIDDEN_LAYER),
            labels and config.idle("model.head_layers") is None,
        ),
        (choice("data.shift", 0, 1, 2), kind == IMAGE),
    ]


def _has_transformer(config: Config) -> bool:
    return "transformer" in (config.model.encoder, config.model.decoder)


def choice(key: str, *values: Any, when: dict[str, tuple[Any, ...]] | None = None) -> Dimension:
    return Dimension(key, values=values, when=when or {})


def _widths(start: int) -> list[int]:
    """Return half of a width, the width and its double, as multiples of 16 if the width is one, else of 8."""
    grain = 16 if start % 16 == 0 else 8
    return sorted({max(grain, round(start * factor / grain) * grain) for factor in (0.5, 1.0, 2.0)} | {start})


def _round(number: float) -> float:
    """Round a number to two digits."""
    return round(number, 1 - math.floor(math.log10(number)))
