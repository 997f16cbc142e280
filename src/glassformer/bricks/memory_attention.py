"""Attention of a recurrent decoder over an encoder's states: one query looks along the source."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks import Vectors
from glassformer.bricks.attention import masked_softmax
from glassformer.bricks.tap import Tap


class MemoryAttention(nn.Module):
    """Weights p = softmax(score(q, m_s)) over the memory, and the context c = Σ p_s m_s.

    Scores: `dot` qᵀm, `scaled` qᵀm/√d, `query-key` (W q)ᵀ(U m)/√d, `bilinear` qᵀWm, `additive` vᵀtanh(W q + U m).
    """

    heads = 1
    is_cross_attention = True
    head_output = "weights"

    def __init__(self, *, width: int, memory_width: int, kind: str = "dot", hidden: int | None = None) -> None:
        super().__init__()
        if kind in ("dot", "scaled") and width != memory_width:
            raise ValueError(f"{kind} attention compares vectors of one width, not {width} with {memory_width}")
        hidden = hidden or width
        self.kind = kind
        projected = kind in ("query-key", "additive")
        self.scale = {"scaled": 1 / math.sqrt(width), "query-key": 1 / math.sqrt(hidden)}.get(kind, 1.0)
        self.bilinear = nn.Linear(width, memory_width, bias=False) if kind == "bilinear" else None
        self.of_query = nn.Linear(width, hidden, bias=kind == "additive") if projected else None
        self.of_memory = nn.Linear(memory_width, hidden, bias=False) if projected else None
        self.total = nn.Linear(hidden, 1, bias=False) if kind == "additive" else None
        self.scores, self.weights = Tap(), Tap()

    def forward(
        self,
        query: Vectors,
        memory: Float[Tensor, "B S m"],
        mask: Bool[Tensor, "B S"] | None = None,
        keys: Float[Tensor, "B S k"] | None = None,
    ) -> Float[Tensor, "B T m"]:
        """`keys`: what `project_keys` made of this memory, so that queries one by one need not make it again."""
        scores = self.scores(self.score(query, self.project_keys(memory) if keys is None else keys))
        seen = None if mask is None else mask.unsqueeze(1)
        weights: Tensor = self.weights(masked_softmax(scores, seen))
        return weights @ memory

    def project_keys(self, memory: Float[Tensor, "B S m"]) -> Float[Tensor, "B S k"]:
        """Return the keys, which do not depend on the query: U m for `query-key` and `additive`, else m itself."""
        return memory if self.of_memory is None else self.of_memory(memory)

    def score(self, query: Vectors, keys: Float[Tensor, "B S k"]) -> Float[Tensor, "B T S"]:
        for project in (self.bilinear, self.of_query):
            query = query if project is None else project(query)
        if self.total is not None:
            return self.total(torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)
        return query @ keys.transpose(1, 2) * self.scale
