"""How cost and memory grow with length, drawn: plain numbers by length, distance or position in, panels out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import fmean
from typing import Any

import numpy as np

from glassformer.experiments.crossing import crossings
from glassformer.experiments.curves import NAMES, Curve, Curves
from glassformer.experiments.request import MINUTES
from glassformer.rendering.panels import Line, Lines, Panel, Table, Words
from glassformer.rendering.takeaways import leading
from glassformer.rendering.view import View

MEASURED = {
    "multiplications": ("Counted: multiplications of a forward pass", "millions"),
    "forward": ("Forward pass", "milliseconds"),
    "step": ("Loss and gradients", "milliseconds"),
    "token": ("One more token after T", "milliseconds"),
    "kept": ("Kept for the gradients", "MB"),
    "state": ("Counted: kept to write on", "kB"),
}
"""What is measured or counted by length: its name, and the unit of its axis."""
COUNTED = ("state", "multiplications")
MORE = {
    "multiplications": "multiplies more",
    "forward": "takes longer",
    "step": "takes longer",
    "token": "takes longer",
    "kept": "keeps more",
    "state": "keeps more",
}
"""What is said of a model that has more of each."""
NOTES = {
    "step": "Of one text; the update that follows does not depend on T.",
    "token": "With what is kept of the T tokens before it.",
    "kept": "Fused attention never writes its T×T weights down: a Transformer's memory grows as T does.",
    "state": "What the next token needs of all before it, by the formulas.",
    "multiplications": "Attention over all T×T pairs; a kernel that skips the hidden ones makes half of these.",
}

GROWN, LEAST = 4, 3
"""Growth has set in where a number is so many times the smallest: below it, what every call costs would be fitted. So
many such lengths can tell a power from noise.
"""
LEARNED = 3
"""A model counts as undertrained if its mean score is below this multiple of a trivial baseline's."""
UNDERTRAINED = (
    " {who} undertrained: the mean over all lengths is {scores} after {updates:,} updates, against {baseline:.2f} for "
    "the baseline. Use --minutes {minutes:g} or more before you compare them."
)
ORDERS = ("the same", "T", "T²")


@dataclass(frozen=True)
class Counted:
    """What follows from a model's formulas, at one length."""

    weights: int
    serial: int
    """Layers and recurrent steps that must run one after the other."""
    additions: int
    """Additions that must run one after the other if every sum over tokens is a tree."""
    order: str
    """How the serial steps grow with the length."""
    path: int | None
    """Steps from the first token to the last output; None: no path."""
    reach: int | None
    """Tokens back that an output can depend on; None: all."""
    orders: Mapping[str, int]
    """The power of T with which each number grows in the end, by the names in MEASURED."""


@dataclass(frozen=True)
class Section:
    """A part of the whole: its panels, and what they say in a sentence or two."""

    panels: Sequence[Panel]
    finding: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """All numbers, for programs."""


def growth_view(sections: Sequence[Section], how: str) -> View:
    """All parts under one title. `how`: on what it was measured, and how often."""
    findings = Words(title="In short", text="\n\n".join(section.finding for section in sections))
    panels = [panel for section in sections for panel in section.panels]
    return View("Growth with length", [findings, *panels], note=how)


def power(curve: Curve) -> float:
    """p of y ~ x^p: the slope of log y over log x, fitted where growth has set in; NaN: too short to tell."""
    pairs, least = list(zip(curve.x, curve.y, strict=True)), GROWN * min(curve.y)
    grown = list(takewhile(lambda pair: pair[1] >= least, reversed(pairs)))
    if len(grown) < LEAST:
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


def time_section(curves: Mapping[str, Curves], counted: Mapping[str, Counted], stopped: Mapping[str, str]) -> Section:
    """`curves`: by the names in MEASURED, then by model. `counted`: at the longest length. `stopped`: why, if early."""
    models = list(counted)
    charts = [
        Lines(
            title=title,
            takeaway=crossings(curves[what], MORE[what]),
            series=[Line(name=NAMES[model], x=curve.x, y=curve.y, dots=True) for model, curve in curves[what].items()],
            x_name="T, tokens of the text",
            y_name=unit,
            log_x=True,
            log_y=True,
            note=NOTES.get(what, ""),
        )
        for what, (title, unit) in MEASURED.items()
    ]
    told = {
        what: {
            model: doubling(curves[what][model], counted[model].orders[what], counted=what in COUNTED)
            for model in models
        }
        for what in MEASURED
    }
    fitted = Table(
        title="When the text doubles",
        columns=["model", *(title for title, _ in MEASURED.values())],
        rows=[[NAMES[model], *(told[what][model] for what in MEASURED)] for model in models],
        note="A factor, the power of T that it stands for, and the power that the formulas have for long texts. Fitted "
        f"where growth has set in: to {LEAST} lengths at least that take {GROWN} times the least. Below that, what "
        "every call costs hides how it grows, and what was measured between the last two lengths stands here.",
    )
    longest = max(curve.x[-1] for curve in curves["forward"].values())
    table = Table(
        title=f"Counted, at T = {longest:,.0f}",
        columns=[
            "model",
            "weights",
            "serial steps",
            "serial additions",
            "serial steps grow as",
            "path from first to last",
            "reaches back",
        ],
        rows=[
            [
                NAMES[model],
                counts.weights,
                counts.serial,
                counts.additions,
                counts.order,
                "none" if counts.path is None else counts.path,
                _back(counts.reach),
            ]
            for model, counts in counted.items()
        ],
        note="Serial steps: layers and recurrent steps that no number of processors can run in parallel. "
        "Serial additions: every sum over tokens is taken as a tree, so n inputs need ⌈log₂ n⌉ additions. Attention "
        "and mean pooling sum T vectors this way; an RNN adds its inputs one after the other, in T steps. The path of "
        "a CNN is the number of layers it would need.",
    )
    early = "".join(f" {NAMES[model]}: {why}." for model, why in stopped.items())
    finding = (
        f"When the text doubles, loss and gradients take: {_listed(told['step'])}. "
        f"One more token takes: {_listed(told['token'])}.{early}"
    )
    return Section([table, *charts, fitted], finding)


def gradient_section(curves: Curves, reaches: Mapping[str, int | None]) -> Section:
    """`curves`: the gradient's size k tokens back, as a part of that at the last token; 0 cannot be drawn."""
    furthest = int(max(curve.x[-1] for curve in curves.values()))
    marks = [mark for mark in (1, 4, 16, 64, 256, 1024) if mark < furthest]
    chart = Lines(
        title="The gradient that reaches a token k back",
        takeaway=leading(
            [NAMES[model] for model in curves],
            [curve.y[furthest] for curve in curves.values()],
            {
                "one": "{name} has most of it left, {furthest:,} tokens back ({number})",
                "several": "{name} have most of it left, {furthest:,} tokens back ({number} each)",
                "all": "As much is left of all, {furthest:,} tokens back ({number})",
                "alone": "{name} has most of it left, {furthest:,} tokens back: {number}",
            },
            furthest=furthest,
        ),
        series=[
            Line(
                name=NAMES[model],
                x=[x for x, y in zip(curve.x, curve.y, strict=True) if y > 0],
                y=[y for y in curve.y if y > 0],
            )
            for model, curve in curves.items()
        ],
        x_name="k, tokens back",
        y_name="of the gradient at k = 0",
        log_y=True,
        note="Before training, weights by Xavier's rule or torch's. Where a line ends, nothing arrives.",
    )
    table = Table(
        title="What is left of the gradient",
        columns=["model", *(f"k = {mark:,}" for mark in [*marks, furthest])],
        rows=[
            [NAMES[model], *(small(curve.y[mark]) for mark in [*marks, furthest])] for model, curve in curves.items()
        ],
    )
    left = {
        model: f"{small(curve.y[furthest])}{'' if curve.y[furthest] else f' (it reads {_back(reaches[model])} back)'}"
        for model, curve in curves.items()
    }
    return Section(
        [chart, table], f"Of the gradient at the last token, {furthest:,} tokens back arrive: {_listed(left)}."
    )


def recall_section(curves: Curves, *, updates: int, asked: int, chance: float) -> Section:
    """`curves`: the part of the questions that is answered rightly, by distance."""
    distances = [float(x) for x in next(iter(curves.values())).x]
    by_chance = Line(name="chance", x=distances, y=[chance] * len(distances), faint=True)
    chart = Lines(
        title="Remembered over a distance",
        takeaway=leading(
            [NAMES[model] for model in curves],
            [curve.y[-1] for curve in curves.values()],
            {
                "one": "{name} remembers most over {pairs:,.0f} pairs ({number})",
                "several": "{name} remember most over {pairs:,.0f} pairs ({number} each)",
                "all": "All remember as much over {pairs:,.0f} pairs ({number})",
                "alone": "{name} remembers most over {pairs:,.0f} pairs: {number}",
            },
            pairs=distances[-1],
        ),
        series=[
            *(Line(name=NAMES[model], x=curve.x, y=curve.y, dots=True) for model, curve in curves.items()),
            by_chance,
        ],
        x_name="other pairs in between",
        y_name="answered rightly",
        log_x=True,
        note=f"k7 … ?k: which digit came with the letter? {updates:,} updates for each model, all distances mixed; "
        f"{asked:,} new rows of each distance. The pair asked for stands first: it must be kept, not searched for.",
    )
    table = Table(
        title="Answered rightly, by distance",
        columns=["model", *(f"{x:,.0f}" for x in distances)],
        rows=[[NAMES[model], *curve.y] for model, curve in curves.items()],
        bars=[f"{x:,.0f}" for x in distances],
    )
    last = _listed({model: f"{curve.y[-1]:.2f}" for model, curve in curves.items()})
    return Section(
        [chart, table],
        f"After {updates:,} updates, with {distances[-1]:,.0f} other pairs in between, so much is remembered: {last}; "
        f"chance is {chance:.2f}.",
    )


def beyond_section(losses: Mapping[str, Sequence[float]], *, context: int, updates: int) -> Section:
    """`losses`: at each position, by the kind of positions in words; one that ends at the context has none beyond."""
    width = max(1, context // 4)
    curves = {kind: _stretches(values, width) for kind, values in losses.items()}
    heights = [y for curve in curves.values() for y in curve.y]
    beyond = {kind: float(np.mean(values[-context // 2 :])) for kind, values in losses.items() if len(values) > context}
    border = Line(name="length of training", x=[context, context], y=[min(heights), max(heights)], faint=True)
    chart = Lines(
        title="Beyond the length of training",
        takeaway=leading(
            [f"{kind} positions" for kind in beyond],
            [-loss for loss in beyond.values()],
            {
                "one": "{name} have the lowest loss beyond it",
                "several": "{name} have the lowest loss beyond it",
                "all": "All have the same loss beyond it",
                "alone": "{name} have the lowest loss beyond it",
                "none": "No positions continue beyond it",
            },
        ),
        series=[*(Line(name=kind, x=curve.x, y=curve.y, dots=True) for kind, curve in curves.items()), border],
        x_name="position in the text",
        y_name="loss, nats per character",
        note=f"Transformers that differ in their positions alone, {updates:,} updates on texts of {context:,} "
        f"characters; means over {width:,} positions.",
    )
    within = {kind: float(np.mean(values[context // 2 : context])) for kind, values in losses.items()}
    last = {
        kind: float(np.mean(values[-context // 2 :])) if len(values) > context else "has no vector there"
        for kind, values in losses.items()
    }
    longest = max(map(len, losses.values()))
    table = Table(
        title="Loss within and beyond",
        columns=[
            "positions",
            f"positions {context // 2:,} to {context:,}",
            f"the last {context // 2:,} of {longest:,}",
        ],
        rows=[[kind, within[kind], last[kind]] for kind in losses],
    )
    told = "; ".join(
        f"{kind} {within[kind]:.2f} → {end if isinstance(end, str) else f'{end:.2f}'}" for kind, end in last.items()
    )
    return Section(
        [chart, table], f"Loss at the end of the trained length, and at {longest // context}× of it: {told}."
    )


def attention_section(letters: Curves, exact: Curves, *, updates: int, baseline: float, minutes: float) -> Section:
    """Show right letters and right answers by length of the source, with attention and without.

    `baseline`: the share of right letters of a baseline that always writes the most frequent letter.
    """
    longest = max(curve.x[-1] for curve in letters.values())
    lengths = [min(curve.x[0] for curve in letters.values()), longest]
    trivial = Line(name="most frequent letter", x=lengths, y=[baseline] * 2, faint=True)
    charts = [
        Lines(
            title=title,
            takeaway=_at_the_end(curves),
            series=[
                *(Line(name=kind, x=curve.x, y=curve.y, dots=True) for kind, curve in curves.items()),
                *([trivial] if curves is letters else []),
            ],
            x_name="letters of the source",
            y_name=what,
            note=f"An LSTM writes letters backwards, {updates:,} updates each.",
        )
        for title, what, curves in (
            ("Right letters, by length of the source", "letters in their place", letters),
            ("Right answers, by length of the source", "answers without a mistake", exact),
        )
    ]
    last = ", ".join(f"{kind} {curve.y[-1]:.2f}" for kind, curve in letters.items())
    means = {kind: fmean(curve.y) for kind, curve in letters.items()}
    finding = (
        f"Share of correct letters when writing {longest:,.0f} letters backwards: {last}; always writing the most "
        f"frequent letter gets {baseline:.2f}."
    )
    return Section(charts, finding + _untrained(means, baseline, updates, minutes))


def _untrained(means: Mapping[str, float], baseline: float, updates: int, minutes: float) -> str:
    """Say which models learned little: their mean score is below LEARNED times the trivial baseline."""
    weak = [name for name, mean in means.items() if mean < LEARNED * baseline]
    if not weak:
        return ""
    who = "Both are" if len(weak) == 2 else f"The LSTM {weak[0]} is"
    scores = " and ".join(f"{means[name]:.2f}" for name in weak)
    return UNDERTRAINED.format(
        who=who,
        scores=scores,
        updates=updates,
        baseline=baseline,
        minutes=MINUTES if minutes < MINUTES else 2 * minutes,
    )


def _at_the_end(curves: Curves) -> str:
    ends = ", ".join(f"{kind} {curve.y[-1]:.2f}" for kind, curve in curves.items())
    return f"At {max(curve.x[-1] for curve in curves.values()):,.0f} letters: {ends}"


def _stretches(values: Sequence[float], width: int) -> Curve:
    """Means over stretches of so many positions, each at its middle."""
    several = len(values) // width
    means = np.asarray(values[: several * width]).reshape(several, width).mean(1)
    return Curve([width * (place + 0.5) for place in range(several)], means.tolist())


def _listed(values: Mapping[str, str]) -> str:
    return "; ".join(f"{NAMES[model]} {value}" for model, value in values.items())


def _back(reach: int | None) -> str:
    return "all" if reach is None else f"{reach:,} tokens"


def small(value: float) -> str:
    return "nothing" if value == 0 else f"{value:.2g}"
