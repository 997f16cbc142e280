"""Curves by length, distance or position: fitted powers, crossings, and the sections of the `scaling` report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, takewhile
from typing import Any, NamedTuple

import numpy as np

from glassformer.config.sentences import sentence as read_sentence
from glassformer.rendering.panels import Line, Lines, Panel, Table, Words
from glassformer.rendering.view import View

NAMES = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "cnn": "CNN", "window": "window", "transformer": "Transformer"}

sentence = partial(read_sentence, __name__)


@dataclass(frozen=True)
class Curve:
    """Numbers of one model."""

    x: Sequence[float]
    y: Sequence[float]


Curves = Mapping[str, Curve]
"""Curves by model name."""


@dataclass(frozen=True)
class Section:
    """Result of one part: panels, and the finding in one or two sentences."""

    panels: Sequence[Panel]
    finding: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """All numbers of the part, for JSON output."""


def growth_view(sections: Sequence[Section], how: str) -> View:
    """Return the view of all parts. `how`: machine and number of the measurements."""
    findings = Words(title="In short", text="\n\n".join(section.finding for section in sections))
    panels = [panel for section in sections for panel in section.panels]
    return View("Growth with length", [findings, *panels], note=how)


def plain(curves: Curves) -> dict[str, dict[str, list[float]]]:
    """Return curves as JSON data."""
    return {name: {"x": list(curve.x), "y": list(curve.y)} for name, curve in curves.items()}


def named(name: str) -> str:
    """Return the display name of a model; other names are unchanged."""
    return NAMES.get(name, name)


def lines(curves: Curves, *, positive: bool = False, dots: bool = True) -> list[Line]:
    """Return a chart line per curve. `positive`: omit values that a logarithmic axis cannot show."""
    drawn = []
    for name, curve in curves.items():
        shown = [y > 0 or not positive for y in curve.y]
        drawn.append(Line(name=named(name), x=[*compress(curve.x, shown)], y=[*compress(curve.y, shown)], dots=dots))
    return drawn


def by_model(values: Mapping[str, str]) -> str:
    """Return the values by model as text, such as `RNN 0.25; Transformer 0.75`."""
    return "; ".join(f"{named(model)} {value}" for model, value in values.items())


def small(value: float) -> str:
    """Return a share, which may be very small, as text with two digits."""
    return "nothing" if value == 0 else f"{value:.2g}"


# --- time and memory by length ---


class Quantity(NamedTuple):
    """Quantity that depends on the length of the text."""

    title: str
    unit: str
    more: str
    """Verb for a model with larger values, such as `takes longer`."""
    note: str = ""
    """Name of the sentence below its chart; empty if there is none."""
    counted: bool = False
    """Whether it is computed by a formula instead of measured."""


MEASURED = {
    "multiplications": Quantity(
        "Counted: multiplications of a forward pass", "millions", "multiplies more", "note multiplications", True
    ),
    "forward": Quantity("Forward pass", "milliseconds", "takes longer"),
    "step": Quantity("Loss and gradients", "milliseconds", "takes longer", "note step"),
    "token": Quantity("One more token after T", "milliseconds", "takes longer", "note token"),
    "kept": Quantity("Kept for the gradients", "MB", "keeps more", "note kept"),
    "state": Quantity("Counted: kept to write on", "kB", "keeps more", "note state", True),
    "serial": Quantity("Counted: serial steps and additions", "steps", "waits longer", "note steps", True),
}
MIN_GROWTH, MIN_LENGTHS = 4, 3
"""A power is fitted to values of at least MIN_GROWTH times the smallest, at MIN_LENGTHS or more lengths."""
ORDERS = ("the same", "T", "T²")
ATTENTION = "transformer"


# --- fitting ---


def power(curve: Curve) -> float:
    """Return p of y ~ x^p: the slope of log y over log x where y grows; NaN if there are too few lengths."""
    pairs, least = list(zip(curve.x, curve.y, strict=True)), MIN_GROWTH * min(curve.y)
    grown = list(takewhile(lambda pair: pair[1] >= least, reversed(pairs)))
    if len(grown) < MIN_LENGTHS:
        return math.nan
    x, y = np.log(grown).T
    return float(np.polyfit(x, y, 1)[0])


def doubling(curve: Curve, order: int) -> str:
    """Return the growth per doubling of the length and the counted order: `×1.93 (~ T^0.95), counted T`."""
    p = power(curve)
    measured = "too short to tell" if math.isnan(p) else f"×{2**p:.2f} (~ T^{p:.2f})"
    return f"{measured}, counted {ORDERS[order]}"


def crossings(curves: Curves, more: str) -> str:
    """Return a sentence with the lengths from which the Transformer costs more than each of the other models.

    The sentence is empty without a Transformer or other models. `more`: the verb, such as "takes longer".
    """
    if ATTENTION not in curves or len(curves) == 1:
        return ""
    own = dict(zip(curves[ATTENTION].x, curves[ATTENTION].y, strict=True))
    parts = []
    for model, curve in curves.items():
        shared = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if x in own]
        above = [x for x, _ in takewhile(lambda pair: own[pair[0]] > pair[1], reversed(shared))]
        if model != ATTENTION:
            parts.append(f"the {NAMES[model]} {f'from {above[-1]:,.0f} tokens on' if above else 'at no length'}")
    return f"The {NAMES[ATTENTION]} {more} than {', than '.join(parts)}"


# --- charts and tables ---


def time_section(
    curves: Mapping[str, Curves], orders: Mapping[str, Mapping[str, int]], counted: Table, stopped: Mapping[str, str]
) -> Section:
    """Return the charts and the table of growth.

    `curves`: by quantity (a name in MEASURED), then by model. `orders`: power of T for long texts, by model, then by
    quantity. `stopped`: reason why a model has no longer texts, by model.
    """
    charts = [
        Lines(
            title=quantity.title,
            takeaway=crossings(curves[what], quantity.more),
            series=lines(curves[what]),
            x_name="T, tokens of the text",
            y_name=quantity.unit,
            log_x=True,
            log_y=True,
            note=sentence(quantity.note) if quantity.note else "",
        )
        for what, quantity in MEASURED.items()
    ]
    told = {
        what: {model: doubling(curves[what][model], order[what]) for model, order in orders.items()}
        for what in MEASURED
    }
    fitted = Table(
        title="When the text doubles",
        columns=["model", *(quantity.title for quantity in MEASURED.values())],
        rows=[[NAMES[model], *(told[what][model] for what in MEASURED)] for model in orders],
        note=sentence("note fitted", least=MIN_LENGTHS, grown=MIN_GROWTH),
    )
    early = "".join(f" {NAMES[model]}: {why}." for model, why in stopped.items())
    finding = sentence("finding time", step=by_model(told["step"]), token=by_model(told["token"]), stopped=early)
    return Section([counted, *charts, fitted], finding)


def reach_text(reach: int | None) -> str:
    """Return the number of tokens back that a model reads, as text."""
    return "all" if reach is None else f"{reach:,} tokens"
