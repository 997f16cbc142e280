"""Inspection interface of bricks: taps that name tensors, and what a brick records."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.capabilities import Capability

Tapped = TypeVar("Tapped", Tensor, Tensor | None)


class Tap(nn.Module):
    """Identity module whose name in the model names the tensor. Forward hooks can record or replace it."""

    def forward(self, x: Tapped) -> Tapped:
        return x


Make = Callable[[], Tensor]
"""Function that computes a tensor on demand."""
Recorded = Iterator[tuple[str, Make]]
"""Names relative to the module, and functions that return their tensors."""


@runtime_checkable
class Changes(Protocol):
    """Replacements for the recorded tensors of a module, by name."""

    def wants(self, name: str) -> bool:
        """Return whether there is a replacement for this name."""

    def __call__(self, name: str, tensor: Tensor, at: int = 0) -> Tensor:
        """Return the replaced tensor, or the same one; `at` is the position of its first token in the sequence."""


class HiddenUnits(NamedTuple):
    """A layer of hidden units."""

    name: str
    """Name relative to the module."""
    layer: nn.Module
    """Module whose output is the input or the output of the units."""
    activation: Callable[[Tensor], Tensor] | None = F.relu
    """Activation to apply to the module's output; None if it is already applied."""
    dim: int = -1
    """Axis of the units."""


class Brick:
    """Mixin with which an `nn.Module` describes itself to inspection."""

    opaque: bool = True
    """Whether only the bricks and taps inside are recorded, not every plain module."""
    part_names: ClassVar[Mapping[str, str]] = {}
    """Names for the outputs of parts that differ from the attribute names."""
    incremental_methods: ClassVar[tuple[str, ...]] = ("extend",)
    """Methods that process new tokens as `forward` processes all of them, with x first."""

    def own_incremental_methods(self) -> list[str]:
        """Return the methods of `incremental_methods` that this brick has."""
        return [name for name in self.incremental_methods if hasattr(self, name)]

    def record(self, args: tuple[Any, ...], output: Any) -> Recorded:
        """Yield the tensors that `capture` records of a call, from its positional arguments and its output."""
        if args:
            first = args[0]
            yield "input", lambda: first
        yield from record_output(self, args, output)

    def changed(self, args: tuple[Any, ...], output: Any, change: Changes) -> Any:
        """Return the output of a call after changes to the recorded tensors other than its input."""
        return changed_output(output, change)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        """Yield the layers of hidden units outside the bricks inside it."""
        return iter(())


class RecordsInside(Capability, Protocol):
    """A module that records tensors inside itself with hooks of its own."""

    def record_inside(
        self, keep: Callable[[str, Make], None], wants: Callable[[str], bool]
    ) -> Iterator[RemovableHandle]:
        """Register the hooks for the names that `wants` accepts; they call `keep`."""


def record_output(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    if isinstance(output, Tensor):
        yield "output", lambda: output


def changed_output(output: Any, change: Changes) -> Any:
    """Apply changes to a tensor, to the first of a tuple, or to the fields of a NamedTuple."""
    if isinstance(output, Tensor):
        return change("vectors", change("output", output))
    if hasattr(output, "_asdict"):
        return output._replace(**{name: change(name, part) for name, part in output._asdict().items()})
    return (changed_output(output[0], change), *output[1:]) if isinstance(output, tuple) else output


def record_vectors(module: object, args: tuple[Any, ...], output: Any) -> Recorded:
    """Record the vectors of an example, whose mask may follow them."""
    vectors = output[0] if isinstance(output, tuple) else output
    yield "vectors", lambda: vectors
