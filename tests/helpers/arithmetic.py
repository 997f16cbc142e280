"""Reads the worked sentences of a view, and computes them again."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from glassformer.inspection.numbers import steps
from glassformer.rendering.panels import Grid, Panel
from glassformer.rendering.view import View
from helpers.support import ACTIVATIONS_WRITTEN_OUT

WORKED = re.compile(r"^(.+?) = (.+) = (\S+)$")

KNOWN: dict[str, Callable[..., Any]] = {
    **{name: ACTIVATIONS_WRITTEN_OUT[name] for name in ("tanh", "relu", "gelu", "sigmoid")},
    "gelu_tanh": ACTIVATIONS_WRITTEN_OUT["gelu-tanh"],
    "silu": ACTIVATIONS_WRITTEN_OUT["swiglu"],
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "max": max,
}


@pytest.fixture
def written_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """All digits and all terms, so that a sentence can be computed again exactly."""
    monkeypatch.setattr(steps, "DIGITS", 16)
    monkeypatch.setattr(steps, "MAX_TERMS", 10**6)


def computed(how: str) -> float:
    how = how.replace("·", "*").replace("−", "-").replace("²", "**2").replace("σ(", "sigmoid(")
    how = how.replace("gelu-tanh(", "gelu_tanh(")
    how = re.sub(r"√\(", "sqrt(", how)
    how = re.sub(r"√([\d.]+)", r"sqrt(\1)", how)
    how = re.sub(r"e\^(-?[\d.]+)", r"exp(\1)", how)
    how = re.sub(r"ln (\([^)]*\)|[\d.]+)", r"log(\1)", how)
    return float(eval(how, {"__builtins__": {}}, KNOWN))


def worked_lines(panel: Panel) -> Iterator[tuple[str, str, float]]:
    """What is worked out beneath a panel: its name, how, and the result."""
    for line in panel.note.splitlines():
        if found := WORKED.match(line):
            yield found[1], found[2], float(found[3].replace("−", "-"))


def check_sentences(view: View, least: int) -> None:
    """Every sentence is right, and there are at least so many; its result is a number of its panel."""
    count = 0
    for panel in view.panels:
        for name, how, result in worked_lines(panel):
            count += 1
            assert computed(how) == pytest.approx(result, rel=1e-6, abs=1e-7), f"{panel.title}: {name} = {how}"
            if isinstance(panel, Grid) and name != "mean loss" and not name.startswith("w₀"):
                near = np.abs(np.asarray(panel.values) - result).min()
                assert near < 1e-6, f"{panel.title}: {name} = {result} is not in it"
    assert count >= least, f"{count} sentences"


def grid_of(view: View, title: str) -> Grid:
    found = [panel for panel in view.panels if isinstance(panel, Grid) and panel.title == title]
    assert len(found) == 1, [panel.title for panel in view.panels]
    return found[0]


def holds(view: View, title: str, values: Any, tolerance: float = 1e-6) -> None:
    """The grid of this title shows just these numbers."""
    np.testing.assert_allclose(grid_of(view, title).values, np.asarray(values), atol=tolerance, rtol=1e-6)
