"""Non-linearities, elementwise."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def relu_squared(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """max(x, 0)²."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "relu2": relu_squared,
    "swiglu": F.silu,  # the gate's non-linearity: the gating itself belongs to the feed-forward part
}
