"""Candidates of a comparison: models, settings with several values, and the Transformer without each of its parts.

Several settings with several values (`model.heads=1,2,4`) are combined as a grid.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.config.encoders import OWN, encoder_info, model_name
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT, has_decoder, predicts_next_token, reads_stream
from glassformer.config.resolve import Config, check_ranges, flatten, full_key
from glassformer.trials.settings import split_words

# --- models of each task, from simple to complex ---

WITHOUT_ATTENTION = "lstm:no-attention"
"""A translator that encodes its source in one vector."""
NAMED_SETTINGS: dict[str, dict[str, Any]] = {WITHOUT_ATTENTION: {"model.encoder": "lstm", "model.attention": "none"}}
"""Settings of models whose name alone does not determine them."""

MODELS_BY_KIND: dict[str, tuple[str, ...]] = {
    TEXT: ("bag:counts", "bag:tfidf", "average", "cnn", "rnn", "lstm", "bilstm", "transformer"),
    IMAGE: ("linear", "mlp", "cnn", "transformer"),
    TABLE: ("linear", "mlp", "transformer"),
    MIXED: ("average", "rnn", "lstm", "bilstm", "transformer"),
}
"""Models for labels and numbers by the kind of examples."""

MAIN_MODELS = ("bag:tfidf", "linear", "mlp", "lstm", "transformer")
"""Models that are compared by default on several shares of the data."""
LANGUAGE_MODELS = ("cnn", "rnn", "gru", "lstm", "transformer:classic", "transformer:gpt2", "transformer")
MASKED_MODELS = ("cnn", "rnn", "gru", "lstm", "transformer:bert", "transformer")
TRANSLATORS = (WITHOUT_ATTENTION, "lstm", "transformer")


def models_of(task: str, kind: str) -> tuple[str, ...]:
    """Return the models for a task and a kind of examples, from simple to complex."""
    if predicts_next_token(task):
        return LANGUAGE_MODELS
    if reads_stream(task):
        return MASKED_MODELS
    return TRANSLATORS if has_decoder(task) else MODELS_BY_KIND[kind]


def model_settings(name: str) -> dict[str, Any]:
    """Return the settings of a model by its name in `--models`."""
    if name in NAMED_SETTINGS:
        return dict(NAMED_SETTINGS[name])
    try:
        encoder, variant = model_name(name)
        encoder_info(encoder)
    except SettingError as error:
        raise Misuse(f"--models: {error}") from None
    if encoder == OWN:
        raise Misuse("--models: train your own model with gf.train(…, model=…), and pass its run with --runs")
    return {"model.encoder": encoder, **{f"model.{key}": value for key, value in variant.items()}}


def parse_models(models: object) -> tuple[str, ...]:
    """Return the names of models, given as a list or with commas between them; refuse unknown and repeated names."""
    names = tuple(split_words(models))
    if not names:
        raise Misuse("--models: name at least one model, such as lstm,transformer")
    for name in names:
        model_settings(name)
    if repeated := _repeated(names):
        raise Misuse(f"--models names {repeated[0]} twice: name each model once (--seeds N trains each N times)")
    return names


def _repeated(values: Sequence[Any]) -> list[Any]:
    """Return the values that equal an earlier one."""
    return [value for place, value in enumerate(values) if value in values[:place]]


# --- settings with several values ---

Varied = Mapping[str, Sequence[Any]]
OTHER_FLAGS = {
    "model.encoder": "--models",
    "training.seed": "--seeds",
    "data.fold": "--folds",
    "data.path": "DATA",
    "model.from_run": "--from",
    "training.choose_by": "--training.choose_by, with one value for all rows,",
}
"""Settings that another flag varies."""


def parse_varied(vary: "str | Iterable[str] | Varied | None") -> dict[str, list[Any]]:
    """Return the values to try by dotted key, from `key=a,b` (one, or several) or a mapping; refuse repeated values."""
    wanted: dict[str, Any] = dict(vary) if isinstance(vary, Mapping) else {}
    words = () if vary is None or isinstance(vary, Mapping) else [vary] if isinstance(vary, str) else vary
    for word in words:
        key, equals, values = str(word).partition("=")
        if not equals or not values:
            raise Misuse(f"--vary wants a setting and its values, as model.heads=1,2,4, not '{word}'")
        if full_key(key) in {full_key(other) for other in wanted}:
            raise Misuse(f"--vary {key} is given twice: put its values together, with commas between them")
        wanted[key] = values.split(",")
    return dict(_parse_values(key, values) for key, values in wanted.items())


def _parse_values(key: str, values: Any) -> tuple[str, list[Any]]:
    """Return a setting's dotted key and its values, converted to the setting's type and checked."""
    key = full_key(key.strip())
    if key in OTHER_FLAGS:
        raise Misuse(f"--vary {key}: that is what {OTHER_FLAGS[key]} is for")
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    parsed = [flatten({key: value.strip() if isinstance(value, str) else value})[key] for value in values]
    if not parsed:
        raise Misuse(f"--vary {key}: give at least one value")
    for value in parsed:
        check_ranges({key: value})
    if repeated := _repeated(parsed):
        raise SettingError(
            f"{key} has the value {repeated[0]} twice: give each value once (--seeds N trains each N times)"
        )
    return key, parsed


def grid(varied: Varied) -> list[dict[str, Any]]:
    """Return every combination of values; a single empty one if nothing is varied."""
    return [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]


# --- parts of the Transformer ---

REMOVED_PARTS: tuple[dict[str, Any], ...] = (
    {"model.residual": False},
    {"model.norm": "none"},
    {"model.qk_norm": False},
    {"model.scale": False, "model.qk_norm": False},
    {"model.causal_mask": False},
    {"model.positions": "none"},
    {"model.feed_forward": False},
    {"model.output_projection": False},
    {"model.heads": 1},
)
"""Settings that remove a part of the Transformer. Scaling of scores is removed together with the norm of queries and
keys, because that norm bounds the scores; the row before it removes the norm alone. Without residual connections no
branch is initialised to zero (`models/weights.py`), because such a model could not learn at all."""

MASK = "model.causal_mask"
UNMASKED = "without the mask it reads the token that it is to predict, so its loss is meaningless"


def ablations(config: Config) -> list[dict[str, Any]]:
    """Return the settings of each row: none for the whole model, then those that remove a part that this model has."""
    rows: list[dict[str, Any]] = [{}]
    for part in REMOVED_PARTS:
        changed = {key: value for key, value in part.items() if config.get(key) != value}
        if changed not in rows and all(config.idle(key) is None for key in part):
            rows.append(changed)
    return rows
