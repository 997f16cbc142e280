"""What a trained model says of a text: labels or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.examples import encode_examples
from glassformer.tasks.answers import Answers, Classes
from glassformer.tasks.labelling import score
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prediction:
    """What a model says of a text: the likeliest label with the probability of each, or a number."""

    text: str
    label: str | None = None
    probabilities: dict[str, float] | None = None
    value: float | None = None

    @property
    def probability(self) -> float | None:
        """Of the label."""
        return None if self.probabilities is None else max(self.probabilities.values())

    def to_dict(self) -> dict[str, Any]:
        if self.probabilities is None:
            return {"text": self.text, "value": self.value}
        return {
            "text": self.text,
            "label": self.label,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }


def predict(
    model: nn.Module, tokenizer: Tokenizer, answers: Answers, config: Config, texts: Sequence[str], say: Say
) -> list[Prediction]:
    """Raw text in, answers out."""
    context, unanswered = config.model.context, np.zeros(len(texts), np.int64)
    examples = encode_examples(texts, unanswered, tokenizer, context=context, framed=config.framed)
    if examples.cut:
        say(f"{examples.cut:,} of {len(texts):,} texts are longer than {context:,} tokens and cut there")
    scores = score(model, examples, answers.outputs)
    if not isinstance(answers, Classes):
        return [
            Prediction(text, value=value) for text, value in zip(texts, answers.values(scores).tolist(), strict=True)
        ]
    rows = [dict(zip(answers.names, row, strict=True)) for row in answers.probabilities(scores.double()).tolist()]
    return [Prediction(text, max(row, key=row.__getitem__), row) for text, row in zip(texts, rows, strict=True)]
