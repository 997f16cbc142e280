"""Two texts side by side: the same words in another order, say, and whether a model can tell them apart.

Without positions, attention sees a set of words: every sum in it has the same terms, whatever their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.config.arrays import Array
from glassformer.encoders.base import Encoder
from glassformer.inspection.arrays import numbers_of
from glassformer.inspection.attention import SOURCE_ATTENTION, attention_of
from glassformer.inspection.capture import capture, layers_of
from glassformer.inspection.nearest import cosines
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.token_model import Seq2Seq

Vector = Float[Array, "d"]

ROUNDING = 1e-5
"""Scores that differ by no more than this share of the largest are equal: sums in another order round differently."""


@dataclass(frozen=True)
class Output:
    """What a model says of a text."""

    summary: str
    """All of it in a few words."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Those of labels or next tokens; empty: it does not choose among few."""
    cosine: float | None = None
    """Where vectors are what a model is for: that of this text's and the other's."""


@dataclass(frozen=True)
class Side:
    """One text, and what a model makes of it."""

    text: str
    tokens: Sequence[str]
    output: Output
    scores: Vector
    """Before any softmax."""
    layers: Sequence[tuple[str, Vector]]
    """After every layer, the mean of the tokens' vectors; at the end what the head reads."""
    attention: Float[Array, "L h T T"] | None = None
    ids: Sequence[int] = ()
    """The words among the tokens, which else are the names of columns or patches."""


@dataclass(frozen=True)
class Difference:
    """What differs between two sides."""

    largest: float
    """The largest difference between their scores."""
    rounding: float
    """A difference up to so much is none."""
    layers: Sequence[str]
    cosines: Sequence[float]
    distances: Sequence[float]
    """The distance between the two vectors after each layer, as a share of their mean length."""

    @property
    def apart(self) -> bool:
        """Whether the model can tell the two apart."""
        return self.largest > self.rounding


@torch.inference_mode()
def side_of(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    text: str,
    tokens: Sequence[str],
    output: Output,
    ids: Sequence[int] = (),
) -> Side:
    """The first example. A language model's scores are those of the next token, a translator's of the first."""
    encoder = getattr(model, "encoder", None)
    with capture(model, ("encoder.*", "*.vectors", "pool.output", "logits")) as seen:
        scores = model(*inputs)
    if scores.dim() == 3:
        scores = scores[:, 0 if isinstance(model, Seq2Seq) else -1]
    layers: list[tuple[str, Vector]] = []
    if isinstance(encoder, Encoder):
        layers = [(name, _mean(states)) for name, states in layers_of(seen, encoder, "encoder")]
    if isinstance(model, Predictor):
        layers.append(("pooled", numbers_of(seen["pool.output"][0])))
    elif isinstance(model, BagPredictor):
        layers.append(("pooled", numbers_of(model.features(*inputs)[0])))
    stacks = attention_of(model, inputs)
    weights = next((stacks[name] for name in SOURCE_ATTENTION if name in stacks), None)
    return Side(text, tokens, output, numbers_of(scores[0]), layers, weights, ids)


def compare_sides(a: Side, b: Side) -> Difference:
    """How far apart a model's scores and vectors of the two texts are."""
    alike, distances = [], []
    for (_, one), (_, other) in zip(a.layers, b.layers, strict=True):
        pair = np.stack([one, other]).astype(np.float64)
        alike.append(float(cosines(pair)[0, 1]))
        mean = np.linalg.norm(pair, axis=1).mean()
        distances.append(float(np.linalg.norm(pair[0] - pair[1]) / max(mean, np.finfo(float).tiny)))
    largest = max(1.0, float(np.abs(a.scores).max()), float(np.abs(b.scores).max()))
    return Difference(
        largest=float(np.abs(a.scores.astype(np.float64) - b.scores).max()),
        rounding=ROUNDING * largest,
        layers=[name for name, _ in a.layers],
        cosines=alike,
        distances=distances,
    )


def _mean(states: Float[Tensor, "B T d"]) -> Vector:
    return numbers_of(states[0].mean(0))
