"""The lens: what a model would say next if it stopped after each of its layers."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.inspection.layers import OUTPUT, vectors_by_layer
from glassformer.models.token_model import Seq2Seq, TokenModel


@dataclass(frozen=True)
class Lens:
    """After every layer and at each token: the likeliest next tokens, and how the one that did follow fares."""

    layers: list[str]
    ids: Int[Array, "L T k"]
    """Likeliest first."""
    probabilities: Float[Array, "L T k"]
    entropy: Float[Array, "L T"]
    """How undecided the model is, in nats."""
    ranks: Int[Array, "L T"]
    """Of the token that did follow; 1: the likeliest; 0: nobody knows what followed."""
    chances: Float[Array, "L T"]
    """Its probability, NaN where nobody knows."""

    def words(self, shown: Callable[[int], str]) -> list[list[list[str]]]:
        """The likeliest next tokens by name."""
        return [[[shown(id) for id in place] for place in layer] for layer in self.ids.tolist()]


class Next(NamedTuple):
    """The likeliest next tokens after the last."""

    ids: list[int]
    probabilities: Float[Array, "k"]
    entropy: float
    """Over all tokens, in nats."""


@torch.inference_mode()
def lens_of(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    most: int = 5,
    answers: Sequence[int | None] | None = None,
    never: Collection[int] = (),
) -> Lens:
    """The first example of a batch, seen through the lens; of a translator, what its decoder would say.

    `answers`: the token that follows each, None where nobody knows, as after the last ones if they are fewer; without
    them, the next token of the inputs. `never`: what is no answer, as START; it is left out of the likeliest, and all
    numbers stay the model's own.
    """
    written = _written(_able(model), inputs)
    follows = list(written[1:] if answers is None else answers)
    if len(follows) > len(written):
        raise ValueError(f"{len(follows)} answers for {len(written)} tokens")
    follows += [None] * (len(written) - len(follows))
    layers = []
    parts = []
    for name, scores in layer_scores(model, inputs):
        layers.append(name)
        parts.append(_read(scores, follows, most, never))
    ids, probabilities, entropy, ranks, chances = (np.stack(part) for part in zip(*parts, strict=True))
    return Lens(layers, ids, probabilities, entropy, ranks, chances)


@torch.inference_mode()
def layer_scores(model: nn.Module, inputs: Sequence[Any]) -> Iterator[tuple[str, Float[Tensor, "T V"]]]:
    """The scores after every layer, one layer at a time: they are large. The last are the model's own.

    A layer's vectors go through the last norm, if there is one, and through the head. Those of another width than the
    head reads are left out. What a decoder makes of its last layer is an `output` of its own.
    """
    model = _able(model)
    encoder, mask = _writer(model, inputs)
    vectors = vectors_by_layer(model, "decoder" if isinstance(model, Seq2Seq) else "encoder", inputs)
    output = vectors.pop()[1]
    last: Tensor | None = None
    for name, x in vectors:
        if x.shape[-1] == model.head.in_features:
            last = encoder.final_norm(x, mask)
            yield name, _scored(model, last)[0]
    if last is None or not torch.equal(last, output):
        yield OUTPUT, _scored(model, output)[0]


def _scored(model: TokenModel | Seq2Seq, x: Tensor) -> Tensor:
    """What the head says of vectors; that of a masked model may have a map of its own before it."""
    return model.head(model.ready(x) if isinstance(model, TokenModel) else x)


@torch.inference_mode()
def next_of(model: nn.Module, inputs: Sequence[Any], *, most: int = 10, never: Collection[int] = ()) -> Next:
    """What a language model, or a translator's decoder, would write after the last token; `never` as for `lens_of`."""
    model = _able(model)
    scores = model.head(model.features(*inputs)[0, -1:])
    ids, probabilities, entropy, _, _ = _read(scores, [None], most, never)
    return Next(ids[0].tolist(), probabilities[0], float(entropy[0]))


def _able(model: nn.Module) -> TokenModel | Seq2Seq:
    if not isinstance(model, TokenModel | Seq2Seq):
        raise Misuse(
            f"the lens needs a head that scores the next token, as language models and translators have one; "
            f"{type(model).__name__} has none"
        )
    return model


def _writer(model: TokenModel | Seq2Seq, inputs: Sequence[Any]) -> tuple[Encoder, Tensor | None]:
    """The encoder before the head, and the mask of what it reads."""
    place = 3 if isinstance(model, Seq2Seq) else 1
    mask = inputs[place] if len(inputs) > place else None
    return (model.decoder if isinstance(model, Seq2Seq) else model.encoder), mask


def _written(model: TokenModel | Seq2Seq, inputs: Sequence[Any]) -> list[int]:
    ids: list[int] = inputs[2 if isinstance(model, Seq2Seq) else 0][0].tolist()
    return ids


def _read(
    scores: Float[Tensor, "T V"], follows: Sequence[int | None], most: int, never: Collection[int]
) -> tuple[NDArray[Any], ...]:
    """Ids, probabilities, entropy, ranks and chances of one layer."""
    logs = scores.float().log_softmax(-1)
    left = logs.clone()
    left[:, list(never)] = -torch.inf
    best = left.topk(min(most, logs.shape[-1] - len(set(never))), -1)
    entropy = torch.special.entr(logs.exp()).sum(-1)
    known = torch.tensor([id is not None for id in follows], device=logs.device)
    answers = torch.tensor([id or 0 for id in follows], device=logs.device).unsqueeze(1)
    right = logs.gather(1, answers)
    ranks = (1 + (logs > right).sum(-1)).masked_fill(~known, 0)
    chances = right.squeeze(1).exp().masked_fill(~known, math.nan)
    return tuple(one.cpu().numpy() for one in (best.indices, best.values.exp(), entropy, ranks, chances))
