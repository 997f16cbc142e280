"""Capabilities of runs. The classes of loaded runs declare them, and `run.capability(…)` looks them up."""

from collections.abc import Sequence
from typing import Any, Protocol

from glassformer.bricks.capabilities import Capability
from glassformer.tasks.answers import Answers


class Generates(Capability, Protocol):
    """A run that continues a text."""

    def generate(self, prompt: str = "", **how: Any) -> str:
        """Return the text that follows the prompt."""

    def probabilities(self, text: str | Sequence[int], k: int = 5) -> Sequence[Any]:
        """Return the tokens that the model expects at each position of a text."""


class Translates(Capability, Protocol):
    """A run that translates texts."""

    def translate(self, *args: Any, **more: Any) -> Any:
        """Return the translations of a text, or of each of several."""


class Labels(Capability, Protocol):
    """A run that predicts a class, several labels or a number."""

    answers: Answers | None
    """Conversion of scores to labels or numbers; None if it is unknown outside the run."""

    def predict(self, *args: Any, **more: Any) -> Any:
        """Return the prediction for an example, or for each of several."""


class Fills(Capability, Protocol):
    """A run that predicts hidden tokens."""

    def fill(self, *args: Any, **more: Any) -> Any:
        """Return the likeliest tokens for each MASK of a text, or of each of several."""


class Embeds(Capability, Protocol):
    """A run that has a vector for each example."""

    def embed(self, texts: Any, *, tokens: bool = False) -> Any:
        """Return the vector of an example, or of each of several."""
