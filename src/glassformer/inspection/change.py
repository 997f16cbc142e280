"""Changes of a tensor: scale, zero, replace, or apply a function, for all tokens and heads or some of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.data.wording import counted

Positions = Sequence[int] | Bool[Tensor, "B T"]
"""Positions of tokens, counted from 0, or a mask that selects tokens in each row."""


@dataclass(frozen=True)
class Change:
    """A change of a tensor by a function, or its replacement by `values` if the function is None."""

    function: Callable[[Tensor], Tensor] | None = None
    positions: Positions | None = None
    """The tokens to change; None changes all."""
    heads: Sequence[int] | None = None
    """The heads to change, in tensors that attention computes per head; None changes all."""
    values: Tensor | None = field(default=None, compare=False)
    is_nothing: bool = False
    """Whether the change is the identity."""

    def __post_init__(self) -> None:
        for what, places in (("position", self.positions), ("head", self.heads)):
            if places is None or (isinstance(places, Tensor) and what == "position" and places.dim() == 2):
                continue
            if not isinstance(places, Sequence):
                raise Misuse(f"{what}s of a change are a list, such as [3], not {type(places).__name__}")
            if any(place < 0 for place in places):
                raise Misuse(f"{what} {min(places)} of a change: {what}s count from 0")
            if len(set(places)) < len(places):
                raise Misuse(f"a {what} of a change is named twice")

    def apply(
        self, name: str, tensor: Tensor, axis: int | None, place: Int[Tensor, "R n"], heads: int | None
    ) -> Tensor:
        """Return the changed tensor; entries that are not selected are the same bit for bit.

        `axis` is the axis of the tokens, None if the tensor has none. `place` holds the position of each token, in each
        row or in a single row for all. `heads` is the number of heads, None if the tensor has no heads.
        """
        positions = self._positions(axis)
        if positions is not None and axis is None:
            raise Misuse(f"{name} has no positions: it is one for the whole text")
        if self.heads is not None and max(self.heads, default=0) >= (heads or 0):
            has = f"{counted(heads, 'head')}, 0 to {heads - 1}" if heads else "no heads"
            raise Misuse(f"there is no head {max(self.heads)} of {name}: it has {has}")
        chosen = None
        if self.heads is not None and tensor.dim() == 4:
            chosen = torch.tensor(list(self.heads), dtype=torch.long, device=tensor.device)
        part = tensor if chosen is None else tensor.index_select(1, chosen)
        number = None if positions is None else self._numbers(name, part, place, positions)
        if number is not None and not bool((number >= 0).any()):
            return tensor
        new = self._new(name, part, axis, number, positions)
        if number is not None:
            new = torch.where(_beside(number >= 0, part, axis), new, part)
        return new if chosen is None else tensor.index_copy(1, chosen, new)

    def check(self, name: str, tokens: int, axis: int) -> None:
        """Raise `Misuse` if the change names positions that a text of this many tokens does not have."""
        positions = self._positions(axis)
        for_all = self.positions is None or isinstance(self.positions, Tensor)
        if positions is not None and for_all and len(positions) != tokens:
            raise Misuse(f"a change of {counted(len(positions), 'token')} of {name}, which has {tokens}")
        if positions is not None and max(positions, default=0) >= tokens:
            raise Misuse(f"there is no position {max(positions)} of {name}: this text has {tokens}, from 0 on")

    def _positions(self, axis: int | None) -> Sequence[int] | None:
        """Return the positions to change, or None for all.

        Replacement values for several tokens apply to the first tokens of the text unless positions are given.
        """
        if isinstance(self.positions, Tensor):
            return range(self.positions.shape[1])
        if self.positions is not None or self.values is None or axis is None or self.values.dim() < -axis:
            return self.positions
        return range(self.values.shape[axis]) if self.values.shape[axis] > 1 else None

    def _numbers(self, name: str, part: Tensor, place: Int[Tensor, "R n"], positions: Sequence[int]) -> Tensor:
        """Return the index of each token in `positions`, or −1 if it is not one of them."""
        if isinstance(self.positions, Tensor):
            rows, tokens = self.positions.shape
            if rows != len(part):
                raise Misuse(f"positions of {counted(rows, 'row')} for {name}, which has {len(part)}")
            place = place.expand(rows, -1)
            chosen = self.positions.to(place.device).gather(1, place.clamp(max=tokens - 1)) & (place < tokens)
            return torch.where(chosen, place, -1)
        asked = torch.tensor(list(positions), dtype=torch.long, device=place.device)
        equal = place.unsqueeze(-1) == asked
        return torch.where(equal.any(-1), equal.long().argmax(-1) if len(asked) else -1, -1)

    def _new(
        self, name: str, part: Tensor, axis: int | None, number: Tensor | None, positions: Sequence[int] | None
    ) -> Tensor:
        if self.function is not None:
            new = self.function(part)
            if not isinstance(new, Tensor) or new.shape != part.shape:
                made = _shape(new) if isinstance(new, Tensor) else type(new).__name__
                raise Misuse(f"a change of {name} gave {made}, but it is {_shape(part)}")
            return new.to(part)
        assert self.values is not None
        shape = list(part.shape)
        if axis is not None and positions is not None:
            shape[axis] = len(positions)
        try:
            values = self.values.detach().to(part).expand(shape)
        except RuntimeError:
            wanted = "×".join(map(str, shape))
            raise Misuse(f"a replacement of {_shape(self.values)} for {name}, which is {wanted}") from None
        if number is None or axis is None:
            return values
        return values.gather(axis, _beside(number.clamp(min=0), part, axis).expand_as(part))


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "one number"


def _beside(places: Tensor, part: Tensor, axis: int | None) -> Tensor:
    """Return values per row and token, reshaped to broadcast over a tensor whose tokens are along `axis`."""
    assert axis is not None
    if part.dim() + axis == 0:  # The tensor has no rows, so that the values of one row hold for all.
        places = places[0]
    else:
        places = places.view(len(places), *[1] * (part.dim() + axis - 1), -1)
    return places.view(*places.shape, *[1] * (-axis - 1))


def scale(factor: float, positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Return a change that multiplies by a factor: 0 switches the tensor off, 1 leaves it unchanged."""
    return Change(lambda tensor: tensor * factor, positions, heads, is_nothing=factor == 1)


def zero(positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Return a change that sets the tensor to 0."""
    return Change(torch.zeros_like, positions, heads)


def replace(values: Any, positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Return a change that inserts other values, such as those of another text.

    The shape of the values must broadcast to the part that is replaced.
    """
    return Change(None, positions, heads, values=torch.as_tensor(values))
