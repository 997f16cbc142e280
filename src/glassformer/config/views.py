"""What `look` can show and what it can be asked, known without torch. All else of a view is in its own file, in
`inspection/views/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


OPTIONS: dict[str, dict[str, Any]] = _TABLES["options"]
"""The options of `look` by name, as `cli/verbs.toml` describes options; `chooses`: the view that an option implies."""


def flag_of(name: str) -> str:
    """Return an option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def check_view(name: str) -> None:
    """Refuse a name that is not a view's."""
    views = (*VIEWS, *OWN_VIEWS, ALL)
    if name not in views:
        raise Misuse(unknown("view", name, views))
