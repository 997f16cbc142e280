"""Attention weights of all layers and heads of a model, and a context that switches heads off.

The attention layers of a model form stacks. A language model or a classifier has the stack `self`. A translator has
`source` (within the source), `target` (within the output) and `cross` (from the output to the source).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.bricks.attention import HasAttention
from glassformer.bricks.capabilities import capability, parts_with
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.capture import capture, numbers_of
from glassformer.inspection.change import zero
from glassformer.inspection.intervene import intervene
from glassformer.models.capabilities import HasDecoder

Head = tuple[str, int, int]
"""Stack, layer, head."""

SELF_ATTENTION = ("self", "source", "target")
"""Stacks in which the tokens of one text attend to each other."""
SOURCE_ATTENTION = ("self", "source")
"""Stacks of self-attention within the input text."""


def stacks_of(model: nn.Module) -> dict[str, list[tuple[str, HasAttention]]]:
    """Return the attention modules of a model with their paths, layer by layer."""
    stacks: dict[str, list[tuple[str, HasAttention]]] = {}
    has_decoder = capability(model, HasDecoder) is not None
    for path, module in parts_with(model, HasAttention):
        stack = "self"
        if module.is_cross_attention:
            stack = "cross"
        elif has_decoder:
            stack = "target" if path.startswith("decoder.") else "source"
        stacks.setdefault(stack, []).append((path, module))
    return stacks


def sizes_of(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Return the numbers of layers and heads of each stack."""
    return {name: (len(layers), max(module.heads for _, module in layers)) for name, layers in stacks_of(model).items()}


@torch.inference_mode()
def attention_of(model: nn.Module, inputs: Sequence[Any]) -> dict[str, Float[Array, "L h T S"]]:
    """Return the attention weights of every stack for the first example of a batch."""
    stacks = stacks_of(model)
    with capture(model, [f"{path}.weights" for layers in stacks.values() for path, _ in layers]) as seen:
        model(*inputs)
    weights = {name: [numbers_of(seen[f"{path}.weights"][0]) for path, _ in layers] for name, layers in stacks.items()}
    # A recurrent decoder's attention has no axis of heads: it counts as one head.
    return {
        name: np.stack([layer.reshape(-1, *layer.shape[-2:]) for layer in layers]) for name, layers in weights.items()
    }


def causal_stacks(model: nn.Module) -> set[str]:
    """Return the stacks in which no token attends to a later one."""
    return {name for name, layers in stacks_of(model).items() if all(module.causal for _, module in layers)}


def sharpness(weights: Float[Array, "L h T S"], *, causal: bool = False) -> Float[Array, "L h"]:
    """Return how sharp the pattern of each head is, from 0 to 1.

    The sharpness is 0 if the weights are uniform or rest on the first token, the usual attention sink. It is 1 if each
    token attends to exactly one token that is not the first.
    """
    weights = np.asarray(weights, np.float64)
    rows, columns = weights.shape[-2:]
    seen = np.arange(1, rows + 1) if causal else np.full(rows, columns)
    if not (several := seen > 1).any():
        return np.zeros(weights.shape[:2])
    entropy = -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(-1)
    decided = 1 - entropy[..., several] / np.log(seen[several])
    return np.asarray((decided * (1 - weights[..., several, 0])).mean(-1))


def clearest(
    sharp: Float[Array, "L h"], layer: int | None = None, head: int | None = None
) -> tuple[int | None, int | None]:
    """Return the layer and number of the sharpest head.

    `layer` and `head` restrict the choice. A model with a single head gets both arguments back unchanged.
    """
    if sharp.size == 1:
        return layer, head
    allowed = np.full(sharp.shape, -np.inf)
    chosen = (slice(None) if layer is None else layer, slice(None) if head is None else head)
    allowed[chosen] = sharp[chosen]
    best = np.unravel_index(allowed.argmax(), sharp.shape)
    return int(best[0]), int(best[1])


def heads_turn(model: nn.Module) -> bool:
    """Return whether a model has attention heads and all of them can be switched off.

    The heads of a user's own attention cannot be switched off.
    """
    modules = [module for layers in stacks_of(model).values() for _, module in layers]
    return bool(modules) and all(module.head_output for module in modules)


def changeable(path: str, module: HasAttention) -> str:
    """Return the name of the tensor that switches a head off when it is zero."""
    if not module.head_output:
        raise Misuse(f"{path} is a person's own attention: its heads can be looked at, and not be turned")
    return f"{path}.{module.head_output}"


@contextmanager
def without(model: nn.Module, heads: Iterable[Head]) -> Iterator[None]:
    """Set the outputs of heads to 0 while this context is open."""
    stacks, off = stacks_of(model), defaultdict[str, list[int]](list)
    for stack, layer, head in heads:
        path, module = stacks[stack][layer]
        off[changeable(path, module)].append(head)
    with intervene(model, {name: zero(heads=chosen) for name, chosen in off.items()}):
        yield
