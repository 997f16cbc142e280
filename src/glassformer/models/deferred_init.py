"""A model without numbers, whose first weights can be had one at a time: no process ever holds all of them.

Everything that is done to a tensor while a model is built on the meta device is noted. A tensor is made later by doing
the same again, with the same random numbers, to it alone; so its numbers are those of a model that is built at once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map_only

from glassformer.models.weights import DRAWS

IS_META = Tensor.is_meta.__get__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Call:
    """A function that was called while the model was built."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    result: Any
    random_state: Tensor | None
    """Of torch's generator before it, where it draws."""

    @cached_property
    def writes(self) -> set[int]:
        """The storages that it changes: of what it gives, and of the first argument where it works in place."""
        name = self.function.__name__
        changed = [*self.args[:1], *list(self.kwargs.values())[:1]][:1] if _in_place(name) else []
        return _storages([self.result, changed])

    @cached_property
    def reads(self) -> set[int]:
        return _storages([self.args, self.kwargs])


class DeferredInit(TorchFunctionMode):
    """Notes what is done to tensors on the meta device; `make` does it again for one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[_Call] = []

    @staticmethod
    @contextmanager
    def recorded() -> "Iterator[DeferredInit]":
        """Models that are built in here have no numbers yet."""
        deferred = DeferredInit()
        with deferred.recording():
            yield deferred

    @contextmanager
    def recording(self) -> Iterator[None]:
        """What is done to the tensors of such a model in here is noted, too."""
        with torch.device("meta"), self:
            yield

    def __torch_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, state = kwargs or {}, None
        if function == IS_META:  # a brick that asks whether it has numbers will have some
            return False
        if function in DRAWS:
            state = torch.get_rng_state()
            _draw(function, args, kwargs)
        result = function(*args, **kwargs)
        call = _Call(function, args, kwargs, result, state)
        if call.writes:
            self._calls.append(call)
        return result

    def make(self, wanted: Tensor) -> Tensor:
        """The numbers of a tensor of the model."""
        if not wanted.is_meta:
            return wanted
        needed, calls = {_storage(wanted)}, []
        for call in reversed(self._calls):
            if call.writes & needed:
                calls.append(call)
                needed |= call.reads | call.writes
        made = _Made()
        with torch.random.fork_rng([]), torch.no_grad():
            for call in reversed(calls):
                if call.random_state is not None:
                    torch.set_rng_state(call.random_state)
                args, kwargs = made.real((call.args, call.kwargs))
                made.keep(call.result, call.function(*args, **kwargs))
        return made.real(wanted)


class _Made:
    """Real tensors in the places of those without numbers."""

    def __init__(self) -> None:
        self._storages: dict[int, Tensor] = {}

    def keep(self, result: Any, real: Any) -> None:
        for without, with_numbers in zip(_tensors(result), _tensors(real), strict=True):
            self._storages.setdefault(_storage(without), with_numbers.detach())

    def real(self, values: Any) -> Any:
        return tree_map_only(Tensor, self._tensor, values)

    def _tensor(self, tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        whole = self._storages.get(_storage(tensor))
        if whole is None:  # nothing was done to it before
            whole = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype)
            self._storages[_storage(tensor)] = whole
        return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _draw(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Draw as many numbers as a real model would, and forget them."""
    with torch.device("cpu"), torch.no_grad():
        args, kwargs = tree_map_only(Tensor, _alike, (args, kwargs))
        function(*args, **kwargs)


def _alike(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)


def _in_place(name: str) -> bool:
    return name in ("__setitem__", "__set__") or (name.startswith("__i") if name.endswith("__") else name.endswith("_"))


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_iter(values) if isinstance(value, Tensor))


def _storages(values: Any) -> set[int]:
    return {_storage(tensor) for tensor in _tensors(values) if tensor.is_meta}


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
