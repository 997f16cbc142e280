"""A model that says something of a text: raw text in, labels or numbers out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from torch import nn

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


@dataclass(frozen=True)
class Predictor:
    """A classifier or regressor with its tokenizer: raw text in, answers out."""

    model: nn.Module
    tokenizer: Tokenizer
    answers: Answers
    context: int
    framed: bool
    """START and END stand around each text."""

    @overload
    def predict(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def predict(self, texts: Sequence[str]) -> list[Prediction]: ...
    def predict(self, texts: str | Sequence[str]) -> Prediction | list[Prediction]:
        """What the model says of a text, or of each of several."""
        if isinstance(texts, str):
            return self.predict([texts])[0]
        unanswered = np.zeros(len(texts), np.int64)
        examples = encode_examples(texts, unanswered, self.tokenizer, context=self.context, framed=self.framed)
        scores = score(self.model, examples, self.answers.outputs)
        if not isinstance(self.answers, Classes):
            values = self.answers.values(scores).tolist()
            return [Prediction(text, value=value) for text, value in zip(texts, values, strict=True)]
        names = self.answers.names
        rows = [dict(zip(names, row, strict=True)) for row in self.answers.probabilities(scores.double()).tolist()]
        return [Prediction(text, max(row, key=row.__getitem__), row) for text, row in zip(texts, rows, strict=True)]
