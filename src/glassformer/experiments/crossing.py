"""Where the cost of attention crosses that of the others: in words, and counted layer against layer."""

from collections.abc import Mapping, Sequence

from glassformer.config.sections import ModelSettings
from glassformer.experiments.curves import NAMES, Curve, Curves
from glassformer.models.counting import layer_multiplications, serial_additions, serial_steps
from glassformer.rendering.panels import Line, Lines, Panel
from glassformer.rendering.takeaways import course, listed

ATTENTION = "transformer"
SHORTEST, LONGEST = 8, 64
"""Counted lengths: from the width divided by the one, to the width times the other."""


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


def crossings(curves: Curves, more: str, names: Mapping[str, str] = NAMES) -> str:
    """From which length on the Transformer costs more than each of the others: `The Transformer takes longer than the
    RNN from 512 tokens on`. `more`: takes longer, keeps more. Without a Transformer, who costs least in the end.
    """
    if len(curves) == 1:
        ((model, curve),) = curves.items()
        return f"{names[model]} {course(curve.y)}"
    if ATTENTION not in curves:
        ends = {model: curve.y[-1] for model, curve in curves.items()}
        first = [names[model] for model, end in ends.items() if end == min(ends.values())]
        return f"{listed(first, 9)} {'ends' if len(first) == 1 else 'end'} the lowest"
    told: dict[str, list[str]] = {}
    for model, curve in curves.items():
        if model != ATTENTION:
            told.setdefault(when_above(curves[ATTENTION], curve), []).append(names[model])
    parts = [f"the {listed(models, 9)} {when}" for when, models in told.items()]
    return f"The {names[ATTENTION]} {more} than {', than '.join(parts)}"


def counted_panels(models: Mapping[str, ModelSettings], width: int) -> list[Panel]:
    """A layer of each kind, all of one width, as lectures compare them; and the steps that wait for one another."""
    lengths = _doubling(max(2, width // SHORTEST), width * LONGEST)
    names = {model: "attention" if model == ATTENTION else NAMES[model] for model in models}
    layers = {
        model: Curve(lengths, [layer_multiplications(settings, width=width, tokens=int(T)) / 1e6 for T in lengths])
        for model, settings in models.items()
        if layer_multiplications(settings, width=width, tokens=1)
    }
    steps = {
        model: Curve(lengths, [serial_steps(settings, int(T)) + serial_additions(settings, int(T)) for T in lengths])
        for model, settings in models.items()
    }
    told = crossings(layers, "multiplies more", names)
    return [
        _chart(
            f"Counted: multiplications of one layer of width {width}",
            told.replace("The attention", "Attention"),
            layers,
            names,
            "millions",
            "Attention: 2·T²·d, scores and means; recurrent: 2·T·d² for each gate; convolution: k·T·d².",
        ),
        _chart(
            "Counted: serial steps and additions",
            _serial_takeaway(steps),
            steps,
            NAMES,
            "steps",
            "Layers, recurrent steps and additions that no number of processors can run in parallel. A sum "
            "of n inputs is a tree of ⌈log₂ n⌉ additions: attention takes O(1) + O(log T) steps, an RNN O(T).",
        ),
    ]


def _serial_takeaway(steps: Curves) -> str:
    """List the steps of each model at the longest text."""
    longest = next(iter(steps.values())).x[-1]
    counts = ", ".join(f"{NAMES[model]} {curve.y[-1]:,.0f}" for model, curve in steps.items())
    return f"Steps at {longest:,.0f} tokens: {counts}"


def _chart(title: str, takeaway: str, curves: Curves, names: Mapping[str, str], unit: str, note: str) -> Lines:
    series = [Line(name=names[model], x=curve.x, y=curve.y, dots=True) for model, curve in curves.items()]
    return Lines(title=title, takeaway=takeaway, series=series, x_name="T, tokens of the text", y_name=unit,
                 log_x=True, log_y=True, note=note)  # fmt: skip


def _doubling(first: int, last: int) -> Sequence[float]:
    out = [float(first)]
    while 2 * out[-1] <= last:
        out.append(2 * out[-1])
    return out
