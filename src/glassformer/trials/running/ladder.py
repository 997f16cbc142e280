"""The ladder: which models a comparison tries, from the simplest up, by what is learned and what an example is."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from glassformer.config.encoders import OWN, encoder_info, model_name
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import IMAGE, MIXED, OWN_TASKS, TABLE, TEXT
from glassformer.families.base import FAMILIES, Family
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.translation import TranslationFamily

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


@singledispatch
def ladder(family: Family, kind: str) -> tuple[str, ...]:
    """The models that a family's examples of a kind are tried with: those of the family whose settings it has."""
    like = OWN_TASKS.get(family.task)
    return LADDERS[kind] if like is None else ladder(FAMILIES[like], kind)


@ladder.register
def _(family: LanguageFamily, kind: str) -> tuple[str, ...]:
    return ("cnn", "rnn", "gru", "lstm", "transformer:classic", "transformer:gpt2", "transformer")


@ladder.register
def _(family: MaskedFamily, kind: str) -> tuple[str, ...]:
    return ("cnn", "rnn", "gru", "lstm", "transformer:bert", "transformer")


@ladder.register
def _(family: TranslationFamily, kind: str) -> tuple[str, ...]:
    return (WITHOUT_ATTENTION, "lstm", "transformer")


def main_rungs(family: Family, kind: str) -> tuple[str, ...]:
    return tuple(name for name in ladder(family, kind) if name in MAIN)


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
    """Names with commas between them, or a list of them; each once, and known."""
    words = models.split(",") if isinstance(models, str) else list(models)
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not names:
        raise Misuse("--models: name at least one model, such as lstm,transformer")
    for name in names:
        rung(name)
    return names
