"""The views of a run, by name: what each needs of it, what it can be asked, and how it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from glassformer.config.plugins import note_plugin
from glassformer.config.views import OPTIONS, VIEWS
from glassformer.families.base import Loaded
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.view import View

MODULES = (
    *(
        f"glassformer.inspection.views.{name}"
        for name in (
            "attention", "attribution", "head_ablation", "head_roles", "learning", "links", "logit_lens", "numbers",
            "pooling", "positions", "states", "tokens", "two_texts", "word_vectors",
        )
    ),
    "glassformer.reporting.report",
)  # fmt: skip
"""Where the views of `config.views` register themselves; imported when the first is asked for."""

MakeView = Callable[[LookRequest], View]

HEADS = ("layer", "head", "mode")
"""Options of what shows attention."""
DECODING = ("target", "beam")
"""Options of what shows a translation: what is to be written, or how the translator searches for it."""


@dataclass(frozen=True, kw_only=True)
class ViewKind:
    """A kind of view: what it shows, what it can be asked, which runs have it, and how it is made."""

    make: MakeView
    shows: str
    """What one sees, in a few words."""
    options: tuple[str, ...] = ()
    """Those of `LookOptions` that mean something to it."""
    texts: str = "one"
    """How many it is of: one, several, any number (without any, the validation part), or none."""
    quick: bool = False
    """Made of one text in a moment: part of the page of everything."""
    needs: Callable[[Loaded], bool] = lambda loaded: True
    """Whether a run has it."""
    otherwise: str = ""
    """What to say of a run that has it not, where its other views are no help."""
    aliases: tuple[str, ...] = ()
    """Names that it had before."""

    def __post_init__(self) -> None:
        for option in self.options:
            if option not in OPTIONS:
                raise ValueError(f"look has no option {option} (it has {', '.join(OPTIONS)})")


_REGISTERED: dict[str, ViewKind] = {}


def register_view(name: str, **facts: Any) -> Callable[[MakeView], MakeView]:
    """Make a view known by name: `gf.look(run, view=name)` calls the function that stands below this.

    `facts`: fields of `ViewKind`. One's own brings at least `shows` along; for ours, that stands in `config.views`.
    """
    if "shows" in facts and name in VIEWS:
        raise ValueError(f"there is a view {name} already: choose another name")
    if "shows" not in facts and name not in VIEWS:
        raise ValueError(f"register_view('{name}') needs shows=…: what does one see?")

    def register(make: MakeView) -> MakeView:
        _REGISTERED[name] = ViewKind(make=make, **{"shows": VIEWS.get(name), **facts})
        note_plugin(make.__module__)
        return make

    return register


def all_views() -> dict[str, ViewKind]:
    """Ours in the order of `config.views`, then those that somebody else registered."""
    for module in MODULES:
        import_module(module)
    return {name: _REGISTERED[name] for name in dict.fromkeys([*VIEWS, *_REGISTERED])}


def views_of(loaded: Loaded) -> list[str]:
    """The names of the views that a run has."""
    return [name for name, view in all_views().items() if view.needs(loaded)]
