"""What can be looked at inside a model: taps beside tensors, and what a brick says of itself."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

Tapped = TypeVar("Tapped", Tensor, Tensor | None)


class Tap(nn.Module):
    """Passes a tensor on untouched. Its place in the model names the tensor; a forward hook can record it."""

    def forward(self, x: Tapped) -> Tapped:
        return x


Make = Callable[[], Tensor]
"""Makes a tensor when it is asked for."""
Recorded = Iterator[tuple[str, Make]]
"""Names, which follow that of the module, and what they stand for."""


class HiddenUnits(NamedTuple):
    """A layer of hidden units."""

    name: str
    """What follows the name of the module."""
    layer: nn.Module
    """The module that gives what goes into the units, or what comes out of them."""
    activation: Callable[[Tensor], Tensor] | None = F.relu
    """None: what the module gives has come out of the units."""
    dim: int = -1
    """Where the units lie."""


class Brick:
    """What a module says of itself to those who look inside. Beside it stands `nn.Module`, or one of torch's own."""

    opaque: bool = True
    """Only the bricks and taps inside are recorded, not every plain module."""
    part_names: ClassVar[Mapping[str, str]] = {}
    """What the output of a part is called, if not by the part's own name."""

    def record(self, args: tuple[Any, ...], output: Any) -> Recorded:
        """What `capture` records of a call: what it was called with first, and what it gave."""
        if args:
            first = args[0]
            yield "input", lambda: first
        yield from record_output(self, args, output)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        """Its layers of hidden units, for the doctor, beside those of the bricks in it."""
        return iter(())


def record_output(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    if isinstance(output, Tensor):
        yield "output", lambda: output


def record_vectors(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    """The vectors that are made of an example, which may come with a mask."""
    vectors = output[0] if isinstance(output, tuple) else output
    yield "vectors", lambda: vectors
