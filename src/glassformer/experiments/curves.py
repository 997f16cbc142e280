"""Numbers by length, distance or position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAMES = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "cnn": "CNN", "window": "window", "transformer": "Transformer"}


@dataclass(frozen=True)
class Curve:
    """One model's numbers."""

    x: Sequence[float]
    y: Sequence[float]


Curves = Mapping[str, Curve]
"""Curves by the model's name."""


def plain(curves: Curves) -> dict[str, dict[str, list[float]]]:
    """Curves, for programs."""
    return {name: {"x": list(curve.x), "y": list(curve.y)} for name, curve in curves.items()}
