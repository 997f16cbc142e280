"""A view: panels under one title, as a page, a picture or JSON.

The page and the pictures know views; so they are imported where they are needed.
"""

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS
from glassformer.rendering.panels import Panel
from glassformer.runs.files import write_json, write_text, writing

PICTURES = (".png", ".svg", ".pdf")


class Shown(ABC):
    """What can be saved, and shows itself in a notebook."""

    title: str

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All numbers, for programs."""

    @abstractmethod
    def page(self) -> str:
        """As one HTML file that needs nothing else."""

    @abstractmethod
    def figure(self) -> Figure:
        """As a picture."""

    def save(self, path: str | Path) -> None:
        """To a file: .html, .png, .svg, .pdf or .json, by its name's ending."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            write_text(path, self.page())
        elif ending == ".json":
            write_json(path, self.to_dict())
        elif ending in PICTURES:
            from glassformer.rendering.drawing import save

            figure = self.figure()
            with writing(path):
                save(figure, path)
        else:
            raise Misuse(f"cannot write {path}: the name must end in {', '.join(ENDINGS)}")

    def _repr_html_(self) -> str:
        """In a frame of its own, so that a notebook's styles and the page's leave each other alone."""
        return (
            f'<iframe srcdoc="{html.escape(self.page())}" title="{html.escape(self.title)}" '
            'style="width:100%;height:640px;border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


@dataclass(frozen=True)
class View(Shown):
    """What was found, ready to be shown."""

    title: str
    panels: Sequence[Panel]
    note: str = ""
    """What it says, in a sentence or two."""
    about: str = ""
    """What it is a view of."""

    def to_dict(self) -> dict[str, Any]:
        said = {"title": self.title, "note": self.note, "about": self.about}
        return {**said, "panels": [panel.to_dict() for panel in self.panels]}

    def page(self) -> str:
        from glassformer.rendering.page import page

        return page([self], title=self.title, about=self.about)

    def figure(self) -> Figure:
        from glassformer.rendering.drawing import draw

        return draw(self)


@dataclass(frozen=True)
class Views(Shown):
    """Several views of one thing, on one page."""

    title: str
    views: Sequence[View]
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "about": self.about, "views": [view.to_dict() for view in self.views]}

    def page(self) -> str:
        from glassformer.rendering.page import page

        return page(self.views, title=self.title, about=self.about)

    def figure(self) -> Figure:
        raise Misuse(
            f"a picture holds one view, and there are {len(self.views)}: write .html, or choose one with --view"
        )
