"""Word dropout: whole words are left out in training, so that no answer hangs on one of them."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class WordDropout(nn.Module):
    """In training, 0 for all that belongs to a token with probability p; the rest is scaled by 1 / (1 − p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "B T *rest"]) -> Float[Tensor, "B T *rest"]:
        if not self.training or not self.p:
            return x
        kept = F.dropout(x.new_ones(x.shape[:2]), self.p)
        return x * kept.view(*x.shape[:2], *[1] * (x.dim() - 2))
