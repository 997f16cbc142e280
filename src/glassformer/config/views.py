"""What `look` can show and what it can be asked, known without torch. All else of a view is in its own file, in
`inspection/views/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from glassformer.config.errors import Misuse, unknown
from glassformer.config.presets import read_settings

ENDINGS = (".html", ".png", ".svg", ".pdf", ".json")
"""What views can be written as."""
ALL = "all"
MODES = ("heat", "lines", "all")
"""How attention is drawn."""

_TABLES = read_settings("views.toml")
VIEWS: dict[str, str] = _TABLES["views"]
"""What each shows, in the order in which they are offered."""
OWN_VIEWS: dict[str, str] = {}
"""What those show that a person has registered."""


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """What a view can be asked beside its texts: each field is a keyword of `gf.look` and a flag of `look`."""

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


@dataclass(frozen=True)
class OptionInfo:
    """An option of `look`: what its help says, and how its flag is read."""

    help: str
    metavar: str
    kind: type
    chooses: str | None = None
    """The view that is meant where none is named."""


def _kind(hint: Any) -> type:
    return next((kind for kind in (int, float) if kind in (hint, *get_args(hint))), str)


OPTIONS = {
    field.name: OptionInfo(kind=_kind(field.type), **_TABLES["options"][field.name]) for field in fields(LookOptions)
}


def flag_of(name: str) -> str:
    """Return an option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def check_view(name: str) -> None:
    """Refuse a name that is not a view's."""
    views = (*VIEWS, *OWN_VIEWS, ALL)
    if name not in views:
        raise Misuse(unknown("view", name, views))
