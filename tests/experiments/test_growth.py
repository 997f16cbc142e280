"""Numbers by length as panels: fitted, listed and told."""

import math

import pytest

from glassformer.experiments.associative_recall import recall_section
from glassformer.experiments.cost import gradient_section
from glassformer.experiments.growth import (
    MEASURED,
    Curve,
    Section,
    crossings,
    doubling,
    growth_view,
    power,
    time_section,
)
from glassformer.experiments.variants import attention_section, beyond_section
from glassformer.rendering.panels import Line, Lines, Table, Words

LENGTHS = [64.0, 128.0, 256.0, 512.0]


def charts_of(section: Section) -> list[Lines]:
    return [panel for panel in section.panels if isinstance(panel, Lines)]


def tables_of(section: Section) -> list[Table]:
    return [panel for panel in section.panels if isinstance(panel, Table)]


def line(chart: Lines, name: str) -> Line:
    return next(one for one in chart.series if one.name == name)


# --- fitting ---


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_power_is_found(p: float) -> None:
    longer = [*LENGTHS, 1024.0]
    assert power(Curve(longer, [3 * x**p for x in longer])) == pytest.approx(p)


def test_only_where_growth_has_set_in_is_fitted() -> None:
    assert power(Curve([*LENGTHS, 1024.0], [50.0, 1.0, 4.0, 8.0, 16.0])) == pytest.approx(1)  # a slow first call
    overhead = Curve(LENGTHS, [1 + (x / 1000) ** 2 for x in LENGTHS])
    assert math.isnan(power(overhead))  # what every call costs is most of it
    longer = [*LENGTHS, 8192.0, 16384.0, 32768.0]
    assert power(Curve(longer, [1 + (x / 1000) ** 2 for x in longer])) == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize("lengths", [[64.0], [64.0, 512.0], [64.0, 128.0, 256.0, 512.0]])
def test_what_is_too_short_to_fit(lengths: list[float]) -> None:
    assert math.isnan(power(Curve(lengths, lengths)))
    assert power(Curve([*lengths, 4096.0, 8192.0, 16384.0], [*lengths, 4096.0, 8192.0, 16384.0])) == pytest.approx(1)


def test_growth_in_words() -> None:
    longer = [*LENGTHS, 1024.0, 2048.0]
    assert doubling(Curve(longer, [2.1**k for k in range(6)]), 1) == "×2.10 (~ T^1.07), counted T"
    slow = Curve(longer, [1.0, 1.0, 1.0, 1.0, 1.1, 1.32])
    assert doubling(slow, 2) == "too short to tell, counted T²"
    assert doubling(Curve([64], [1.0]), 0) == "too short to tell, counted the same"


# --- the parts ---


def test_time() -> None:
    lengths = [*LENGTHS, 1024.0]
    powers = {"rnn": 1.0, "transformer": 2.0}
    curves = {
        what: {model: Curve(lengths, [(number + 1) * x**p for x in lengths]) for model, p in powers.items()}
        for number, what in enumerate(MEASURED)
    }
    orders = {model: dict.fromkeys(MEASURED, int(p)) for model, p in powers.items()}
    counted = Table(columns=["model"], rows=[])
    section = time_section(curves, orders, counted, {"rnn": "stopped after T = 512"})
    charts, (table, fitted) = charts_of(section), tables_of(section)
    assert [chart.title for chart in charts] == [quantity.title for quantity in MEASURED.values()]
    assert [what for what, quantity in MEASURED.items() if quantity.title.startswith("Counted: ")] == [
        "multiplications",
        "state",
        "serial",
    ]
    assert all(chart.log_x and chart.log_y for chart in charts)
    assert charts[1].takeaway == "The Transformer takes longer than the RNN from 64 tokens on"
    assert "T×T weights" in charts[list(MEASURED).index("kept")].note
    assert line(charts[1], "Transformer").y == [2 * x**2 for x in lengths]
    assert fitted.rows == [
        ["RNN", *["×2.00 (~ T^1.00), counted T"] * 7],
        ["Transformer", *["×4.00 (~ T^2.00), counted T²"] * 7],
    ]
    assert table is counted
    assert (
        "gradients take: RNN ×2.00 (~ T^1.00), counted T; Transformer ×4.00 (~ T^2.00), counted T²." in section.finding
    )
    assert section.finding.endswith("RNN: stopped after T = 512.")
    short = {
        what: {model: Curve(one.x[:2], one.y[:2]) for model, one in found.items()} for what, found in curves.items()
    }
    section = time_section(short, orders, counted, {})
    assert "gradients take: RNN too short to tell, counted T;" in section.finding
    assert "T^" not in section.finding


def test_a_gradient_that_does_not_arrive_is_not_drawn() -> None:
    back = [float(k) for k in range(6)]
    curves = {"lstm": Curve(back, [1, 0.5, 0.25, 0.125, 0.1, 0.02]), "cnn": Curve(back, [1, 0.5, 0.3, 0, 0, 0])}
    section = gradient_section(curves, {"lstm": None, "cnn": 2})
    (chart,) = charts_of(section)
    assert chart.log_y
    assert (line(chart, "CNN").x, line(chart, "CNN").y) == ([0, 1, 2], [1, 0.5, 0.3])
    assert len(line(chart, "LSTM").x) == 6
    assert section.finding.endswith("5 tokens back arrive: LSTM 0.02; CNN nothing (it reads 2 tokens back).")


def test_recall() -> None:
    curves = {"rnn": Curve([1, 8], [1.0, 0.25]), "transformer": Curve([1, 8], [1.0, 0.75])}
    section = recall_section(curves, updates=30, asked=20, chance=0.1)
    (chart,) = charts_of(section)
    assert line(chart, "chance").y == [0.1, 0.1]
    assert line(chart, "RNN").y == [1.0, 0.25]
    assert "30 updates" in chart.note
    assert "20 new rows" in chart.note
    assert (
        "8 other pairs in between, so much is remembered: RNN 0.25; Transformer 0.75; chance is 0.10" in section.finding
    )


def test_positions_end_where_they_have_no_vector() -> None:
    losses = {"learned": [4.0, 3, 2, 2, 1, 1, 2, 4], "rotary": [float(k) for k in range(32)]}
    section = beyond_section(losses, context=8, updates=30)
    (chart,) = charts_of(section)
    assert (line(chart, "learned").x, line(chart, "learned").y) == ([1, 3, 5, 7], [3.5, 2, 1, 3])
    assert len(line(chart, "rotary").x) == 16
    border = line(chart, "length of training")
    assert (border.x, border.y) == ([8, 8], [0.5, 30.5])
    assert section.finding.endswith("at 4× of it: learned 2.00 → has no vector there; rotary 5.50 → 29.50.")


def test_attention() -> None:
    letters = {"with attention": Curve([2, 3], [1.0, 0.9]), "without": Curve([2, 3], [0.5, 0.4])}
    exact = {"with attention": Curve([2, 3], [1.0, 0.8]), "without": Curve([2, 3], [0.3, 0.0])}
    section = attention_section(letters, exact, updates=30, baseline=0.05, minutes=3)
    first, second = charts_of(section)
    assert line(first, "without").y == [0.5, 0.4]
    assert line(second, "without").y == [0.3, 0.0]
    assert line(first, "most frequent letter").y == [0.05, 0.05]
    assert section.finding == (
        "Share of correct letters when writing 3 letters backwards: with attention 0.90, without 0.40; always writing "
        "the most frequent letter gets 0.05."
    )


def test_findings_stand_before_everything() -> None:
    sections = [Section([Words(text="a")], "One."), Section([Words(text="b"), Words(text="c")], "Two.")]
    view = growth_view(sections, "on a machine")
    assert view.note == "on a machine"
    assert [panel.text for panel in view.panels if isinstance(panel, Words)] == ["One.\n\nTwo.", "a", "b", "c"]


# --- where attention crosses the others ---


def test_crossings_in_words() -> None:
    own = Curve(LENGTHS, [1.0, 5, 25, 100])
    others = {
        "rnn": Curve(LENGTHS, [10.0, 20, 24, 30]),
        "lstm": Curve(LENGTHS, [500.0] * 4),
        "cnn": Curve([32.0, *LENGTHS], [0.5] * 5),  # lengths that only one has do not count
        "gru": Curve(LENGTHS, [0.5, 0.5, 0.5, 200]),
    }
    assert crossings({**others, "transformer": own}, "takes longer") == (
        "The Transformer takes longer than the RNN from 256 tokens on, than the LSTM at no length, than the CNN from "
        "64 tokens on, than the GRU at no length"
    )
    assert crossings(others, "takes longer") == crossings({"transformer": own}, "takes longer") == ""
