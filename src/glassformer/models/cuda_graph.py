"""CUDA graphs: what a GPU is to do, recorded once and replayed, so that a small model is no longer all launches."""

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from glassformer.config.errors import Say, first_line


def record(
    work: Callable[[], None], device: torch.device, say: Say, *, pool: "torch.cuda._POOL_HANDLE | None" = None
) -> torch.cuda.CUDAGraph | None:
    """The graph of work on fixed tensors, which is not done yet; None where there can be none, and one line says so.

    `pool`: memory that it shares with graphs which never run beside it.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        torch.cuda.synchronize(device)
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool):
            work()
    except RuntimeError as error:
        cause = error.__context__ or error  # what went wrong; ending the recording then goes wrong too
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())  # this one believes that it is still being recorded
        say(f"a step cannot be recorded as a CUDA graph ({first_line(cause)[:120]}); going on without, which is slower")
        return None
    return graph


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=2)


_unrecorded = 0
"""How many want every step done as it is."""


@contextmanager
def unrecorded() -> Iterator[None]:
    """While this is open, no `Recorder` records a step, nor replays one."""
    global _unrecorded
    _unrecorded += 1
    try:
        yield
    finally:
        _unrecorded -= 1


class Recorder:
    """Runs a step that reads and writes fixed tensors: on a CUDA GPU as a graph that was recorded, elsewhere as it is.

    One graph for each `key`, which names all that the step asks of the host.
    """

    def __init__(
        self, step: Callable[[], None], device: torch.device, say: Say = _warn, *, records: bool = True
    ) -> None:
        """`records`: whether the step may be recorded at all, which a person's own code may not."""
        self._step, self._device = step, device
        self._records = records and device.type == "cuda"
        self._say = say
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        """None: run once as it is, which readies what cannot be done in a recording; the next time it is recorded."""

    def run(self, key: Hashable) -> None:
        if _unrecorded:
            self._step()
            return
        graph = self._graphs.get(key)
        if graph is None and self._records and key in self._graphs:
            graph = record(self._step, self._device, self._say)
            self._records = graph is not None
        self._graphs[key] = graph
        if graph is None:
            self._step()
        else:
            graph.replay()


def extent_of(length: int, room: int, *, smallest: int) -> int:
    """How many columns of a cache a step looks at that was recorded for it: as few as hold all tokens, of a few numbers
    of them, each twice the one before.
    """
    extent = smallest
    while extent < length:
        extent *= 2
    return min(extent, room)
