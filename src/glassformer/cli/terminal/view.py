"""Print views in a terminal as far as they are text; pictures are for files."""

from collections.abc import Callable
from typing import Any

from rich.text import Text
from rich.tree import Tree as RichTree

from glassformer.cli.terminal.show import console, make_table, show_text, visible
from glassformer.rendering.panels import Cell, Chips, Guesses, Panel, Table, Tokens, Tree
from glassformer.rendering.view import View, Views
from glassformer.text.display import visible as signs

MOST_ROWS = 24
STRONG = 0.35
"""Share of the largest absolute value above which a token is bold."""


def show_view(page: View | Views) -> None:
    """Print titles, notes, tables, and the takeaways of panels that are pictures."""
    for view in page.views if isinstance(page, Views) else [page]:
        show_text(visible(view.title), "bold")
        if view.note:
            show_text(view.note)
        for panel in view.panels:
            _show(panel)
        show_text()


def _show(panel: Panel) -> None:
    printed = panel.kind in PRINTERS
    if (panel.title and printed) or panel.takeaway:
        show_text("\n" + ": ".join(filter(None, (panel.title, panel.takeaway))), "italic")
    if not printed:
        return
    console().print(PRINTERS[panel.kind](panel))
    if panel.note:
        show_text(panel.note, "dim")


def _table(panel: Table) -> object:
    rows = [[_cell(value) for value in row] for row in panel.rows[:MOST_ROWS]]
    more = [[f"… {len(panel.rows) - MOST_ROWS:,} more"]] if len(panel.rows) > MOST_ROWS else []
    return make_table(panel.columns, rows + more)


def _cell(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else visible(value)


def _tokens(panel: Tokens) -> Text:
    """Return the tokens for each row of values; strong values are bold, negative ones in another colour."""
    out = Text()
    for name, values in zip(panel.names, panel.values, strict=True):
        largest = max((abs(float(value)) for value in values if value == value), default=0.0) or 1.0
        out.append(f"{name}: " if name else "")
        for token, value in zip(panel.tokens, values, strict=True):
            share = float(value) / largest if value == value else 0.0
            style = ("bold dark_orange" if share < 0 else "bold blue") if abs(share) >= STRONG else ""
            out.append(visible(token), style=style)
            out.append("" if token.endswith(" ") or token.startswith(" ") else " ")
        out.append("\n")
    out.rstrip()
    return out


def _last_guesses(panel: Guesses) -> object:
    """Return a table of the last layer's predictions after (or at) each token."""
    rows = []
    for token, guesses, chances in zip(panel.tokens, panel.guesses[-1], panel.probabilities[-1], strict=True):
        best_two = zip(guesses[:2], chances, strict=False)
        rows.append([signs(token), *(text for guess, chance in best_two for text in (signs(guess), f"{chance:.2f}"))])
    return make_table(("at" if panel.at else "after", "expects", "probability", "second", ""), rows)


def _tree(panel: Tree) -> object:
    """Return the tree without pruned branches, which only pages show."""
    root = RichTree(Text(visible(panel.root)))
    grown: list[RichTree | None] = []
    for one in panel.branches:
        parent = root if one.parent is None else grown[one.parent]
        words = Text(f"{signs(one.token)} {one.probability:.2f}", style="bold blue" if one.fate == "chosen" else "")
        words.append(f"  {one.why}" if one.why else "", style="dim")
        grown.append(parent.add(words) if parent is not None and one.fate != "pruned" else None)
    return root


def _chips(panel: Chips) -> object:
    rows = [[name, "|".join(line)] for name, line in zip(panel.names, panel.lines, strict=True)]
    return make_table(("", "pieces"), rows)


PRINTERS: dict[str, Callable[[Any], object]] = {
    "table": _table,
    "tokens": _tokens,
    "chips": _chips,
    "words": lambda panel: panel.text,
    "guesses": _last_guesses,
    "choices": lambda panel: _table(panel.as_table()),
    "tree": _tree,
}
"""Functions that turn a panel into text, by kind of panel; other kinds are for pages and pictures."""
