"""A training as its log tells it: what the checks are made on, while it goes on or long after."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Line = Mapping[str, Any]
"""Of metrics.jsonl."""


@dataclass
class Story:
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    """How far through the budget each step began, 0 to 1."""
    norms: list[float] = field(default_factory=list)
    """Of the gradients, where they are known."""
    layers: list[dict[str, dict[str, float]]] = field(default_factory=list)
    """Sizes of gradients, weights and updates by layer, where they were measured."""
    validations: list[dict[str, Any]] = field(default_factory=list)

    def hear(self, line: Line) -> None:
        if line.get("event") == "step":
            self.steps.append(line["step"])
            self.losses.append(line["loss"])
            self.done.append(line.get("done", 0.0))
            if line.get("gradient_norm") is not None:
                self.norms.append(line["gradient_norm"])
            if line.get("layers"):
                self.layers.append(line["layers"])
        elif line.get("event") == "validation":
            self.validations.append(dict(line))

    @property
    def step(self) -> int:
        return self.steps[-1] if self.steps else 0
