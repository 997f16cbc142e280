"""Hooks that record what passes through a model: what its bricks say of themselves, and what other modules give."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.tap import Brick, Make, Recorded, Tap, record_output
from glassformer.encoders.base import Encoder

CONTAINERS = (nn.ModuleList, nn.ModuleDict)
"""They compute nothing."""

Record = Callable[[Any, tuple[Any, ...], Any], Recorded]
"""Of a module, what it was called with, and what it gave."""


class Keeper(Protocol):
    """Who keeps what is recorded."""

    def wants(self, name: str) -> bool: ...

    def keep(self, name: str, make: Make, *, more: bool = False) -> None:
        """`more`: another piece of what is there, further along the tokens."""

    def forget(self, prefix: str) -> None: ...


def hooks_of(model: nn.Module, keeper: Keeper) -> Iterator[RemovableHandle]:
    at_work: list[str] = []  # encoders: what they compute in pieces belongs together

    def watch(module: nn.Module, path: str, record: Record) -> RemovableHandle:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            for name, make in record(module, args, output):
                whole = _joined(path, name)
                keeper.keep(whole, make, more=any(whole.startswith(_under(encoder)) for encoder in at_work))

        return module.register_forward_hook(hook)

    def begin(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            keeper.forget(_under(path))
            at_work.append(path)

        return hook

    def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        at_work.pop()

    opaque: dict[str, bool] = {}  # where plain modules are not recorded
    for path, module in model.named_modules():
        above, _, part = path.rpartition(".")
        parent: Any = model.get_submodule(above) if path else None
        record: Record | None = type(module).record if isinstance(module, Brick) else None
        hidden = opaque.get(above, False)
        opaque[path] = getattr(type(module), "opaque", hidden)
        if isinstance(module, Encoder):
            yield module.register_forward_pre_hook(begin(path))
            yield module.register_forward_hook(end, always_call=True)
        if record is not None and isinstance(parent, Brick) and part in parent.part_names:
            yield watch(module, _joined(above, parent.part_names[part]), _record_itself)
        elif record is not None:
            yield watch(module, path, record)
        elif isinstance(module, Tap) and not hasattr(type(parent), "record_inside"):
            yield watch(module, path, _record_itself)
        elif path and not hidden and not isinstance(module, CONTAINERS):
            yield watch(module, path, record_output)
        if hasattr(type(module), "record_inside"):
            yield from module.record_inside(
                lambda name, make, at=path: keeper.keep(_joined(at, name), make),
                lambda name, at=path: keeper.wants(_joined(at, name)),
            )
    yield watch(model, "logits", _record_itself)


def _record_itself(module: nn.Module, args: tuple[Any, ...], output: Any) -> Recorded:
    """By the name of the module alone."""
    if isinstance(output, Tensor):
        yield "", lambda: output


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part)


def _under(path: str) -> str:
    """What names of parts begin with."""
    return f"{path}." if path else ""
