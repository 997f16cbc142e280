"""CUDA graphs: GPU work that is recorded once and replayed, which removes the launch overhead of small models."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from glassformer.config.errors import first_line
from glassformer.config.messages import say_or_warn


def record(
    work: Callable[[], None], device: torch.device, *, pool: "torch.cuda._POOL_HANDLE | None" = None
) -> torch.cuda.CUDAGraph | None:
    """Return the CUDA graph of work on fixed tensors, without running it; None, with a message, if that fails.

    `pool` is memory shared with graphs that never run at the same time.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        torch.cuda.synchronize(device)
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool):
            work()
    except RuntimeError as error:
        cause = error.__context__ or error  # the original error; ending the recording then fails too
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())  # the generator still counts as being recorded
        say_or_warn(
            f"a step cannot be recorded as a CUDA graph ({first_line(cause)[:120]}); going on without, which is slower"
        )
        return None
    return graph


_unrecorded = 0
"""Number of open `unrecorded` contexts."""


@contextmanager
def unrecorded() -> Iterator[None]:
    """Disable recording and replaying of every `Recorder` within the context."""
    global _unrecorded
    _unrecorded += 1
    try:
        yield
    finally:
        _unrecorded -= 1


class Recorder:
    """Runner of a step on fixed tensors: as a recorded graph on a CUDA GPU, directly elsewhere.

    There is one graph per `key`, which stands for all values that the step reads on the host.
    """

    def __init__(self, step: Callable[[], None], device: torch.device, *, records: bool = True) -> None:
        """Wrap a step; `records` is False if it must not be recorded, as for a user's code."""
        self._step, self._device = step, device
        self._records = records and device.type == "cuda"
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        """Graph by key; None after a first direct run, which does the work that cannot be recorded."""

    def run(self, key: Hashable) -> None:
        if _unrecorded:
            self._step()
            return
        graph = self._graphs.get(key)
        if graph is None and self._records and key in self._graphs:
            graph = record(self._step, self._device)
            self._records = graph is not None
        self._graphs[key] = graph
        if graph is None:
            self._step()
        else:
            graph.replay()


def extent_of(length: int, room: int, *, smallest: int) -> int:
    """Return the number of cache columns for a recorded step: the smallest `smallest`·2ⁿ that holds `length` tokens."""
    extent = smallest
    while extent < length:
        extent *= 2
    return min(extent, room)
