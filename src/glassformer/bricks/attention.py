"""Attention: every token looks at the others and takes a weighted average of what it finds.

One brick, three uses: self-attention, masked (causal) self-attention, and cross-attention to a memory. The model takes
the fused kernel; `attention_weights` and `attend_written_out` are the lectures' formula for the same thing.
`MemoryAttention` is the attention of a recurrent decoder: one query looks along the source.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks import Index, Inputs, Mask, Vector, Vectors
from glassformer.bricks.int8 import Int8Linear
from glassformer.bricks.kernels import cpu as cpu_kernels
from glassformer.bricks.kernels.gpu import kernels_work, norm_and_rotate
from glassformer.bricks.norm import RMSNorm
from glassformer.bricks.positions import Rotation, rotate
from glassformer.bricks.tap import Brick, Make, Tap

KERNEL_WIDTHS = (16, 32, 64, 128, 256)
"""Head widths supported by the fused kernel."""


Queries = Float[Tensor, "B h T e"]
Keys = Float[Tensor, "B k S e"]
Values = Float[Tensor, "B k S v"]
Weights = Float[Tensor, "B h T S"]
KeyMask = Bool[Tensor, "B S"] | Bool[Tensor, "B T S"] | None
"""The keys that are there, for all queries of a row or for each of them; None: all."""
Seen = Bool[Tensor, "..."] | None
"""The keys that each query may look at, broadcast over B×h×T×S; None: all."""


class Memory(NamedTuple):
    """A second sequence to attend to, such as an encoder's output."""

    states: Float[Tensor, "B S m"]
    mask: Bool[Tensor, "B S"] | None = None


def average_by_similarity(query: Vector, vectors: Vectors, mask: Mask = None) -> tuple[Vector, Float[Tensor, "B T"]]:
    """Attention without parameters: p = softmax(hᵀx_t), c = Σ p_t x_t. Gives c and p."""
    scores = torch.einsum("bd,btd->bt", query, vectors)
    weights = masked_softmax(scores, mask)
    return torch.einsum("bt,btd->bd", weights, vectors), weights


def masked_softmax(scores: Float[Tensor, "..."], mask: Seen) -> Float[Tensor, "..."]:
    """Softmax over the last axis; what the mask hides gets exactly 0, and so does a row that hides everything."""
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)


def visible(queries: int, keys: int, mask: KeyMask, *, causal: bool, device: torch.device) -> Seen:
    """Which key each query may look at, as something that broadcasts over B×h×queries×keys; None: every one.

    `mask`: the keys that are there, for all queries or for each of them. The last query stands at the last key: with a
    cache there are more keys than queries.
    """
    seen = None
    if mask is not None:
        seen = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
    if causal and queries > 1:
        past = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
        seen = past if seen is None else seen & past
    return seen


def attention_scores(queries: Queries, keys: Keys, *, scale: float | None = None) -> Weights:
    """Written out: Q Kᵀ / √e."""
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else scale
    return torch.einsum("bhte,bhse->bhts", queries, keys) * scale


def attention_weights(queries: Queries, keys: Keys, seen: Seen = None, *, scale: float | None = None) -> Weights:
    """Written out: softmax(Q Kᵀ / √e), each query over the keys it may see."""
    scores = attention_scores(queries, keys, scale=scale)
    return masked_softmax(scores, None if seen is None else seen.expand_as(scores))


def attend_written_out(weights: Weights, values: Values) -> Float[Tensor, "B h T v"]:
    """Written out: for each query, the values averaged by its weights."""
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    return torch.einsum("bhts,bhsv->bhtv", weights, values)


@runtime_checkable
class AttentionHeads(Protocol):
    """A module whose attention can be looked at, with its weights captured as `weights` (B×h×T×S, or B×T×S of one)."""

    heads: int
    is_cross_attention: bool
    """It looks at another text than its own."""

    head_output: str
    """What is captured of it that, as zeros, makes a head find nothing: `mixed`, or the `weights` of one."""


class Place(NamedTuple):
    """Where new tokens stand in a cache, and what they look at there."""

    positions: Index
    """That of each new token: the same for all rows, or each row's own."""
    extent: int
    """The columns that are looked at: those before this one."""
    seen: KeyMask
    """Which of them, where it is not all that causality allows."""


class KeyValues(NamedTuple):
    """Keys and values of the past, in room that was set aside at the start."""

    keys: Float[Tensor, "B k max_tokens e"]
    values: Float[Tensor, "B k max_tokens v"]

    def add(self, keys: Float[Tensor, "B k T e"], values: Float[Tensor, "B k T v"], place: Place) -> None:
        """Put in those of new tokens."""
        for room, new in ((self.keys, keys), (self.values, values)):
            if place.positions.dim() == 1:
                room[:, :, place.extent - new.shape[2] : place.extent] = new
            else:
                rows = torch.arange(len(room), device=room.device).unsqueeze(1)
                room[rows, :, place.positions] = new.transpose(1, 2).to(room.dtype)


class Attention(Brick, nn.Module):
    """Multi-head attention.

    How scores are made (`scores`), the lectures' road from one to the next, X the tokens that look and M those looked
    at (M = X in self-attention):

    - `plain`: X Mᵀ, values M: no parameters;
    - `shared`: one matrix U for all, (XU)(MU)ᵀ, values MU;
    - `bilinear`: X W Mᵀ with a matrix W for each head, values M;
    - `query-key`: (X W^Q)(M W^K)ᵀ, values M W^V. Fewer key/value heads than heads (`kv_heads`) are shared in groups.

    `plain` and `shared` split the width among the heads; every head of `bilinear` has all of it. The heads' results are
    concatenated and projected by W^O (`output`), unless that is left out.
    """

    head_output = "mixed"
    in_pieces = ("extend", "look_at")
    names_inside = ("queries", "keys", "values", "scores", "weights", "mixed")
    """What `record_inside` records."""

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
        """`eps`: of the norms of queries and keys, where they have them."""
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
        """Each token of x looks at x (or at `memory`), where the mask shows a real token; it may differ by token."""
        if memory is None:
            return self.attend(*self._project_all(x, rotation), mask)
        return self.attend(self.project_queries(x), *self.project_keys_values(memory.states), memory.mask)

    def extend(self, x: Vectors, past: KeyValues, place: "Place", rotation: Rotation | None = None) -> Vectors:
        """T new tokens after those whose keys and values stand in `past`; theirs are added there."""
        past.add(*self.project_keys_values(x, rotation), place)
        queries, end = self.project_queries(x, rotation), place.extent
        return self.attend(queries, past.keys[:, :, :end], past.values[:, :, :end], place.seen)

    def look_at(self, x: Vectors, memory: KeyValues, mask: Bool[Tensor, "N S"] | None, share: int) -> Vectors:
        """T new tokens look at the keys and values of a memory, each at which so many rows look, as at one row."""
        queries = self.project_queries(x.reshape(len(x) // share, -1, x.shape[-1]))
        return self.attend(queries, *memory, mask).view_as(x)

    def project_queries(self, x: Vectors, rotation: Rotation | None = None) -> Queries:
        """Queries of tokens that look."""
        return self._split(x if self.query is None else self.query(x), self.heads, self.query_norm, rotation)

    def project_keys_values(self, x: Float[Tensor, "B S m"], rotation: Rotation | None = None) -> tuple[Keys, Values]:
        """Keys and values of tokens that are looked at."""
        if self.key is not None and self.value is not None:
            keys, values = self.key(x), self.value(x)
        else:
            keys = values = self.query(x) if self.scores == "shared" and self.query is not None else x
        return self._split(keys, self.kv_heads, self.key_norm, rotation), self._split(values, self.kv_heads)

    def _project_all(
        self, x: Vectors, rotation: Rotation | None
    ) -> tuple[Queries, Float[Tensor, "B k T e"], Float[Tensor, "B k T v"]]:
        """Queries, keys and values of the same tokens: one large product is faster than three small ones."""
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
                turned, rest = cpu_kernels.CPUNormedHeads.apply(product, gains, *rotation, eps)  # type: ignore[no-untyped-call]
                queries, keys = turned.transpose(1, 2).split([self.heads, self.kv_heads], 1)
                return queries, keys, self._split(rest, self.kv_heads)
        query, key, value = torch.split(product, [part.out_features for part in maps], -1)
        queries = self._split(query, self.heads, self.query_norm, rotation)
        return queries, self._split(key, self.kv_heads, self.key_norm, rotation), self._split(value, self.kv_heads)

    def _learned_on_a_cpu(self, product: Inputs) -> bool:
        """Whether queries and keys are normed and turned together there: unless a norm is looked at."""
        alike = self.query_norm is not None and product.dtype == self.query_norm.weight.dtype
        return alike and cpu_kernels.applies_to(product) and not cpu_kernels.watched(self.query_norm, self.key_norm)

    def attend(self, queries: Queries, keys: Keys, values: Values, mask: KeyMask) -> Vectors:
        """Each query averages the values of the keys it may see; the heads' results are joined."""
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
        """Hooks that record what passes its taps, and scores and weights made of it by the written-out formulas.

        Every use of the kernel, one token at a time too, passes the taps in one order; the mask comes last.
        """
        last: dict[str, Tensor] = {}

        def record(name: str) -> Callable[..., None]:
            return lambda tap, args, output: keep(name, lambda: output)

        def remember(name: str) -> Callable[..., None]:
            return lambda tap, args, output: last.update({name: output})

        def weigh(tap: nn.Module, args: Any, mask: Tensor | None) -> None:
            queries, keys = last.pop("queries"), last.pop("keys")
            allowed = visible(queries.shape[2], keys.shape[2], mask, causal=self.causal, device=keys.device)

            def scores() -> Tensor:
                made = attention_scores(queries, keys, scale=self.scale)
                return made if allowed is None else made.masked_fill(~allowed, -torch.inf)

            keep("scores", scores)
            keep("weights", lambda: attention_weights(queries, keys, allowed, scale=self.scale))

        for name in filter(wants, ("queries", "keys", "values", "mixed")):
            yield getattr(self, name).register_forward_hook(record(name))
        if wants("scores") or wants("weights"):
            yield self.queries.register_forward_hook(remember("queries"))
            yield self.keys.register_forward_hook(remember("keys"))
            yield self.mask.register_forward_hook(weigh)

    def _split(self, x: Inputs, heads: int, norm: nn.Module | None = None, rotation: Rotation | None = None) -> Queries:
        """Cut vectors into heads, which are normed and turned."""
        x = x.view(*x.shape[:2], heads, self.head_width).transpose(1, 2)
        if norm is not None:
            x = norm(x)
        return x if rotation is None else rotate(x, rotation)


# --- attention of a recurrent decoder ---


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
