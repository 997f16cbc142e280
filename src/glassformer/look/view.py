"""A view: panels under one title, as a page, a picture or JSON."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from glassformer.config.errors import Misuse
from glassformer.look.panels import Panel
from glassformer.runs.files import write_json, write_text

PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (".html", *PICTURES, ".json")


@dataclass(frozen=True)
class View:
    """What was found, ready to be shown. In a notebook it shows itself."""

    title: str
    panels: Sequence[Panel]
    note: str = ""
    """What it says, in a sentence or two."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for programs."""
        return {"title": self.title, "note": self.note, "panels": [panel.to_dict() for panel in self.panels]}

    def figure(self) -> Figure:
        """As a picture."""
        from glassformer.look.drawing import draw

        return draw(self)

    def page(self) -> str:
        """As one HTML file that needs nothing else."""
        from glassformer.look.page import page

        return page([self], title=self.title)

    def save(self, path: str | Path) -> None:
        """To a file: .html, .png, .svg, .pdf or .json, by its name's ending."""
        save_views([self], Path(path), title=self.title)

    def _repr_html_(self) -> str:
        """In a frame of its own, so that a notebook's styles and the page's leave each other alone."""
        return (
            f'<iframe srcdoc="{html.escape(self.page())}" title="{html.escape(self.title)}" '
            'style="width:100%;height:640px;border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


def save_views(views: Sequence[View], path: Path, *, title: str) -> None:
    """Several views in one file: all of them on a page or in JSON; a picture holds one."""
    from glassformer.look.page import page

    ending = path.suffix.lower()
    if ending == ".html":
        write_text(path, page(views, title=title))
    elif ending == ".json":
        write_json(path, views[0].to_dict() if len(views) == 1 else {"views": [view.to_dict() for view in views]})
    elif ending in PICTURES:
        if len(views) != 1:
            raise Misuse(f"a picture holds one view, and there are {len(views)}: write .html, or choose one")
        from glassformer.look.drawing import save

        save(views[0].figure(), path)
    else:
        raise Misuse(f"cannot write {path}: the name must end in {', '.join(ENDINGS)}")
