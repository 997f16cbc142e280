"""Self-attention of a person's own, in a block of ours."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks import Vectors
from glassformer.bricks.attention import KeyValues, Place
from glassformer.bricks.own import OwnBrick
from glassformer.bricks.positions import Rotation
from glassformer.bricks.tap import Make
from glassformer.config.plugins import OwnPart


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
