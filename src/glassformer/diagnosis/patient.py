"""What the checks must know of a training beside its log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.config.presets import (
    CLASSIFICATION,
    LANGUAGE_MODEL,
    MASKED,
    MULTILABEL,
    PACKED,
    REGRESSION,
    TRANSLATION,
)
from glassformer.config.resolve import Config
from glassformer.diagnosis.advice import Advice

JUDGED = {
    LANGUAGE_MODEL: "loss",
    MASKED: "loss",
    CLASSIFICATION: "accuracy",
    MULTILABEL: "micro_f1",
    REGRESSION: "rmse",
    TRANSLATION: "chrf",
}
"""By which metric weights are chosen."""
LOWER = ("loss", "rmse")
"""Those of which less is better."""


@dataclass(frozen=True)
class Patient:
    advise: Advice
    masked: bool
    primary: str
    guessing: float | None
    """The loss of guessing; None: it is not known."""
    guess: str
    """That in words."""
    numbers: bool
    """Numbers are learned, by squared errors."""
    weighted: bool
    """Classes weigh differently in training: the loss of a batch, unlike that of validation, is no plain mean."""
    begun: bool = False
    """It starts from what another run has learned: before its first update it may know much already."""

    @property
    def judges_first(self) -> bool:
        """The first loss can be set against that of guessing."""
        return self.guessing is not None and not self.weighted and not self.begun

    @property
    def lower(self) -> bool:
        return self.primary in LOWER


def patient_of(config: Config, card: Mapping[str, Any]) -> Patient:
    guessing, guess = _guessing(config, card)
    return Patient(
        advise=Advice(config, card.get("from", {}).get("new", ())),
        masked=config.model.causal_mask
        or config.task != LANGUAGE_MODEL
        or config.idle("model.causal_mask") is not None,
        primary=JUDGED[config.task],
        guessing=guessing,
        guess=guess,
        numbers=config.task == REGRESSION,
        weighted=config.training.class_weights is not None,
        begun=config.is_finetuned,
    )


def _guessing(config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
    """What guessing evenly costs, and why."""
    if config.task in (*PACKED, TRANSLATION):
        tokens = (card.get("target_tokenizer") or card["tokenizer"])["vocab_size"]
        return math.log(tokens), f"ln of {tokens:,} tokens"
    if config.task == REGRESSION:
        return 1.0, "always the mean"
    if config.task == MULTILABEL:
        return math.log(2), "ln of 2, for each label yes or no"
    labels = card.get("labels")
    if not isinstance(labels, list) or len(labels) < 2:
        return None, ""
    return math.log(len(labels)), f"ln of {len(labels):,} classes"
