"""What the checks know of a training: the facts that stand before it begins, and what its log tells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.resolve import Config
from glassformer.diagnosis.advice import Advice
from glassformer.families.base import FAMILIES, Family

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


@dataclass(frozen=True)
class TrainingFacts:
    family: Family
    advise: Advice
    guessing: float | None
    """The loss of guessing; None: it is not known."""
    guess: str
    """That in words."""

    @property
    def causal(self) -> bool:
        """No token sees the one that it is to predict."""
        config = self.advise.config
        return config.model.causal_mask or config.idle("model.causal_mask") is not None

    @property
    def judges_first(self) -> bool:
        """The first loss can be set against that of guessing: no class weighs more than another in it, and the model
        did not start from what another run has learned.
        """
        config = self.advise.config
        return self.guessing is not None and config.training.class_weights is None and not config.is_finetuned


def training_facts(config: Config, card: Mapping[str, Any]) -> TrainingFacts:
    family, advise = FAMILIES[config.task], Advice(config, card.get("from", {}).get("new", ()))
    return TrainingFacts(family, advise, *family.chance_level(config, card))


@dataclass
class TrainingLog:
    """A training as its log tells it: what the checks are made on, while it goes on or long after."""

    step: int = 0
    """The last one."""
    losses: list[float] = field(default_factory=list)
    done: float = 0.0
    """How far through the budget a step began at most, 0 to 1."""
    norms: list[float] = field(default_factory=list)
    """Norms of the gradients, where they are known."""
    layers: list[dict[str, dict[str, float]]] = field(default_factory=list)
    """Sizes of gradients, weights and updates by layer, where they were measured."""
    validations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        if line.get("event") == "step":
            self.step = line["step"]
            self.losses.append(line["loss"])
            self.done = max(self.done, line.get("done", 0.0))
            if line.get("gradient_norm") is not None:
                self.norms.append(line["gradient_norm"])
            if line.get("layers"):
                self.layers.append(line["layers"])
        elif line.get("event") == "validation":
            self.validations.append(dict(line))
