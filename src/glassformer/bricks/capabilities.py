"""Capabilities: the one way to ask what a run, a model or a part of a model can do.

A capability is a small protocol. A class declares it by listing it among its bases, and `capability(part, kind)`
returns the part as that type, or None:

    class MyModel(nn.Module, gf.HasWordVectors): ...

    if (model := run.capability(gf.HasWordVectors)) is not None:
        table = model.word_vectors()
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, cast

from torch import nn

Kind = TypeVar("Kind")


class Capability(Protocol):
    """Base class of all capabilities."""

    def __init__(self, *args: Any, **more: Any) -> None:
        """Call the next base class, so that capabilities may be listed before `nn.Module` or after it."""
        super().__init__(*args, **more)

    def lacks(self, kind: type) -> bool:
        """Return whether this object lacks a capability that its class declares; by default it lacks none."""
        return False


def capability(part: object, kind: type[Kind]) -> Kind | None:
    """Return `part` typed as `kind` if its class declares that capability, else None.

    Only declarations count: a class that happens to have the same methods does not have the capability.
    """
    bases = type(part).__mro__
    if kind not in bases or (Capability in bases and cast(Capability, part).lacks(kind)):
        return None
    return cast(Kind, part)


def parts_with(model: nn.Module, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """Yield the path and the module of each part of a model, the model included, that has a capability."""
    for path, module in model.named_modules():
        if (part := capability(module, kind)) is not None:
            yield path, part
