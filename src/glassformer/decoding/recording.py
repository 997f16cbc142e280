"""A step that a CUDA GPU records once and replays: a small model's step is then no longer a thousand launches."""

from collections.abc import Callable, Hashable

import torch

from glassformer.config.errors import Say, first_line, silent


class Recorder:
    """Runs a step that reads and writes fixed tensors: on a CUDA GPU as a graph that was recorded, elsewhere as it is.

    One graph for each `key`, which names all that the step asks of the host. Where a graph cannot be had, one line says
    so, and steps are run as they are.
    """

    def __init__(
        self, step: Callable[[], None], device: torch.device, *, compile: bool = False, say: Say = silent
    ) -> None:
        self._step = torch.compile(step, dynamic=False) if compile else step
        self._device = device
        self._records = device.type == "cuda"
        self._say = say
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        """None: run once as it was, which readies what a recording may not; the next time it is recorded."""

    def run(self, key: Hashable) -> None:
        if not self._records:
            self._step()
            return
        if key not in self._graphs:
            self._graphs[key] = None
            self._step()
            return
        graph = self._graphs[key]
        if graph is None:
            graph = self._recorded()
            if graph is None:
                self._step()
                return
            self._graphs[key] = graph
        graph.replay()

    def _recorded(self) -> torch.cuda.CUDAGraph | None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(self._device), torch.cuda.graph(graph):
                self._step()
        except RuntimeError as error:
            self._say(f"the step cannot be recorded as a CUDA graph ({first_line(error)[:120]}); going on without")
            self._records = False
            return None
        return graph


def extent_of(length: int, room: int, *, smallest: int) -> int:
    """How many columns of a cache a step looks at that was recorded for it: as few as hold all tokens, of a few numbers
    of them, each twice the one before.
    """
    extent = smallest
    while extent < length:
        extent *= 2
    return min(extent, room)
