"""The ladder: which models a comparison tries, from the simplest up, by what is learned and what an example is."""

from collections.abc import Sequence
from typing import Any

from glassformer.config.encoders import OWN, encoder_info, model_name
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import IMAGE, LANGUAGE_MODEL, MASKED, MIXED, TABLE, TEXT, TRANSLATION

WITHOUT_ATTENTION = "lstm:no-attention"
"""The translator that has to put a whole text into one vector: what attention was invented against."""
RUNGS: dict[str, dict[str, Any]] = {WITHOUT_ATTENTION: {"model.encoder": "lstm", "model.attention": "none"}}
"""Rungs that are more than a model's name, with the settings they stand for."""

LADDERS: dict[str, tuple[str, ...]] = {
    LANGUAGE_MODEL: ("cnn", "rnn", "gru", "lstm", "transformer:classic", "transformer:gpt2", "transformer"),
    MASKED: ("cnn", "rnn", "gru", "lstm", "transformer:bert", "transformer"),
    TRANSLATION: (WITHOUT_ATTENTION, "lstm", "transformer"),
    TEXT: ("bag:counts", "bag:tfidf", "average", "cnn", "rnn", "lstm", "bilstm", "transformer"),
    IMAGE: ("linear", "mlp", "cnn", "transformer"),
    TABLE: ("linear", "mlp", "transformer"),
    MIXED: ("average", "rnn", "lstm", "bilstm", "transformer"),
}
"""By the task where texts are written, by the kind of examples where something is said of them."""

MAIN = ("bag:tfidf", "linear", "mlp", "lstm", "transformer")
"""Rungs to draw learning curves of, where nobody says: a few of each ladder."""


def ladder(task: str, kind: str) -> tuple[str, ...]:
    return LADDERS[task if task in LADDERS else kind]


def few(task: str, kind: str) -> tuple[str, ...]:
    """The main rungs of a ladder."""
    return tuple(name for name in ladder(task, kind) if name in MAIN)


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


def names_of(models: str | Sequence[str]) -> tuple[str, ...]:
    """Names with commas between them, or a list of them; each once, and known."""
    words = models.split(",") if isinstance(models, str) else list(models)
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not names:
        raise Misuse("--models: name at least one model, such as lstm,transformer")
    for name in names:
        rung(name)
    return names
