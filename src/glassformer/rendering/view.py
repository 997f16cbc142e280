"""A view: panels under a title, as a page, a picture or JSON.

The page is self-contained: no server, no network, no other file. Pictures need matplotlib, which is slow to import, so
drawing code is imported on use.
"""

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from glassformer.config.errors import Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.views import ENDINGS
from glassformer.notebook.html import frame
from glassformer.rendering.panels import Panel
from glassformer.runs.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SCRIPTS = (
    "core", "colours", "formula", "weights", "stage", "heat", "heads", "head_lines", "texts", "charts", "pictures",
    "choices", "tree", "diagram", "tools", "start",
)  # fmt: skip
"""Files of the folder `viewer`, in dependency order."""

EXPORTED = (
    "Weights", "button", "clamp", "dark", "forget", "make", "mixColours", "paintNow", "panelOf", "repaint", "roving",
    "said", "share", "sharedScale", "svg", "thumbnail", "tools", "upTo", "visible",
)  # fmt: skip
"""Functions that other pages use."""

RULES = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: the page may only load what it contains."""


class Renderable(ABC):
    """A view, or a result with a view, that can be saved and displayed in a notebook."""

    @abstractmethod
    def to_dict(self) -> JsonObject:
        """Return all values for programs."""

    @abstractmethod
    def view(self) -> "View | Views":
        """Return the view."""

    def save(self, path: str | Path) -> None:
        """Write a .html, .png, .svg, .pdf or .json file, by the ending of its name."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            write_text(path, self.view().page())
        elif ending == ".json":
            write_json(path, self.to_dict())
        elif ending in ENDINGS:
            from glassformer.rendering.drawing.picture import save

            save(self.view().figure(), path)
        else:
            raise Misuse(f"cannot write {path}: the name must end in {', '.join(ENDINGS)}")

    def _repr_html_(self) -> str:
        """Return the page in a frame."""
        view = self.view()
        return frame(view.page(), view.title)


@dataclass(frozen=True)
class View(Renderable):
    """Panels with a title."""

    title: str
    panels: Sequence[Panel]
    note: str = ""
    """Summary in a sentence or two."""
    about: str = ""
    """Subject of the view."""

    def view(self) -> "View":
        return self

    def to_dict(self) -> JsonObject:
        texts = {"title": self.title, "note": self.note, "about": self.about}
        return {**texts, "panels": [panel.to_dict() for panel in self.panels]}

    def packed(self) -> JsonObject:
        """Return everything that the page draws."""
        return {"title": self.title, "note": self.note, "panels": [panel.packed() for panel in self.panels]}

    def page(self) -> str:
        """Return a self-contained HTML page."""
        return _page([self.packed()], title=self.title, about=self.about)

    def figure(self) -> "Figure":
        from glassformer.rendering.drawing.picture import draw

        return draw(self.panels, title=self.title, note=self.note)


@dataclass(frozen=True)
class Views(Renderable):
    """Several views of the same subject on one page."""

    title: str
    views: Sequence[View]
    about: str = ""

    def view(self) -> "Views":
        return self

    def to_dict(self) -> JsonObject:
        return {"title": self.title, "about": self.about, "views": [view.to_dict() for view in self.views]}

    def packed(self) -> JsonObject:
        """Return the views as the page draws them."""
        return {"title": self.title, "views": [view.packed() for view in self.views]}

    def page(self) -> str:
        return _page(self.packed()["views"], title=self.title, about=self.about)

    def figure(self) -> "Figure":
        raise Misuse(
            f"a picture holds one view, and there are {len(self.views)}: write .html, or choose one with --view"
        )


def _page(views: Sequence[Mapping[str, Any]], *, title: str, about: str = "") -> str:
    """Return the page of packed views; more than one of them are shown as tabs. `about` is the footer."""
    template, style, script = _viewer()
    data = json.dumps({"title": title, "views": views}, allow_nan=False, separators=(",", ":"))
    return Template(template).substitute(
        rules=RULES,
        title=_escaped(title),
        about=_escaped(about),
        style=style,
        data=data.replace("<", "\\u003c"),  # cannot end the script element, and is plain ASCII
        script=script,
    )


def viewer_style() -> str:
    """Return the style sheet of the viewer."""
    return _viewer()[1]


def viewer_module() -> str:
    """Return the viewer as a JavaScript module, for pages that draw panels themselves."""
    return f"{_viewer()[2]}\nexport {{ {', '.join(EXPORTED)} }};\n"


def _escaped(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())


@cache
def _viewer() -> tuple[str, str, str]:
    """Return the template, style sheet and script of the page."""
    folder = files("glassformer.rendering") / "viewer"
    template, style, *scripts = [
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", *(f"{one}.js" for one in SCRIPTS))
    ]
    return template, style, "\n".join(scripts)
