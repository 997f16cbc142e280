"""Attention: every token computes a weighted average of the vectors of other tokens.

One brick has three uses: self-attention, causal self-attention, and cross-attention to a memory. The model uses the
fused kernel; `attention_weights` and `attend_written_out` are the formula of the lectures for the same computation.
`MemoryAttention` is the attention of a recurrent decoder, whose query attends to the source.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks import Index, Inputs, Mask, Vector, Vectors
from glassformer.bricks.capabilities import Capability
from glassformer.bricks.int8 import Int8Linear
from glassformer.bricks.kernels import cpu as cpu_kernels
from glassformer.bricks.kernels.gpu import kernels_work, norm_and_rotate
from glassformer.bricks.norm import RMSNorm
from glassformer.bricks.positions import Rotation, rotate
from glassformer.bricks.tap import Brick, Make, RecordsInside, Tap

KERNEL_WIDTHS = (16, 32, 64, 128, 256)
"""Head widths supported by the fused kernel."""


Queries = Float[Tensor, "B h T e"]
Keys = Float[Tensor, "B k S e"]
Values = Float[Tensor, "B k S v"]
Weights = Float[Tensor, "B h T S"]
KeyMask = Bool[Tensor, "B S"] | Bool[Tensor, "B T S"] | None
"""Keys that exist, for all queries of a row or for each query; None: all."""
Seen = Bool[Tensor, "..."] | None
"""Keys visible to each query, broadcastable to B×h×T×S; None: all."""


class Memory(NamedTuple):
    """A second sequence to attend to, such as the output of an encoder."""

    states: Float[Tensor, "B S m"]
    mask: Bool[Tensor, "B S"] | None = None


def average_by_similarity(query: Vector, vectors: Vectors, mask: Mask = None) -> tuple[Vector, Float[Tensor, "B T"]]:
    """Return the context c = Σ p_t x_t and the weights p = softmax(hᵀx_t): attention without parameters."""
    scores = torch.einsum("bd,btd->bt", query, vectors)
    weights = masked_softmax(scores, mask)
    return torch.einsum("bt,btd->bd", weights, vectors), weights


def masked_softmax(scores: Float[Tensor, "..."], mask: Seen) -> Float[Tensor, "..."]:
    """Return the softmax over the last axis; masked entries, and rows that are entirely masked, are exactly 0."""
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)


def visible(queries: int, keys: int, mask: KeyMask, *, causal: bool, device: torch.device) -> Seen:
    """Return which keys each query may attend to, broadcastable to B×h×queries×keys; None: all.

    `mask` marks the keys that exist, for all queries or for each one. The last query is at the position of the last
    key: with a cache there are more keys than queries.
    """
    seen = None
    if mask is not None:
        seen = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
    if causal and queries > 1:
        past = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
        seen = past if seen is None else seen & past
    return seen


def attention_scores(queries: Queries, keys: Keys, *, scale: float | None = None) -> Weights:
    """Return Q Kᵀ / √e, written out."""
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else scale
    return torch.einsum("bhte,bhse->bhts", queries, keys) * scale


def attention_weights(queries: Queries, keys: Keys, seen: Seen = None, *, scale: float | None = None) -> Weights:
    """Return softmax(Q Kᵀ / √e) over the visible keys of each query, written out."""
    scores = attention_scores(queries, keys, scale=scale)
    return masked_softmax(scores, None if seen is None else seen.expand_as(scores))


def attend_written_out(weights: Weights, values: Values) -> Float[Tensor, "B h T v"]:
    """Return the weighted average of the values for each query, written out."""
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    return torch.einsum("bhts,bhsv->bhtv", weights, values)


class HasAttention(Capability, Protocol):
    """A module whose attention weights are captured as `weights` (B×h×T×S, or B×T×S for one head)."""

    heads: int
    is_cross_attention: bool
    """Whether it attends to another sequence."""
    causal: bool = False
    """Whether no token attends to a later one."""
    head_output: str
    """Name of the captured tensor that switches a head off when it is zero; empty if heads cannot be switched off."""


class CacheSlots(NamedTuple):
    """Positions of new tokens in a KV cache, and the part of the cache that they attend to."""

    positions: Index
    """Position of each new token, the same for all rows or one row each."""
    extent: int
    """Number of cache columns to attend to."""
    seen: KeyMask
    """Visible columns, if they are not all that causality allows."""


class KeyValues(NamedTuple):
    """Preallocated keys and values of past tokens."""

    keys: Float[Tensor, "B k max_tokens e"]
    values: Float[Tensor, "B k max_tokens v"]

    def add(self, keys: Float[Tensor, "B k T e"], values: Float[Tensor, "B k T v"], slots: CacheSlots) -> None:
        """Store the keys and values of new tokens."""
        for cache, new in ((self.keys, keys), (self.values, values)):
            if slots.positions.dim() == 1:
                cache[:, :, slots.extent - new.shape[2] : slots.extent] = new
            else:
                rows = torch.arange(len(cache), device=cache.device).unsqueeze(1)
                cache[rows, :, slots.positions] = new.transpose(1, 2).to(cache.dtype)


class Attention(Brick, nn.Module, RecordsInside, HasAttention):
    """Multi-head attention.

    `scores` selects the formula, in the order of the lectures. X are the tokens that attend and M those attended to (M
    = X in self-attention):

    - `plain`: X Mᵀ, values M, no parameters;
    - `shared`: one matrix U for all, (XU)(MU)ᵀ, values MU;
    - `bilinear`: X W Mᵀ with a matrix W per head, values M;
    - `query-key`: (X W^Q)(M W^K)ᵀ, values M W^V. With fewer `kv_heads` than heads, groups of heads share them.

    `plain` and `shared` split the width among the heads; every head of `bilinear` has the full width. The outputs of
    the heads are concatenated and projected by W^O unless `output` is False.
    """

    head_output = "mixed"
    incremental_methods = ("extend", "look_at")
    names_inside = ("queries", "keys", "values", "scores", "weights", "mixed")
    """Names that `record_inside` records."""

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        head_width: int | None = None,
        kv_heads: int | None = None,
        memory_width: int | None = None,
        scores: str = "query-key",
        causal: bool = False,
        scale: bool = True,
        output: bool = True,
        qk_norm: bool = False,
        bias: bool = False,
        eps: float = 1e-6,
        dropout: float = 0.0,
    ) -> None:
        """Create the projections; `eps` belongs to the norms of queries and keys."""
        super().__init__()
        source = memory_width or width
        self.heads = heads
        self.is_cross_attention = memory_width is not None
        self.scores = scores
        self.head_width = width if scores == "bilinear" else head_width or width // heads
        self.value_width = self.head_width
        self.kv_heads = {"query-key": kv_heads or heads, "bilinear": 1}.get(scores, heads)
        self.causal = causal
        self.scale = 1 / math.sqrt(self.head_width) if scale else 1.0
        self.dropout = dropout

        inner = heads * self.head_width
        kv_inner = self.kv_heads * self.head_width
        has_query, has_key = scores != "plain", scores == "query-key"
        self.query = nn.Linear(width, inner, bias=bias and has_key) if has_query else None
        self.key = nn.Linear(source, kv_inner, bias=bias) if has_key else None
        self.value = nn.Linear(source, kv_inner, bias=bias) if has_key else None
        self.output = nn.Linear(inner, width, bias=bias) if output else None
        self.query_norm = RMSNorm(self.head_width, eps=eps) if qk_norm else None
        self.key_norm = RMSNorm(self.head_width, eps=eps) if qk_norm else None

        self.queries, self.keys, self.values, self.mask, self.mixed = Tap(), Tap(), Tap(), Tap(), Tap()

    def forward(
        self,
        x: Vectors,
        mask: Bool[Tensor, "B T"] | Bool[Tensor, "B T T"] | None = None,
        *,
        memory: Memory | None = None,
        rotation: Rotation | None = None,
    ) -> Vectors:
        """Attend from each token of x to x or to `memory`; a mask of B×T×T differs per query."""
        if memory is None:
            return self.attend(*self._project_all(x, rotation), mask)
        return self.attend(self.project_queries(x), *self.project_keys_values(memory.states), memory.mask)

    def extend(self, x: Vectors, past: KeyValues, slots: CacheSlots, rotation: Rotation | None = None) -> Vectors:
        """Attend from T new tokens to the cache, to which their keys and values are added."""
        past.add(*self.project_keys_values(x, rotation), slots)
        queries, end = self.project_queries(x, rotation), slots.extent
        return self.attend(queries, past.keys[:, :, :end], past.values[:, :, :end], slots.seen)

    def look_at(self, x: Vectors, memory: KeyValues, mask: Bool[Tensor, "N S"] | None, share: int) -> Vectors:
        """Attend from T new tokens to a memory's keys and values; each memory row serves `share` rows of x."""
        queries = self.project_queries(x.reshape(len(x) // share, -1, x.shape[-1]))
        return self.attend(queries, *memory, mask).view_as(x)

    def project_queries(self, x: Vectors, rotation: Rotation | None = None) -> Queries:
        """Return the queries of x."""
        return self._split(x if self.query is None else self.query(x), self.heads, self.query_norm, rotation)

    def project_keys_values(self, x: Float[Tensor, "B S m"], rotation: Rotation | None = None) -> tuple[Keys, Values]:
        """Return the keys and values of x."""
        if self.key is not None and self.value is not None:
            keys, values = self.key(x), self.value(x)
        else:
            keys = values = self.query(x) if self.scores == "shared" and self.query is not None else x
        return self._split(keys, self.kv_heads, self.key_norm, rotation), self._split(values, self.kv_heads)

    def _project_all(
        self, x: Vectors, rotation: Rotation | None
    ) -> tuple[Queries, Float[Tensor, "B k T e"], Float[Tensor, "B k T v"]]:
        """Return queries, keys and values of the same tokens from one large product, faster than three."""
        if self.query is None or self.key is None or self.value is None or isinstance(self.query, Int8Linear):
            return self.project_queries(x, rotation), *self.project_keys_values(x, rotation)
        maps = (self.query, self.key, self.value)
        weight = torch.cat([part.weight for part in maps])
        bias = None if self.key.bias is None else torch.cat([part.bias for part in maps])
        product = F.linear(x, weight, bias)
        if rotation is not None and self.query_norm is not None and self.key_norm is not None:
            norms, eps = (self.query_norm.weight, self.key_norm.weight), self.query_norm.eps
            if self.training and product.is_cuda and self.head_width in KERNEL_WIDTHS and kernels_work():
                heads = norm_and_rotate(product, torch.stack(norms), *rotation, eps, self.kv_heads)
                queries, keys, values = (part.transpose(1, 2) for part in heads)
                return queries, keys, values
            if self._learned_on_a_cpu(product):
                gains = torch.cat([norms[0].expand(self.heads, -1), norms[1].expand(self.kv_heads, -1)])
                rotated, rest = cpu_kernels.CPUNormedHeads.apply(product, gains, *rotation, eps)  # type: ignore[no-untyped-call]
                queries, keys = rotated.transpose(1, 2).split([self.heads, self.kv_heads], 1)
                return queries, keys, self._split(rest, self.kv_heads)
        query, key, value = torch.split(product, [part.out_features for part in maps], -1)
        queries = self._split(query, self.heads, self.query_norm, rotation)
        return queries, self._split(key, self.kv_heads, self.key_norm, rotation), self._split(value, self.kv_heads)

    def _learned_on_a_cpu(self, product: Inputs) -> bool:
        """Return whether the fused norm and rotation for CPU training apply; not while a norm has hooks."""
        same_dtype = self.query_norm is not None and product.dtype == self.query_norm.weight.dtype
        return (
            same_dtype and cpu_kernels.applies_to(product) and not cpu_kernels.has_hooks(self.query_norm, self.key_norm)
        )

    def attend(self, queries: Queries, keys: Keys, values: Values, mask: KeyMask) -> Vectors:
        """Average the values of the visible keys for each query and join the heads."""
        queries, keys, values, mask = self.queries(queries), self.keys(keys), self.values(values), self.mask(mask)
        whole = queries.shape[2] == keys.shape[2] and mask is None
        seen = None if whole else visible(queries.shape[2], keys.shape[2], mask, causal=self.causal, device=keys.device)
        mixed = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=seen,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and whole,
            scale=self.scale,
            enable_gqa=self.kv_heads != self.heads,
        )
        joined = self.mixed(mixed).transpose(1, 2).flatten(2)
        return joined if self.output is None else self.output(joined)

    def record_inside(
        self, keep: Callable[[str, Make], None], wants: Callable[[str], bool]
    ) -> Iterator[RemovableHandle]:
        """Yield the handles of hooks that record the taps, and scores and weights by the written-out formulas.

        Every call passes the taps in the same order, also for a single new token; the mask comes last.
        """
        last: dict[str, Tensor] = {}

        def record(name: str) -> Callable[..., None]:
            return lambda tap, args, output: keep(name, lambda: output)

        def remember(name: str) -> Callable[..., None]:
            return lambda tap, args, output: last.update({name: output})

        def weigh(tap: nn.Module, args: object, mask: Tensor | None) -> None:
            queries, keys = last.pop("queries"), last.pop("keys")
            allowed = visible(queries.shape[2], keys.shape[2], mask, causal=self.causal, device=keys.device)

            def scores() -> Tensor:
                scores = attention_scores(queries, keys, scale=self.scale)
                return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)

            keep("scores", scores)
            keep("weights", lambda: attention_weights(queries, keys, allowed, scale=self.scale))

        for name in filter(wants, ("queries", "keys", "values", "mixed")):
            yield getattr(self, name).register_forward_hook(record(name))
        if wants("scores") or wants("weights"):
            yield self.queries.register_forward_hook(remember("queries"))
            yield self.keys.register_forward_hook(remember("keys"))
            yield self.mask.register_forward_hook(weigh)

    def _split(self, x: Inputs, heads: int, norm: nn.Module | None = None, rotation: Rotation | None = None) -> Queries:
        """Split vectors into heads, with norm and rotation if given."""
        x = x.view(*x.shape[:2], heads, self.head_width).transpose(1, 2)
        if norm is not None:
            x = norm(x)
        return x if rotation is None else rotate(x, rotation)


# --- attention of a recurrent decoder ---


class MemoryAttention(nn.Module, HasAttention):
    """Attention with weights p = softmax(score(q, m_s)) over the memory and context c = Σ p_s m_s.

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
        """Return the context for each query; `keys` is the cached result of `project_keys`."""
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
