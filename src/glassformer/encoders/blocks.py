"""A Transformer's block, with self-attention of ours or of a user's own, and the state of its steps: the KV cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks import Mask, Rows, Vectors
from glassformer.bricks.attention import Attention, KeyValues, Memory, Place
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import Residual
from glassformer.bricks.own import OwnBrick
from glassformer.bricks.positions import Rotation
from glassformer.bricks.tap import Brick, Make
from glassformer.config.plugins import OwnPart
from glassformer.encoders.base import State, sources_of


class OwnAttention(OwnBrick):
    """`forward(x, mask)`: B×T×d, mask B×T → B×T×d, or that and weights B×h×T×T.

    It knows of no cache: what it has read stands there instead of keys, and it reads all of that again with each new
    token. `rotation` (rotary positions) and `seen` (B×T×T: which tokens each may see, where documents are kept apart)
    are for those whose `forward` names them.
    """

    forward_offers = ("mask", "rotation", "seen")
    in_pieces = ("extend",)
    is_cross_attention = False
    head_output = ""
    """Nothing: what a head finds is not seen from outside."""
    kv_heads = 1
    output = None
    _new: Callable[[Tensor], Tensor] = staticmethod(lambda whole: whole)
    """What is new, of what there is for all tokens."""

    def __init__(self, part: OwnPart, *, width: int, heads: int, causal: bool, head_width: int, **offered: Any) -> None:
        super().__init__(part, width=width, heads=heads, causal=causal, head_width=head_width, **offered)
        self.head_width, self.causal, self._heads = width, causal, heads
        self.value_width = head_width // 2 * 2 if "rotation" in self.takes else 0
        """Of what stands instead of values: cosines and sines of the angles."""

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
        found = self.call(x, mask=None if seen is not None else mask, rotation=rotation, seen=seen)
        return self.of_shape(found[0] if isinstance(found, tuple) and found else found, *x.shape)

    def extend(self, x: Vectors, past: KeyValues, place: Place, rotation: Rotation | None = None) -> Vectors:
        """T new tokens after those that stand in `past`; they are added there."""
        batch, new, end = x.shape[0], x.shape[1], place.extent
        angles = x.new_zeros(batch, new, 0)
        if rotation is not None and self.value_width:
            angles = torch.cat(rotation, -1).expand(batch, new, -1)
        past.add(x.unsqueeze(1), angles.unsqueeze(1), place)
        if rotation is not None:
            rotation = Rotation(*past.values[:, 0, :end].chunk(2, -1))
        mask = place.seen[:, -1] if place.seen is not None and place.seen.dim() == 3 else place.seen

        def of_new(whole: Tensor) -> Tensor:
            """The rows of the new tokens, of what there is for all."""
            if place.positions.dim() == 1:
                return whole[..., end - new : end, :]
            where = place.positions.clamp(max=end - 1)  # rows in which nobody writes may have come past it
            where = where.view(batch, *[1] * (whole.dim() - 3), new, 1)
            return whole.gather(-2, where.expand(*whole.shape[:-2], new, whole.shape[-1]))

        self._new = of_new
        try:
            return of_new(self.forward(past.keys[:, 0, :end].to(x.dtype), mask, rotation=rotation))
        finally:
            del self._new

    @cached_property
    def _weights_shape(self) -> tuple[int, ...]:
        """Of the weights that it gives for two tokens; nothing, where it gives none."""
        like = next(self.own.parameters(), torch.empty(0))
        training = self.own.training
        self.own.eval()
        with torch.no_grad():
            angles = like.new_zeros(2, self.value_width // 2)
            rotation = Rotation(angles + 1, angles) if self.value_width else None
            found = self.call(like.new_zeros(1, 2, self.head_width), mask=None, rotation=rotation, seen=None)
        self.own.train(training)
        weights = found[1] if isinstance(found, tuple) and len(found) > 1 else None
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else ()
        return shape if len(shape) in (3, 4) and shape[0] == 1 and shape[-2:] == (2, 2) else ()

    @property
    def gives_weights(self) -> bool:
        return bool(self._weights_shape)

    @property
    def heads(self) -> int:
        """Those that can be looked at."""
        return (self._weights_shape[1] if len(self._weights_shape) == 4 else 1) if self.gives_weights else self._heads

    def record_inside(
        self, keep: Callable[[str, Make], None], wants: Callable[[str], bool]
    ) -> Iterator[RemovableHandle]:
        """A hook that records the weights that it gives."""

        def hook(module: nn.Module, args: Any, found: Any) -> None:
            if isinstance(found, tuple) and len(found) > 1 and isinstance(weights := found[1], Tensor):
                of_new = self._new
                keep("weights", lambda: of_new(weights))

        if wants("weights"):
            yield self.own.register_forward_hook(hook)


class Block(Brick, nn.Module):
    """Attention among the tokens, attention to a memory if there is one, and feed-forward; a residual around each."""

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
        """`seen`: where each token looks at others than the mask says."""
        x = self.around_attend(x, lambda x: self.attend(x, mask if seen is None else seen, rotation=rotation), mask)
        if self.cross_attention is not None and self.around_cross_attention is not None:
            cross = self.cross_attention
            x = self.around_cross_attention(x, lambda x: cross(x, memory=memory), mask)
        return self._feed(x, mask)

    def extend(
        self, x: Vectors, state: "TransformerState", layer: int, place: Place, mask: Mask, rotation: Rotation | None
    ) -> Vectors:
        past = state.past[layer]
        x = self.around_attend(x, lambda x: self.attend.extend(x, past, place, rotation), mask)
        if self.cross_attention is not None and self.around_cross_attention is not None:
            look_at, kept = self.cross_attention.look_at, state.cross[layer]
            x = self.around_cross_attention(x, lambda x: look_at(x, kept, state.memory_mask, state.share), mask)
        return self._feed(x, mask)

    def _feed(self, x: Vectors, mask: Mask) -> Vectors:
        if self.feed is not None and self.around_feed is not None:
            x = self.around_feed(x, self.feed, mask)
        return x


@dataclass(eq=False)
class TransformerState(State):
    """Keys and values of the past, layer by layer, and of the memory (`cross`): the KV cache.

    A row's tokens stand in its first columns. `lengths` says how many there are, which is the position of its next one.
    No row has more than `filled`; where all have just as many, which the host then knows, they are `alike`. The memory
    is kept once for each source; so many rows as `share` says, one after the other, look at it.
    """

    past: list[KeyValues]
    cross: list[KeyValues]
    memory_mask: Bool[Tensor, "N S"] | None
    share: int = 1
    filled: int = 0
    alike: bool = True
    fused: "Callable[[Tensor, TransformerState], Tensor] | Literal[False] | None" = None
    """What makes a step of fewer kernels; False: it cannot be had; None: nobody asked yet."""

    def __post_init__(self) -> None:
        keys = self.past[0].keys
        self.lengths: Rows = torch.zeros(len(keys), dtype=torch.long, device=keys.device)

    @property
    def max_tokens(self) -> int:
        return self.past[0].keys.shape[2]

    def admit(self, new: int, mask: Mask, *, causal: bool) -> Place:
        """Make ready for new tokens of every row; gives where they stand."""
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
        if self.in_place:  # rows in which nobody writes stop at their last column
            self.lengths.clamp_(max=self.max_tokens - 1)
        self.alike = self.alike and mask is None
        if not causal and not self.alike:
            seen = columns < self.lengths.unsqueeze(1)
        return Place(index, self.filled, seen)

    def put(self, rows: Int[Tensor, "n"], other: State) -> None:
        assert isinstance(other, TransformerState)
        for layer, new in zip(self.past, other.past, strict=True):
            for part, new_part in zip(layer, new, strict=True):
                part[rows, :, : other.filled] = new_part[:, :, : other.filled]
        self.lengths[rows] = other.lengths
        self.filled, self.alike = max(self.filled, other.filled), False

    def fix(self, extent: int) -> bool:
        if not self.in_place:  # from now on rows are looked at past their ends: there must be numbers
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
        """What follows the tokens so far is never read before it is written, where all rows are alike: it need not be
        copied. Others look past a short row's end, where there must be numbers.
        """
        new = (part.new_empty if self.alike else part.new_zeros)(len(rows), *part.shape[1:])
        # straight into its place, which takes half the time; nothing is learned through rows that were chosen
        torch.index_select(part.detach()[:, :, : self.filled], 0, rows, out=new[:, :, : self.filled])
        return new
