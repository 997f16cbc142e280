"""What a comparison tries: models from the ladder, settings with several values (`model.heads=1,2,4`, several of them
as a grid), and the Transformer without its parts, each of which is taken out, all else equal.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.config.encoders import OWN, encoder_info, model_name
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT, has_decoder, predicts_next_token, reads_stream
from glassformer.config.resolve import Config, check_ranges, flatten, full_key
from glassformer.trials.settings import split_words

# --- the ladder: from the simplest up, by what is learned and what an example is ---

WITHOUT_ATTENTION = "lstm:no-attention"
"""The translator that has to put a whole text into one vector: what attention was invented against."""
RUNGS: dict[str, dict[str, Any]] = {WITHOUT_ATTENTION: {"model.encoder": "lstm", "model.attention": "none"}}
"""Rungs that are more than a model's name, with the settings they stand for."""

LADDERS: dict[str, tuple[str, ...]] = {
    TEXT: ("bag:counts", "bag:tfidf", "average", "cnn", "rnn", "lstm", "bilstm", "transformer"),
    IMAGE: ("linear", "mlp", "cnn", "transformer"),
    TABLE: ("linear", "mlp", "transformer"),
    MIXED: ("average", "rnn", "lstm", "bilstm", "transformer"),
}
"""The models to try by the kind of examples of which something is said."""

MAIN = ("bag:tfidf", "linear", "mlp", "lstm", "transformer")
"""Rungs to draw learning curves of, where nobody says: a few of each ladder."""


LANGUAGE_MODELS = ("cnn", "rnn", "gru", "lstm", "transformer:classic", "transformer:gpt2", "transformer")
MASKED_MODELS = ("cnn", "rnn", "gru", "lstm", "transformer:bert", "transformer")
TRANSLATORS = (WITHOUT_ATTENTION, "lstm", "transformer")


def ladder(task: str, kind: str) -> tuple[str, ...]:
    """Return the models to try for a task and a kind of examples."""
    if predicts_next_token(task):
        return LANGUAGE_MODELS
    if reads_stream(task):
        return MASKED_MODELS
    return TRANSLATORS if has_decoder(task) else LADDERS[kind]


def rung(name: str) -> dict[str, Any]:
    """The settings that a model's name stands for, as `--models` takes it."""
    if name in RUNGS:
        return dict(RUNGS[name])
    try:
        encoder, variant = model_name(name)
        encoder_info(encoder)
    except SettingError as error:
        raise Misuse(f"--models: {error}") from None
    if encoder == OWN:
        raise Misuse("--models: a model of one's own is trained with gf.train(…, model=…): then --runs takes its run")
    return {"model.encoder": encoder, **{f"model.{key}": value for key, value in variant.items()}}


def parse_models(models: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of models, given as a list or with commas between them; refuse unknown and repeated names."""
    names = tuple(split_words(models))
    if not names:
        raise Misuse("--models: name at least one model, such as lstm,transformer")
    for name in names:
        rung(name)
    if repeated := _repeated(names):
        raise Misuse(f"--models names {repeated[0]} twice: name each model once (--seeds N trains each N times)")
    return names


def _repeated(values: Sequence[Any]) -> list[Any]:
    """Return the values that equal an earlier one."""
    return [value for place, value in enumerate(values) if value in values[:place]]


# --- settings with several values ---

Varied = Mapping[str, Sequence[Any]]
INSTEAD = {
    "model.encoder": "--models",
    "training.seed": "--seeds",
    "data.fold": "--folds",
    "data.path": "DATA",
    "model.from_run": "--from",
    "training.choose_by": "--training.choose_by, with one value for all rows,",
}
"""What is varied by a flag of its own."""


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
    """A setting's dotted key and its values, each brought to the setting's type and within its range."""
    key = full_key(key.strip())
    if key in INSTEAD:
        raise Misuse(f"--vary {key}: that is what {INSTEAD[key]} is for")
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
    """Every combination; one empty one where nothing is varied."""
    return [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]


# --- parts of the Transformer ---

PARTS: tuple[dict[str, Any], ...] = (
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
"""The parts of the lectures. Scores are left unscaled together with the norm of queries and keys: that norm bounds
the scores whatever the weights, and the claim is about scores that grow with the width of a head. What the norm alone
is worth is the row before it. Without residual connections no branch starts at zero
(`models/weights.py`): such a model could not learn at all, which is not what is claimed of it."""

MASK = "model.causal_mask"
UNMASKED = "without the mask it reads the token it is to predict: its loss is no honest one"


def ablations(config: Config) -> list[dict[str, Any]]:
    """What to change, one row each: nothing at first, then all that this model has and can do without."""
    rows: list[dict[str, Any]] = [{}]
    for part in PARTS:
        there = {key: value for key, value in part.items() if config.get(key) != value}
        if there not in rows and all(config.idle(key) is None for key in part):
            rows.append(there)
    return rows
