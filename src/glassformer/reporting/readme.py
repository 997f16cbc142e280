"""The README.md of a run, trained or imported: what it is, for a person to read."""

import os
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES
from glassformer.families.load import BEFORE, label_names, nothing_held_out, size_in_words

TOKEN_KINDS = {"char": "characters", "word": "words", "bpe": "byte pairs", "other": "tokens made elsewhere"}


def model_card(run: Path, config: Config, card: dict[str, Any], score: str, reads: str = "") -> str:
    """`score`: how good it is, in words; `reads`: what it reads, where that is not just texts."""
    facts = {"parts": _parts(config), "size": size_in_words(card), "before": BEFORE, "token_kinds": TOKEN_KINDS}
    held_out = {"nothing_held_out": nothing_held_out(card)}
    return _render("README.md.jinja", run, config, card, score=score, reads=reads, **facts, **held_out)


def imported_card(run: Path, config: Config, card: dict[str, Any]) -> str:
    """What is known of a model that was made elsewhere."""
    return _render("IMPORTED.md.jinja", run, config, card)


def _render(template: str, run: Path, config: Config, card: dict[str, Any], **more: Any) -> str:
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"basename": os.path.basename, "quote": lambda path: shlex.quote(str(path))}
    text = files("glassformer.reporting").joinpath(template).read_text("utf-8")
    title, names = label_names(card) or ("", None)
    labels = {"label_title": title, "label_names": names}
    return environment.from_string(text).render(
        run=run, config=config, card=card, family=FAMILIES[config.task], **labels, **more
    )


def _parts(config: Config) -> str:
    """The encoder with those of its settings that say how large it is and what it is made of."""
    shown = ("style", "layers", "heads", "width", "decoder", "attention", "weighting", "ngrams", "pool", "context")
    used = [name for name in shown if not config.idle(f"model.{name}")]
    named = [f"{name} {value}" for name in used if (value := getattr(config.model, name)) is not None]
    return f"{config.model.encoder}: {', '.join(named)}" if named else config.model.encoder
