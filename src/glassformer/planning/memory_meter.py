"""How much memory tensors hold while they come and go: of ones that only have a shape, or of real ones."""

import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Phase(NamedTuple):
    """A part of a step, and the bytes that were held at each moment of it."""

    name: str
    moments: list[int]


class Meter:
    """Bytes that are held, phase by phase."""

    def __init__(self) -> None:
        self._bytes = 0
        self.phases = [Phase("start", [0])]

    @property
    def now(self) -> int:
        return self._bytes

    @property
    def peaks(self) -> dict[str, int]:
        """The most that was held in phases of one name."""
        return peaks_of(self.phases)

    def begin(self, name: str) -> None:
        self.phases.append(Phase(name, [self.now]))

    def _change(self, more: int) -> None:
        """So many bytes more; below 0, fewer."""
        self._bytes += more
        self.phases[-1].moments.append(self._bytes)


def peaks_of(phases: Iterable[Phase]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for name, moments in phases:
        peaks[name] = max(peaks.get(name, 0), *moments)
    return peaks


class TensorMeter(TorchDispatchMode, Meter):  # type: ignore[no-untyped-call]
    """Counts all tensors made while it is on; shared memory counts once.

    What a kernel needs for itself while it runs is no tensor, and not seen.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]
        Meter.__init__(self)
        self._there: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.add(leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out

    def add(self, tensors: Iterable[Tensor]) -> None:
        """They were there before, and count from now on."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata  # of the memory itself, however many tensors look at it
            if key not in self._there:
                self._there[key] = storage.nbytes()
                self._change(storage.nbytes())
                weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self._bytes -= self._there.pop(key)


class AllocationMeter(Meter):
    """Counts what torch takes of a CPU's memory and gives back, whatever for.

    It leaves the computation as it is: while a mode as above is on, some kernels take other roads.
    """

    def __enter__(self) -> "AllocationMeter":
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def now(self) -> int:
        self._stop()
        self._start()
        return self._bytes

    def add(self, tensors: Iterable[Tensor]) -> None:
        """They were there before, and count from now on."""
        sizes = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
        self._bytes += sum(sizes.values())

    def _start(self) -> None:
        kinds: Any = torch.autograd
        kinds._enable_profiler_legacy(
            kinds.ProfilerConfig(
                kinds.ProfilerState.CPU, False, True, False, False, False, torch._C._profiler._ExperimentalConfig()
            )  # False, but for memory
        )

    def _stop(self) -> None:
        kinds: Any = torch.autograd
        for events in kinds._disable_profiler_legacy():
            for event in events:
                if event.kind() == "memory_alloc":
                    self._change(event.cpu_memory_usage())
