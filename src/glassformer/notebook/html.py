"""HTML fragments for light and dark notebooks, with colours inherited from their surroundings."""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

LINE = "1px solid rgba(128, 128, 128, .35)"
TABLE = "border-collapse: collapse; margin: .3em 0; font-variant-numeric: tabular-nums"
ACCENT = "#3d8fd1"
"""A colour with sufficient contrast to white and to black."""


def bar(share: float | None, text: str) -> str:
    """Return a progress bar (0 to 1; None if unknown) with a text beside it."""
    width = 0 if share is None else round(100 * min(1.0, max(0.0, share)), 1)
    return (
        '<div style="display: flex; align-items: center; gap: .9em; font-variant-numeric: tabular-nums">'
        '<div style="flex: none; width: 15em; height: .55em; border-radius: 1em; overflow: hidden; '
        f'background: rgba(128, 128, 128, .28)"><div style="width: {width}%; height: 100%; '
        f'border-radius: 1em; background: {ACCENT}"></div></div>'
        f'<div style="white-space: pre-wrap">{html.escape(text)}</div></div>'
    )


def line(text: str) -> str:
    return f"<div>{html.escape(text)}</div>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a table: words in the first column, numbers or strings in the others."""
    head = "".join(_cell("th", name, place) for place, name in enumerate(columns))
    body = "".join(f"<tr>{''.join(_cell('td', cell, place) for place, cell in enumerate(row))}</tr>" for row in rows)
    below = f'<p style="opacity: .75; margin: .4em 0 0">{html.escape(note)}</p>' if note else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f'<table style="{TABLE}">{top}<tbody>{body}</tbody></table>{below}'


def facts(values: Mapping[str, object], note: str = "") -> str:
    """Return a table with a name and a value per row."""
    return table(("", ""), values.items(), note)


def shares(values: Iterable[tuple[str, float]]) -> str:
    """Return a table of named shares of a whole with bars."""
    rows = "".join(
        f"<tr>{_cell('td', name, 0)}{_cell('td', f'{share:.1%}', 0)}"
        f'<td style="border-bottom: {LINE}; min-width: 9em"><div style="width: {9 * share:.2f}em; min-width: 1px; '
        f'height: .7em; border-radius: 3px; background: {ACCENT}"></div></td></tr>'
        for name, share in values
    )
    return f'<table style="{TABLE}"><tbody>{rows}</tbody></table>'


def _cell(tag: str, value: object, place: int) -> str:
    words = place == 0 or (tag == "td" and isinstance(value, str))
    style = f"text-align: {'left' if words else 'right'}; padding: .2em .9em; border-bottom: {LINE}"
    return f'<{tag} style="{style}">{html.escape(_text(value))}</{tag}>'


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def frame(page: str, title: str) -> str:
    """Return the page in a frame, so that the styles of notebook and page do not interfere."""
    return (
        f'<iframe class="glassformer" srcdoc="{html.escape(page)}" title="{html.escape(title)}" '
        'style="width:100%;height:640px;border:0;border-radius:8px" sandbox="allow-scripts allow-downloads"></iframe>'
        f"<script>{_fit()}</script>"
    )


@cache
def _fit() -> str:
    return files(__package__).joinpath("frame.js").read_text("utf-8")
