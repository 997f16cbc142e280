"""Pooling weights: the share of each token in the single vector of a text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability
from glassformer.bricks.pooling import FUNCTIONS, KnownPool
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.presets import IMAGE
from glassformer.data.wording import counted
from glassformer.inspection.capture import capture, numbers_of
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence, wording
from glassformer.models.capabilities import CountsTokens, PoolsTokens
from glassformer.rendering.panels import Panel, Table, Tokens
from glassformer.rendering.view import View
from glassformer.text.display import quoted

Weights = Float[Array, "T"]

POOL_TEXTS: Mapping[str, str] = wording("pools")
"""Description of each pool."""
EQUAL_SHARE = 1e-6
"""Weights that differ by at most this share of the largest weight count as equal."""
MAX_ROWS = 12
"""Maximum number of tokens in the table."""


@register_view("pooling", quick=True, needs=lambda loaded: loaded.capability(PoolsTokens) is not None)
def pooling(request: LookRequest) -> View:
    weights, how = token_weights(request.model, request.example.inputs)
    noun = "image" if request.loaded.config.data.kind == IMAGE else "text"
    return pooling_view(request.example.tokens, weights, how, noun)


def pool_kind(pool: nn.Module) -> str:
    """Return the name of a pool of this package; raise `Misuse` for a user's own pool."""
    if (known := capability(pool, KnownPool)) is None:
        names = ", ".join(FUNCTIONS)
        raise Misuse(f"{type(pool).__name__} is none of the pools that can be looked at: {names}, attention")
    return known.kind


def pooling_weights(
    pool: nn.Module, states: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B T"]:
    """Return the share of the pooled vector that comes from each token; padding has 0.

    The shares sum to 1, except in pools in which every token counts fully, such as `sum` and `flatten`.
    """
    kind = pool_kind(pool)
    real = states.new_ones(states.shape[:2], dtype=torch.bool) if mask is None else mask
    if kind == "attention":
        with capture(pool, ("weights",)) as seen:
            pool(states, mask)
        return seen["weights"]
    if kind == "flatten":
        return real.to(states.dtype)
    if kind == "max":
        hidden = states.masked_fill(~real.unsqueeze(-1), -torch.inf)
        taken = (hidden == hidden.amax(1, keepdim=True)) & real.unsqueeze(-1)
        # Tokens with equal maxima share a unit.
        return (taken / taken.sum(1, keepdim=True).clamp(min=1)).mean(-1).to(states.dtype)
    # The other pools are linear: pooling one-hot vectors of the positions returns the weight of each position.
    places = torch.eye(states.shape[1], dtype=states.dtype, device=states.device).expand(len(states), -1, -1)
    if kind == "ends":
        return pool(torch.cat([places, places], -1), mask).view(len(states), 2, -1).mean(1)
    return pool(places, mask)


@torch.inference_mode()
def token_weights(model: nn.Module, inputs: Sequence[Any]) -> tuple[Weights, str]:
    """Return the weight of each token of the first example, and the name of the pool or of a bag's weighting."""
    if (bag := capability(model, CountsTokens)) is not None:
        return numbers_of(bag.token_weights(*inputs)[0]), bag.weighting
    if (reader := capability(model, PoolsTokens)) is None:
        raise Misuse(f"{type(model).__name__} makes no single vector of a text: there is no pool to look at")
    states, mask = reader.token_states(*inputs)
    return numbers_of(pooling_weights(reader.pool, states, mask)[0]), pool_kind(reader.pool)


def pooling_view(tokens: Sequence[str], weights: Weights, how: str, noun: str = "text") -> View:
    """Return the weights of all tokens and a table of the largest.

    `how` is the name of the pool; `noun` says what the tokens form, a text or an image.
    """
    count = len(tokens)
    order = np.argsort(-weights, kind="stable").tolist()
    equal = bool(np.ptp(weights) <= EQUAL_SHARE * np.abs(weights).max())
    high = max(0.5, float(weights.max()))  # As in the attention views, small weights look pale.
    panels: list[Panel] = [
        Tokens(
            title="Weights",
            takeaway=leader("counts most", list(map(quoted, tokens)), weights),
            tokens=tokens,
            values=weights[None],
            names=("weight",),
            high=max(1.0, 4 * high) if equal else high,
        )
    ]
    if not equal:
        half = 1 + int(np.argmax(np.cumsum(weights[order]) >= weights.sum() / 2))
        panels.append(
            Table(
                title="what counts most",
                takeaway=f"{counted(half, 'token')} of {count} give half of it",
                columns=("token", "place", "weight"),
                rows=[(tokens[at], at, float(weights[at])) for at in order[:MAX_ROWS]],
                bars=("weight",),
            )
        )
    note = sentence("pooled", how=POOL_TEXTS.get(how, how), count=counted(count, "token"), even=weights.sum() / count)
    return View(f"How the {noun} becomes one vector: {how}", panels, note)
