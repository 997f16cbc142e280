"""A view: panels under one title, as a page, a picture or JSON.

Pictures need matplotlib, which is slow to import: drawing is imported where one is drawn.
"""

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS
from glassformer.rendering.page import page
from glassformer.rendering.panels import Panel
from glassformer.runs.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Renderable(ABC):
    """What can be saved, and shows itself in a notebook."""

    title: str

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All numbers, for programs."""

    @abstractmethod
    def page(self) -> str:
        """One HTML file that needs nothing else."""

    @abstractmethod
    def figure(self) -> "Figure":
        """A picture."""

    def save(self, path: str | Path) -> None:
        """Write it to a file: .html, .png, .svg, .pdf or .json, by its name's ending."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            write_text(path, self.page())
        elif ending == ".json":
            write_json(path, self.to_dict())
        elif ending in ENDINGS:
            from glassformer.rendering.drawing.picture import save

            save(self.figure(), path)
        else:
            raise Misuse(f"cannot write {path}: the name must end in {', '.join(ENDINGS)}")

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that a notebook's styles and the page's leave each other alone."""
        return (
            f'<iframe srcdoc="{html.escape(self.page())}" title="{html.escape(self.title)}" '
            'style="width:100%;height:640px;border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


@dataclass(frozen=True)
class View(Renderable):
    """Results, ready to be shown."""

    title: str
    panels: Sequence[Panel]
    note: str = ""
    """What it says, in a sentence or two."""
    about: str = ""
    """What it is a view of."""

    def to_dict(self) -> dict[str, Any]:
        texts = {"title": self.title, "note": self.note, "about": self.about}
        return {**texts, "panels": [panel.to_dict() for panel in self.panels]}

    def packed(self) -> dict[str, Any]:
        """All that the page draws."""
        return {"title": self.title, "note": self.note, "panels": [panel.packed() for panel in self.panels]}

    def page(self) -> str:
        return page([self.packed()], title=self.title, about=self.about)

    def figure(self) -> "Figure":
        from glassformer.rendering.drawing.picture import draw

        return draw(self.panels, title=self.title, note=self.note)


@dataclass(frozen=True)
class Views(Renderable):
    """Several views of one thing, on one page."""

    title: str
    views: Sequence[View]
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "about": self.about, "views": [view.to_dict() for view in self.views]}

    def page(self) -> str:
        return page([view.packed() for view in self.views], title=self.title, about=self.about)

    def figure(self) -> "Figure":
        raise Misuse(
            f"a picture holds one view, and there are {len(self.views)}: write .html, or choose one with --view"
        )
