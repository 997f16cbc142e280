"""Views in a terminal: what fits there, as text; pictures are for files."""

from collections.abc import Callable
from typing import Any

from rich.text import Text

from glassformer.cli.terminal.show import printable, results, table, visible
from glassformer.rendering.panels import Cell, Guesses, Panel, Table, Tokens
from glassformer.rendering.view import View, Views
from glassformer.text.display import visible as signs

MOST_ROWS = 24
STRONG = 0.35
"""The share of the largest value from which on a token is bold."""


def show_view(seen: View | Views) -> None:
    """Titles, notes and tables; of a page with several views each."""
    for view in seen.views if isinstance(seen, Views) else [seen]:
        results.print(Text(visible(printable(view.title)), style="bold"))
        if view.note:
            results.print(Text(view.note))
        for panel in view.panels:
            _show(panel)
        results.print()


def _show(panel: Panel) -> None:
    if panel.kind not in PRINTERS:
        return
    if panel.title:
        results.print(Text(f"\n{panel.title}", style="italic"))
    results.print(PRINTERS[panel.kind](panel))
    if panel.note:
        results.print(Text(printable(panel.note), style="dim"))


def _table(panel: Table) -> object:
    made = table(*panel.columns)
    for row in panel.rows[:MOST_ROWS]:
        made.add_row(*(_cell(value) for value in row))
    if len(panel.rows) > MOST_ROWS:
        made.add_row(f"… {len(panel.rows) - MOST_ROWS:,} more")
    return made


def _cell(value: Cell) -> Text:
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    return Text("" if value is None else f"{value:,}" if isinstance(value, int) else visible(printable(value)))


def _tokens(panel: Tokens) -> Text:
    """The tokens for each row of values; the strongest bold, below 0 in another colour."""
    out = Text()
    for name, values in zip(panel.names, panel.values, strict=True):
        largest = max((abs(float(value)) for value in values if value == value), default=0.0) or 1.0
        out.append(f"{name}: " if name else "")
        for token, value in zip(panel.tokens, values, strict=True):
            share = float(value) / largest if value == value else 0.0
            style = ("bold dark_orange" if share < 0 else "bold blue") if abs(share) >= STRONG else ""
            out.append(visible(printable(token)), style=style)
            out.append("" if token.endswith(" ") or token.startswith(" ") else " ")
        out.append("\n")
    out.rstrip()
    return out


def _last_guesses(panel: Guesses) -> object:
    """What the last layer says after each token, or at it."""
    made = table("at" if panel.at else "after", "expects", "probability", "second", "")
    for token, guesses, chances in zip(panel.tokens, panel.guesses[-1], panel.probabilities[-1], strict=True):
        second = (guesses[1], f"{chances[1]:.2f}") if len(guesses) > 1 else ("", "")
        made.add_row(*map(Text, (_sign(token), _sign(guesses[0]), f"{chances[0]:.2f}", _sign(second[0]), second[1])))
    return made


def _sign(token: str) -> str:
    return signs(printable(token))


PRINTERS: dict[str, Callable[[Any], object]] = {
    "table": _table,
    "tokens": _tokens,
    "words": lambda panel: Text(printable(panel.text)),
    "guesses": _last_guesses,
}
"""What makes text of a panel, by its kind; other kinds are for pages and pictures."""
