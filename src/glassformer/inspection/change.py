"""A change of a tensor: scaled, zeroed, replaced, or what a function makes of it; of all tokens and heads, or some."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.data.wording import counted

Positions = Sequence[int] | Bool[Tensor, "B T"]
"""Those of some tokens, counted from 0, or for each row which they are."""


@dataclass(frozen=True)
class Change:
    """What becomes of a tensor: what a function makes of it, or else other values."""

    function: Callable[[Tensor], Tensor] | None = None
    positions: Positions | None = None
    """The tokens whose part is changed; None: all."""
    heads: Sequence[int] | None = None
    """The heads whose part is changed, of what attention computes for each; None: all."""
    values: Tensor | None = field(default=None, compare=False)
    is_nothing: bool = False
    """It leaves everything as it is."""

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
        """`axis`: along which its tokens lie; `place`: the position of each, of all rows or of one that stands for all;
        `heads`: how many it has. What is not changed is the same, bit for bit.
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
        """Refuse what a text of so many tokens does not have."""
        positions = self._positions(axis)
        for_all = self.positions is None or isinstance(self.positions, Tensor)
        if positions is not None and for_all and len(positions) != tokens:
            raise Misuse(f"a change of {counted(len(positions), 'token')} of {name}, which has {tokens}")
        if positions is not None and max(positions, default=0) >= tokens:
            raise Misuse(f"there is no position {max(positions)} of {name}: this text has {tokens}, from 0 on")

    def _positions(self, axis: int | None) -> Sequence[int] | None:
        """Values for several tokens stand for the first of a text, where nothing else is said."""
        if isinstance(self.positions, Tensor):
            return range(self.positions.shape[1])
        if self.positions is not None or self.values is None or axis is None or self.values.dim() < -axis:
            return self.positions
        return range(self.values.shape[axis]) if self.values.shape[axis] > 1 else None

    def _numbers(self, name: str, part: Tensor, place: Int[Tensor, "R n"], positions: Sequence[int]) -> Tensor:
        """Which of the positions each token is; −1: none of them."""
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
    """What is said of each row's tokens, so that it broadcasts over a tensor in which they lie along an axis."""
    assert axis is not None
    if part.dim() + axis == 0:  # no rows: what holds of one holds of all
        places = places[0]
    else:
        places = places.view(len(places), *[1] * (part.dim() + axis - 1), -1)
    return places.view(*places.shape, *[1] * (-axis - 1))


def scale(factor: float, positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Times a factor: 0 switches off, 1 leaves everything as it is."""
    return Change(lambda tensor: tensor * factor, positions, heads, is_nothing=factor == 1)


def zero(positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Zeros in its place."""
    return Change(torch.zeros_like, positions, heads)


def replace(values: Any, positions: Positions | None = None, heads: Sequence[int] | None = None) -> Change:
    """Other values, such as those of another text, of any shape that broadcasts to the part that is replaced."""
    return Change(None, positions, heads, values=torch.as_tensor(values))
