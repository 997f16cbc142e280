"""Curves by length, distance or position, how charts show them, and the parts that a report of growth consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from glassformer.config.sentences import sentence as read_sentence
from glassformer.rendering.panels import Line, Panel, Words
from glassformer.rendering.takeaways import leading
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


def leader(part: str, values: Mapping[str, float], **facts: object) -> str:
    """Name the model with the largest value, in the words of `part` in the file of sentences."""
    does, do, even = (sentence(f"{part} {number}", **facts) for number in ("leads", "lead", "even"))
    return leading([named(name) for name in values], list(values.values()), does=does, do=do, even=even)


def by_model(values: Mapping[str, str]) -> str:
    """Return `RNN 0.25; Transformer 0.75`."""
    return "; ".join(f"{named(model)} {value}" for model, value in values.items())


def small(value: float) -> str:
    """Return two digits of a share that may be very small."""
    return "nothing" if value == 0 else f"{value:.2g}"
