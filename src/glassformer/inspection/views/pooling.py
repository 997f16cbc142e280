"""How the vectors of a text become one: how much of it each token gives."""

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
"""What each pool does, in words."""
EQUAL_SHARE = 1e-6
"""Weights that differ by no more than this share of the largest are equal."""
MAX_ROWS = 12
"""Tokens in the table."""


@register_view("pooling", quick=True, needs=lambda loaded: loaded.capability(PoolsTokens) is not None)
def pooling(request: LookRequest) -> View:
    weights, how = token_weights(request.model, request.example.inputs)
    noun = "image" if request.loaded.config.data.kind == IMAGE else "text"
    return pooling_view(request.example.tokens, weights, how, noun)


def pool_kind(pool: nn.Module) -> str:
    """Return the name of a pool of this package."""
    if (known := capability(pool, KnownPool)) is None:
        names = ", ".join(FUNCTIONS)
        raise Misuse(f"{type(pool).__name__} is none of the pools that can be looked at: {names}, attention")
    return known.kind


def pooling_weights(
    pool: nn.Module, states: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B T"]:
    """How much of the pooled vector comes from each token; padding gives 0.

    They sum to 1, but for pools in which each token counts whole.
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
        return (taken / taken.sum(1, keepdim=True).clamp(min=1)).mean(-1).to(states.dtype)  # equal ones share
    # what is made of all places shows in what is made of this: a 1 at each token, in a column of its own
    places = torch.eye(states.shape[1], dtype=states.dtype, device=states.device).expand(len(states), -1, -1)
    if kind == "ends":
        return pool(torch.cat([places, places], -1), mask).view(len(states), 2, -1).mean(1)
    return pool(places, mask)


@torch.inference_mode()
def token_weights(model: nn.Module, inputs: Sequence[Any]) -> tuple[Weights, str]:
    """How much each token of the first example counts, and the name of the pool (or of a bag's weighting)."""
    if (bag := capability(model, CountsTokens)) is not None:
        return numbers_of(bag.token_weights(*inputs)[0]), bag.weighting
    if (reader := capability(model, PoolsTokens)) is None:
        raise Misuse(f"{type(model).__name__} makes no single vector of a text: there is no pool to look at")
    states, mask = reader.token_states(*inputs)
    return numbers_of(pooling_weights(reader.pool, states, mask)[0]), pool_kind(reader.pool)


def pooling_view(tokens: Sequence[str], weights: Weights, how: str, noun: str = "text") -> View:
    """Return how much each token counts; `how`: the pool's name; `noun`: what the tokens make up."""
    count = len(tokens)
    order = np.argsort(-weights, kind="stable").tolist()
    equal = bool(np.ptp(weights) <= EQUAL_SHARE * np.abs(weights).max())
    high = max(0.5, float(weights.max()))  # as in attention: small weights look pale
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
