"""Views and options of `look`, without torch. The views themselves are in `inspection/views/`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.config.errors import Misuse, unknown
from glassformer.config.presets import read_settings

ENDINGS = (".html", ".png", ".svg", ".pdf", ".json")
"""File formats of views."""
ALL = "all"
MODES = ("heat", "lines", "all")
"""Displays of attention."""

_TABLES = read_settings("views.toml")
VIEWS: dict[str, str] = _TABLES["views"]
"""Description of each view, in display order."""
OWN_VIEWS: dict[str, str] = {}
"""Description of each view registered by users."""


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """Options of a view besides its texts: keywords of `gf.look` and flags of `look`."""

    layer: int | None = None
    head: int | None = None
    mode: str = MODES[0]
    position: int | None = None
    translation: str | None = None
    answer: str | None = None
    word: str | None = None
    anchors: str | None = None
    versus: str | Mapping[str, Any] | None = None
    second_run: Any = None
    links: str | None = None
    ablate_heads: str | None = None
    beam: int | None = None
    length_penalty: float = 1.0
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    samples: int | None = None
    tokens: int = 12


OPTIONS: dict[str, dict[str, Any]] = _TABLES["options"]
"""Options of `look` by name, as in `cli/verbs.toml`; `chooses` is the view that an option implies."""


def flag_of(name: str) -> str:
    """Return an option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def check_view(name: str) -> None:
    """Raise `Misuse` for an unknown view."""
    views = (*VIEWS, *OWN_VIEWS, ALL)
    if name not in views:
        raise Misuse(unknown("view", name, views))
