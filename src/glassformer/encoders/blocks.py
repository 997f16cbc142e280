"""Blocks of a Transformer, a user's own attention in a block, and the KV cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks import Mask, Rows, Vectors
from glassformer.bricks.attention import Attention, CacheSlots, HasAttention, KeyValues, Memory
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import Residual
from glassformer.bricks.own import OwnBrick
from glassformer.bricks.positions import Rotation
from glassformer.bricks.tap import Brick, Make, RecordsInside
from glassformer.config.plugins import OwnPart
from glassformer.encoders.base import StackedBlock, State, sources_of


class OwnAttention(OwnBrick, RecordsInside, HasAttention):
    """A user's attention: `forward(x, mask)` returns B×T×d, or a tuple of that and weights B×h×T×T.

    It does not support a cache. The cache stores the inputs instead of keys, and every new token recomputes all tokens.
    `rotation` (rotary positions) and `seen` (B×T×T, tokens visible to each token where documents are separate) are
    offered to a `forward` that names them.
    """

    keyword_inputs = ("mask", "rotation", "seen")
    incremental_methods = ("extend",)
    is_cross_attention = False
    head_output = ""
    """Empty: the outputs of single heads are not visible from outside."""
    kv_heads = 1
    output = None
    _new: Callable[[Tensor], Tensor] = staticmethod(lambda whole: whole)
    """Function from values of all tokens to those of the new tokens."""

    def __init__(
        self, part: OwnPart, *, width: int, heads: int, causal: bool, head_width: int, **offered: object
    ) -> None:
        super().__init__(part, width=width, heads=heads, causal=causal, head_width=head_width, **offered)
        self.head_width, self.causal, self._heads = width, causal, heads
        self.value_width = head_width // 2 * 2 if "rotation" in self.takes else 0
        """Width of the rotary angles (cosines and sines) that are cached instead of values."""

    def forward(
        self,
        x: Vectors,
        mask: Bool[Tensor, "B T"] | Bool[Tensor, "B T T"] | None = None,
        *,
        rotation: Rotation | None = None,
    ) -> Vectors:
        seen = mask if mask is not None and mask.dim() == 3 else None
        if seen is not None and "seen" not in self.takes:
            raise ValueError(f"{self.part} cannot keep the documents of a window apart")
        result = self.call(x, mask=None if seen is not None else mask, rotation=rotation, seen=seen)
        return self.of_shape(result[0] if isinstance(result, tuple) and result else result, *x.shape)

    def extend(self, x: Vectors, past: KeyValues, slots: CacheSlots, rotation: Rotation | None = None) -> Vectors:
        """Process T new tokens after those in `past`, to which they are added."""
        batch, new, end = x.shape[0], x.shape[1], slots.extent
        angles = x.new_zeros(batch, new, 0)
        if rotation is not None and self.value_width:
            angles = torch.cat(rotation, -1).expand(batch, new, -1)
        past.add(x.unsqueeze(1), angles.unsqueeze(1), slots)
        if rotation is not None:
            rotation = Rotation(*past.values[:, 0, :end].chunk(2, -1))
        mask = slots.seen[:, -1] if slots.seen is not None and slots.seen.dim() == 3 else slots.seen

        def of_new(whole: Tensor) -> Tensor:
            """Return the rows of the new tokens."""
            if slots.positions.dim() == 1:
                return whole[..., end - new : end, :]
            indices = slots.positions.clamp(max=end - 1)  # finished rows may be past the end
            indices = indices.view(batch, *[1] * (whole.dim() - 3), new, 1)
            return whole.gather(-2, indices.expand(*whole.shape[:-2], new, whole.shape[-1]))

        self._new = of_new
        try:
            return of_new(self.forward(past.keys[:, 0, :end].to(x.dtype), mask, rotation=rotation))
        finally:
            del self._new

    @cached_property
    def _weights_shape(self) -> tuple[int, ...]:
        """Shape of the attention weights for two tokens; empty if it returns no weights."""
        like = next(self.own.parameters(), torch.empty(0))
        training = self.own.training
        self.own.eval()
        with torch.no_grad():
            angles = like.new_zeros(2, self.value_width // 2)
            rotation = Rotation(angles + 1, angles) if self.value_width else None
            result = self.call(like.new_zeros(1, 2, self.head_width), mask=None, rotation=rotation, seen=None)
        self.own.train(training)
        weights = result[1] if isinstance(result, tuple) and len(result) > 1 else None
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else ()
        return shape if len(shape) in (3, 4) and shape[0] == 1 and shape[-2:] == (2, 2) else ()

    def lacks(self, kind: type) -> bool:
        """Return True for `HasAttention` if the user's module returns no weights."""
        return kind is HasAttention and not self._weights_shape

    @property
    def heads(self) -> int:  # type: ignore[override]
        """Number of heads whose weights the user's module returns, else the number that was set."""
        shape = self._weights_shape
        return self._heads if not shape else shape[1] if len(shape) == 4 else 1

    def record_inside(
        self, keep: Callable[[str, Make], None], wants: Callable[[str], bool]
    ) -> Iterator[RemovableHandle]:
        """Yield the handle of a hook that records the attention weights."""

        def hook(module: nn.Module, args: object, output: object) -> None:
            if isinstance(output, tuple) and len(output) > 1 and isinstance(weights := output[1], Tensor):
                of_new = self._new
                keep("weights", lambda: of_new(weights))

        if wants("weights"):
            yield self.own.register_forward_hook(hook)


class Block(Brick, nn.Module, StackedBlock):
    """Self-attention, cross-attention if there is a memory, and feed-forward, each with a residual connection."""

    def __init__(
        self,
        *,
        attend: Attention | OwnAttention,
        around_attend: Residual,
        feed: FeedForward | None = None,
        around_feed: Residual | None = None,
        cross_attention: Attention | None = None,
        around_cross_attention: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attend, self.around_attend = attend, around_attend
        self.cross_attention, self.around_cross_attention = cross_attention, around_cross_attention
        self.feed, self.around_feed = feed, around_feed

    def forward(
        self,
        x: Vectors,
        mask: Mask = None,
        *,
        memory: Memory | None = None,
        rotation: Rotation | None = None,
        seen: Bool[Tensor, "B T T"] | None = None,
    ) -> Vectors:
        """Apply the block; `seen` replaces the mask where it differs per query."""
        x = self.around_attend(x, lambda x: self.attend(x, mask if seen is None else seen, rotation=rotation), mask)
        if self.cross_attention is not None and self.around_cross_attention is not None:
            cross = self.cross_attention
            x = self.around_cross_attention(x, lambda x: cross(x, memory=memory), mask)
        return self._feed(x, mask)

    def extend(
        self,
        x: Vectors,
        state: "TransformerState",
        layer: int,
        slots: CacheSlots,
        mask: Mask,
        rotation: Rotation | None,
    ) -> Vectors:
        past = state.past[layer]
        x = self.around_attend(x, lambda x: self.attend.extend(x, past, slots, rotation), mask)
        if self.cross_attention is not None and self.around_cross_attention is not None:
            look_at, memory_cache = self.cross_attention.look_at, state.cross[layer]
            x = self.around_cross_attention(x, lambda x: look_at(x, memory_cache, state.memory_mask, state.share), mask)
        return self._feed(x, mask)

    def _feed(self, x: Vectors, mask: Mask) -> Vectors:
        if self.feed is not None and self.around_feed is not None:
            x = self.around_feed(x, self.feed, mask)
        return x


@dataclass(eq=False)
class TransformerState(State):
    """The KV cache: keys and values of past tokens by layer, and of the memory (`cross`).

    The tokens of a row are in its first columns. `lengths` has their number, which is the position of the next token.
    `filled` is the largest length. If all rows have that length, which the host then knows, they are `alike`. The
    memory is stored once per source, and `share` consecutive rows attend to it.
    """

    past: list[KeyValues]
    cross: list[KeyValues]
    memory_mask: Bool[Tensor, "N S"] | None
    share: int = 1
    filled: int = 0
    alike: bool = True
    fused: "Callable[[Tensor, TransformerState], Tensor] | Literal[False] | None" = None
    """Fused step; False if it is not available; None if that is not known yet."""

    def __post_init__(self) -> None:
        keys = self.past[0].keys
        self.lengths: Rows = torch.zeros(len(keys), dtype=torch.long, device=keys.device)

    @property
    def max_tokens(self) -> int:
        return self.past[0].keys.shape[2]

    def admit(self, new: int, mask: Mask, *, causal: bool) -> CacheSlots:
        """Reserve columns for new tokens of every row and return their positions."""
        if not self.in_place:
            if self.filled + new > self.max_tokens:
                raise ValueError(f"room for {self.max_tokens} tokens, but {self.filled + new} came")
            self.filled += new
        steps = torch.arange(new, device=self.lengths.device)
        index = self.filled - new + steps if self.alike else self.lengths.unsqueeze(1) + steps
        seen = None
        columns = torch.arange(self.filled, device=steps.device)
        if causal and not self.alike:
            seen = columns <= index.unsqueeze(-1)
        self.lengths += new if mask is None else mask.sum(1)
        if self.in_place:  # finished rows stop at their last column
            self.lengths.clamp_(max=self.max_tokens - 1)
        self.alike = self.alike and mask is None
        if not causal and not self.alike:
            seen = columns < self.lengths.unsqueeze(1)
        return CacheSlots(index, self.filled, seen)

    def put(self, rows: Int[Tensor, "n"], other: State) -> None:
        assert isinstance(other, TransformerState)
        for layer, new in zip(self.past, other.past, strict=True):
            for part, new_part in zip(layer, new, strict=True):
                part[rows, :, : other.filled] = new_part[:, :, : other.filled]
        self.lengths[rows] = other.lengths
        self.filled, self.alike = max(self.filled, other.filled), False

    def fix(self, extent: int) -> bool:
        if not self.in_place:  # from now on columns past a row's end are read and must be finite
            for layer in self.past:
                for part in layer:
                    part[:, :, self.filled :] = 0.0
        self.in_place, self.alike, self.filled = True, False, extent
        return True

    def select(self, rows: Rows) -> "TransformerState":
        sources = sources_of(rows, self.share)
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, sources)
        cross = [KeyValues(*(part.index_select(0, sources) for part in layer)) for layer in self.cross]
        return self._with_past_of(rows, cross=cross, memory_mask=mask)

    def expand_beams(self, times: int) -> "TransformerState":
        rows = torch.arange(len(self.lengths), device=self.lengths.device).repeat_interleave(times)
        return self._with_past_of(rows, share=self.share * times)

    def reorder(self, rows: Rows) -> "TransformerState":
        if not self.in_place:
            return self._with_past_of(rows)
        for layer in self.past:
            for part in layer:
                filled = part[:, :, : self.filled]
                filled.copy_(filled.index_select(0, rows))
        self.lengths.copy_(self.lengths[rows])
        return self

    def _with_past_of(self, rows: Rows, **changes: Any) -> "TransformerState":
        past = [KeyValues(*(self._filled_part(part, rows) for part in layer)) for layer in self.past]
        chosen = replace(self, past=past, **changes)
        chosen.lengths = self.lengths.index_select(0, rows)
        return chosen

    def _filled_part(
        self, part: Float[Tensor, "B k max_tokens e"], rows: Int[Tensor, "C"]
    ) -> Float[Tensor, "C k max_tokens e"]:
        """Return the filled columns of these rows.

        If all rows are alike, the columns after them are written before they are read and need no values. Otherwise,
        other rows read past the end of a short row, so there must be finite numbers.
        """
        new = (part.new_empty if self.alike else part.new_zeros)(len(rows), *part.shape[1:])
        # writing into `new` takes half the time; there is no gradient through selected rows
        torch.index_select(part.detach()[:, :, : self.filled], 0, rows, out=new[:, :, : self.filled])
        return new
