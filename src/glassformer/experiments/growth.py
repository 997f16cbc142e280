"""Curves by length, distance or position: how they are drawn, what powers fit them, where they cross, and the parts
that a report of growth consists of.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from glassformer.config.sections import ModelSettings
from glassformer.config.sentences import sentence as read_sentence
from glassformer.config.sentences import sentences
from glassformer.models.counting import layer_multiplications, serial_additions, serial_steps
from glassformer.rendering.panels import Line, Lines, Panel, Table, Words
from glassformer.rendering.takeaways import course, leading, listed
from glassformer.rendering.view import View

NAMES = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "cnn": "CNN", "window": "window", "transformer": "Transformer"}

sentence = partial(read_sentence, __name__)


@dataclass(frozen=True)
class Curve:
    """One model's numbers."""

    x: Sequence[float]
    y: Sequence[float]


Curves = Mapping[str, Curve]
"""Curves by the model's name."""


@dataclass(frozen=True)
class Section:
    """A part of the whole: its panels, and what they say in a sentence or two."""

    panels: Sequence[Panel]
    finding: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """All numbers, for programs."""


def growth_view(sections: Sequence[Section], how: str) -> View:
    """Return all parts under one title. `how`: the machine of the measurements, and their number."""
    findings = Words(title="In short", text="\n\n".join(section.finding for section in sections))
    panels = [panel for section in sections for panel in section.panels]
    return View("Growth with length", [findings, *panels], note=how)


def plain(curves: Curves) -> dict[str, dict[str, list[float]]]:
    """Return curves as JSON stores them."""
    return {name: {"x": list(curve.x), "y": list(curve.y)} for name, curve in curves.items()}


def named(name: str) -> str:
    """Return the name of a model as people write it; any other name as it is."""
    return NAMES.get(name, name)


def lines(curves: Curves, *, positive: bool = False, dots: bool = True) -> list[Line]:
    """Return a line per curve. `positive`: without the values that a logarithmic axis cannot show."""
    drawn = []
    for name, curve in curves.items():
        points = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y > 0 or not positive]
        drawn.append(Line(name=named(name), x=[x for x, _ in points], y=[y for _, y in points], dots=dots))
    return drawn


def leader(topic: str, values: Mapping[str, float], **facts: object) -> str:
    """Name the model with the largest value, in the wording of `topic`."""
    wording: Any = sentences(__name__)[topic]
    return leading([named(name) for name in values], list(values.values()), wording, **facts)


def by_model(values: Mapping[str, str]) -> str:
    """Return `RNN 0.25; Transformer 0.75`."""
    return "; ".join(f"{named(model)} {value}" for model, value in values.items())


def small(value: float) -> str:
    """Return two digits of a share that may be very small."""
    return "nothing" if value == 0 else f"{value:.2g}"


# --- time and memory by length ---


class Quantity(NamedTuple):
    """A number by length of the text."""

    title: str
    unit: str
    more: str
    """The verb of a model that has more of it."""
    note: str = ""
    """The name of the sentence below its chart, if there is one."""
    counted: bool = False
    """Whether it follows from the formulas, without a measurement."""


MEASURED = {
    "multiplications": Quantity(
        "Counted: multiplications of a forward pass", "millions", "multiplies more", "note multiplications", True
    ),
    "forward": Quantity("Forward pass", "milliseconds", "takes longer"),
    "step": Quantity("Loss and gradients", "milliseconds", "takes longer", "note step"),
    "token": Quantity("One more token after T", "milliseconds", "takes longer", "note token"),
    "kept": Quantity("Kept for the gradients", "MB", "keeps more", "note kept"),
    "state": Quantity("Counted: kept to write on", "kB", "keeps more", "note state", True),
}
MIN_GROWTH, MIN_LENGTHS = 4, 3
"""Growth has set in where a number is so many times the smallest: below it, what every call costs would be fitted. So
many such lengths can tell a power from noise.
"""
ORDERS = ("the same", "T", "T²")
ATTENTION = "transformer"
SHORTEST, LONGEST = 8, 64
"""Counted lengths: from the width divided by the one, to the width times the other."""


@dataclass(frozen=True)
class Counted:
    """What follows from a model's formulas, at one length."""

    weights: int
    serial_steps: int
    """Layers and recurrent steps that must run one after the other."""
    serial_additions: int
    """Additions that must run one after the other if every sum over tokens is a tree."""
    order: str
    """How the serial steps grow with the length."""
    path_length: int | None
    """Steps from the first token to the last output; None: no path."""
    reach: int | None
    """Tokens back that an output can depend on; None: all."""
    orders: Mapping[str, int]
    """The power of T with which each number grows in the end, by the names in MEASURED."""


# --- fitting ---


def power(curve: Curve) -> float:
    """p of y ~ x^p: the slope of log y over log x, fitted where growth has set in; NaN: too short to tell."""
    pairs, least = list(zip(curve.x, curve.y, strict=True)), MIN_GROWTH * min(curve.y)
    grown = list(takewhile(lambda pair: pair[1] >= least, reversed(pairs)))
    if len(grown) < MIN_LENGTHS:
        return math.nan
    x, y = np.log(grown).T
    return float(np.polyfit(x, y, 1)[0])


def doubling(curve: Curve, order: int, *, counted: bool = False) -> str:
    """`×1.93 (~ T^0.95), counted T`; where growth has not set in, what was measured last: `×1.20 (1,024 → 2,048),
    too short to tell, counted T²`. What is `counted` itself has its last factor alone.
    """
    by_formula = f"counted {ORDERS[order]}"
    if len(curve.x) < 2:
        return by_formula
    last = f"×{curve.y[-1] / curve.y[-2]:.2f}"
    if counted:
        return f"{last}, in the end {ORDERS[order]}"
    p = power(curve)
    if not math.isnan(p):
        return f"×{2**p:.2f} (~ T^{p:.2f}), {by_formula}"
    measured = f"{last} ({curve.x[-2]:,.0f} → {curve.x[-1]:,.0f})"
    return f"{measured}, {'too short to tell, ' if order else ''}{by_formula}"


# --- where the cost of attention crosses that of the others ---


def when_above(a: Curve, b: Curve) -> str:
    """At which lengths `a` is above `b`, of those that both have: `from 512 tokens on`, `beyond 64 tokens`, where both
    are equal at 64, `at every length`, `at no length`.
    """
    other = dict(zip(b.x, b.y, strict=True))
    shared = [(x, y - other[x]) for x, y in zip(a.x, a.y, strict=True) if x in other]
    above = [difference > 0 for _, difference in shared]
    if all(above) or not any(above):
        return f"at {'every' if all(above) else 'no'} length"
    if not above[-1]:
        return "at some lengths, not at the end"
    first = max(place for place, higher in enumerate(above) if not higher) + 1
    before, difference = shared[first - 1]
    return f"beyond {before:,.0f} tokens" if difference == 0 else f"from {shared[first][0]:,.0f} tokens on"


def crossings(curves: Curves, more: str) -> str:
    """From which length on the Transformer costs more than each of the others: `The Transformer takes longer than the
    RNN from 512 tokens on`. `more`: takes longer, keeps more. Without a Transformer, who costs least in the end.
    """
    if len(curves) == 1:
        ((model, curve),) = curves.items()
        return f"{NAMES[model]} {course(curve.y)}"
    if ATTENTION not in curves:
        ends = {model: curve.y[-1] for model, curve in curves.items()}
        first = [NAMES[model] for model, end in ends.items() if end == min(ends.values())]
        return f"{listed(first, 9)} {'ends' if len(first) == 1 else 'end'} the lowest"
    told: dict[str, list[str]] = {}
    for model, curve in curves.items():
        if model != ATTENTION:
            told.setdefault(when_above(curves[ATTENTION], curve), []).append(NAMES[model])
    parts = [f"the {listed(models, 9)} {when}" for when, models in told.items()]
    return f"The {NAMES[ATTENTION]} {more} than {', than '.join(parts)}"


# --- charts and tables ---


def time_section(curves: Mapping[str, Curves], counted: Mapping[str, Counted], stopped: Mapping[str, str]) -> Section:
    """`curves`: by the names in MEASURED, then by model. `counted`: at the longest length. `stopped`: why, if early."""
    charts = [
        _chart(quantity.title, crossings(curves[what], quantity.more), curves[what], quantity.unit, quantity.note)
        for what, quantity in MEASURED.items()
    ]
    told = {
        what: {
            model: doubling(curves[what][model], counts.orders[what], counted=quantity.counted)
            for model, counts in counted.items()
        }
        for what, quantity in MEASURED.items()
    }
    fitted = Table(
        title="When the text doubles",
        columns=["model", *(quantity.title for quantity in MEASURED.values())],
        rows=[[NAMES[model], *(told[what][model] for what in MEASURED)] for model in counted],
        note=sentence("note fitted", least=MIN_LENGTHS, grown=MIN_GROWTH),
    )
    early = "".join(f" {NAMES[model]}: {why}." for model, why in stopped.items())
    finding = sentence("finding time", step=by_model(told["step"]), token=by_model(told["token"]), stopped=early)
    longest = max(curve.x[-1] for curve in curves["forward"].values())
    return Section([_counted_table(counted, longest), *charts, fitted], finding)


def _counted_table(counted: Mapping[str, Counted], longest: float) -> Table:
    rows = {
        model: {
            "weights": counts.weights,
            "serial steps": counts.serial_steps,
            "serial additions": counts.serial_additions,
            "serial steps grow as": counts.order,
            "path from first to last": "none" if counts.path_length is None else counts.path_length,
            "reaches back": reach_text(counts.reach),
        }
        for model, counts in counted.items()
    }
    return Table(
        title=f"Counted, at T = {longest:,.0f}",
        columns=["model", *next(iter(rows.values()))],
        rows=[[NAMES[model], *row.values()] for model, row in rows.items()],
        note=sentence("note counted"),
    )


def counted_panels(models: Mapping[str, ModelSettings], width: int) -> list[Lines]:
    """Compare one layer of each kind, all of one width, as lectures do; and the steps that wait for one another."""
    doublings = int(math.log2(width * LONGEST // max(2, width // SHORTEST)))
    lengths = [max(2, width // SHORTEST) * 2**number for number in range(doublings + 1)]
    layers = {
        model: Curve(lengths, [layer_multiplications(settings, width=width, tokens=T) / 1e6 for T in lengths])
        for model, settings in models.items()
        if layer_multiplications(settings, width=width, tokens=1)
    }
    steps = {
        model: Curve(lengths, [serial_steps(settings, T) + serial_additions(settings, T) for T in lengths])
        for model, settings in models.items()
    }
    cross = (
        crossings(layers, "multiplies more").replace("The Transformer", "Attention").replace("Transformer", "attention")
    )
    counts = ", ".join(f"{NAMES[model]} {curve.y[-1]:,.0f}" for model, curve in steps.items())
    of_layers = {"attention" if model == ATTENTION else model: curve for model, curve in layers.items()}
    return [
        _chart(f"Counted: multiplications of one layer of width {width}", cross, of_layers, "millions", "note layers"),
        _chart(
            "Counted: serial steps and additions",
            f"Steps at {lengths[-1]:,} tokens: {counts}",
            steps,
            "steps",
            "note steps",
        ),
    ]


def _chart(title: str, takeaway: str, curves: Curves, unit: str, note: str) -> Lines:
    return Lines(
        title=title,
        takeaway=takeaway,
        series=lines(curves),
        x_name="T, tokens of the text",
        y_name=unit,
        log_x=True,
        log_y=True,
        note=sentence(note) if note else "",
    )


def reach_text(reach: int | None) -> str:
    """Return how many tokens back a model reads."""
    return "all" if reach is None else f"{reach:,} tokens"
