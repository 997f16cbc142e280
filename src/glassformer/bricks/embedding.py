"""Embeddings of tokens, and word dropout."""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Ids, Vectors
from glassformer.bricks.tap import Brick, record_vectors


class WordVectors(Brick, nn.Module):
    """Row w of a V×d table for every word w; a linear map brings a table of another width to d."""

    record = record_vectors

    def __init__(
        self, *, vocab: int, width: int, table_width: int | None = None, scale: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        inner = table_width or width
        self.table = nn.Embedding(vocab, inner)
        self.fit = None if inner == width else nn.Linear(inner, width, bias=False)
        self.width = width
        self.scale = math.sqrt(width) if scale else 1.0
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Ids) -> Vectors:
        x: Tensor = self.table(tokens)
        if self.fit is not None:
            x = self.fit(x)
        if self.scale != 1.0:
            x = x * self.scale
        return self.dropout(x)


class OneHot(Brick, nn.Module):
    """A one-hot vector of width V per token; nothing is learned."""

    record = record_vectors

    def __init__(self, *, vocab: int) -> None:
        super().__init__()
        self.width = vocab

    def forward(self, tokens: Ids) -> Float[Tensor, "B T V"]:
        return F.one_hot(tokens, self.width).float()


class WordDropout(nn.Module):
    """Dropout of whole words in training, so that no answer depends on a single word.

    In training, all values of a token are 0 with probability p; the others are scaled by 1 / (1 − p).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "B T *rest"]) -> Float[Tensor, "B T *rest"]:
        if not self.training or not self.p:
            return x
        scale = F.dropout(x.new_ones(x.shape[:2]), self.p)
        return x * scale.view(*x.shape[:2], *[1] * (x.dim() - 2))
