"""What the checks must know of a training beside its log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, REGRESSION, TRANSLATION
from glassformer.config.resolve import Config

JUDGED = {LANGUAGE_MODEL: "loss", CLASSIFICATION: "accuracy", REGRESSION: "rmse", TRANSLATION: "chrf"}
"""By which metric weights are chosen."""
LOWER = ("loss", "rmse")
"""Those of which less is better."""


@dataclass(frozen=True)
class Patient:
    rate: float
    clip: float | None
    masked: bool
    primary: str
    guessing: float | None
    """The loss of guessing; None: it is not known."""
    guess: str
    """That in words."""
    numbers: bool
    """Numbers are learned, by squared errors."""

    @property
    def lower(self) -> bool:
        return self.primary in LOWER


def patient_of(config: Config, card: Mapping[str, Any]) -> Patient:
    guessing, guess = _guessing(config, card)
    return Patient(
        rate=config.training.lr or 0.0,
        clip=config.training.clip,
        masked=config.model.mask or config.task != LANGUAGE_MODEL or config.idle("model.mask") is not None,
        primary=JUDGED.get(config.task, "loss"),
        guessing=guessing,
        guess=guess,
        numbers=config.task == REGRESSION,
    )


def _guessing(config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
    """What guessing evenly costs, and why."""
    if config.task in (LANGUAGE_MODEL, TRANSLATION):
        tokens = (card.get("target_tokenizer") or card["tokenizer"])["vocab_size"]
        return math.log(tokens), f"ln of {tokens:,} tokens"
    if config.task == REGRESSION:
        return 1.0, "always the mean"
    labels, weights = card.get("labels"), config.training.class_weights
    if config.task != CLASSIFICATION or not isinstance(labels, list) or len(labels) < 2:
        return None, ""
    if weights not in (None, "balanced"):  # they make the loss larger or smaller
        return None, ""
    return math.log(len(labels)), f"ln of {len(labels):,} classes"
