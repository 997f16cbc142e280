"""What can be looked at inside a model: taps beside tensors, and what a brick says of itself."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

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


@runtime_checkable
class Changes(Protocol):
    """What is to become of what a module records, by its names there."""

    def wants(self, name: str) -> bool:
        """Whether this is to be changed."""

    def __call__(self, name: str, tensor: Tensor, at: int = 0) -> Tensor:
        """The tensor as it is to be: itself, where nobody changes it. `at`: the first of its tokens, of this call's."""


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
    in_pieces: ClassVar[tuple[str, ...]] = ("extend",)
    """Methods, where it has them, that do for new tokens what `forward` does for all; x comes first there too."""

    def record(self, args: tuple[Any, ...], output: Any) -> Recorded:
        """What `capture` records of a call: what it was called with first, and what it gave."""
        if args:
            first = args[0]
            yield "input", lambda: first
        yield from record_output(self, args, output)

    def changed(self, args: tuple[Any, ...], output: Any, change: Changes) -> Any:
        """What a call would have given, had what is recorded of it, beside its input, been changed."""
        return changed_output(output, change)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        """Its layers of hidden units, for the doctor, beside those of the bricks in it."""
        return iter(())


def record_output(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    if isinstance(output, Tensor):
        yield "output", lambda: output


def changed_output(output: Any, change: Changes) -> Any:
    """A tensor, the first of several, or those that have names."""
    if isinstance(output, Tensor):
        return change("vectors", change("output", output))
    if hasattr(output, "_asdict"):
        return output._replace(**{name: change(name, part) for name, part in output._asdict().items()})
    return (changed_output(output[0], change), *output[1:]) if isinstance(output, tuple) else output


def record_vectors(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    """The vectors that are made of an example, which may come with a mask."""
    vectors = output[0] if isinstance(output, tuple) else output
    yield "vectors", lambda: vectors
