"""A training step as CUDA graphs: small models then wait for arithmetic, and no longer for launches."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.config.errors import Say
from glassformer.models.cuda_graph import record

RUNS_BEFORE, MOST_SHAPES = 2, 4
"""Steps of a shape that are run as they are before it is recorded; shapes that are recorded at most, as each holds what
its step needs of memory.
"""


@dataclass(frozen=True)
class Recording:
    """A step on batches of one shape, as three graphs: a host that reads the loss while the backward pass runs has time
    to call the update off.
    """

    tensors: tuple[Tensor, ...]
    share: Tensor
    loss: Tensor
    weights: list[Tensor]
    gradients: list[Tensor | None]
    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph
    update: torch.cuda.CUDAGraph

    def find_loss(self, tensors: Sequence[Tensor], share: float) -> Tensor:
        torch._foreach_copy_(list(self.tensors), list(tensors))
        self.share.fill_(share)
        self.forward.replay()
        return self.loss

    def make_gradients(self) -> None:
        """Gradients of the loss found last, where an update that is not recorded would look for them, too."""
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        self.backward.replay()


class StepRecorder:
    """Recordings by the shape of a batch."""

    def __init__(
        self,
        weights: Sequence[Tensor],
        device: torch.device,
        *,
        loss: Callable[[tuple[Tensor, ...], Tensor], Tensor],
        backward: Callable[[Tensor], None],
        update: Callable[[], None],
        say: Say,
    ) -> None:
        """`loss`: of a batch, times a factor. `backward`: its gradients. `update`: what is done with these."""
        self._weights, self._device = list(weights), device
        self._loss, self._backward, self._update = loss, backward, update
        self._say = say
        self._times: Counter[tuple[object, ...]] = Counter()
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._can_record = True
        self._pool = torch.cuda.graph_pool_handle()
        """Memory that all share, as no two are ever at work at once."""

    def find(self, tensors: tuple[Tensor, ...]) -> Recording | None:
        """The recording of a step on a batch like this, made now if it is time for it; None: run it as it is."""
        shape = tuple((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors)
        if shape not in self._recordings and self._can_record:
            self._times[shape] += 1
            if self._times[shape] > RUNS_BEFORE and len(self._recordings) < MOST_SHAPES:
                recording = self._record(tensors)
                if recording is None:
                    self._can_record = False
                else:
                    self._recordings[shape] = recording
        return self._recordings.get(shape)

    def _record(self, tensors: tuple[Tensor, ...]) -> Recording | None:
        # laid out just alike: a compiled step would be compiled again for others
        fixed = tuple(
            torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device) for one in tensors
        )
        torch._foreach_copy_(list(fixed), list(tensors))
        share = torch.zeros((), device=self._device)
        losses: list[Tensor] = []
        for weight in self._weights:
            weight.grad = None
        graphs: list[torch.cuda.CUDAGraph] = []
        for work in (
            lambda: losses.append(self._loss(fixed, share)),
            lambda: self._backward(losses[0]),
            self._update,
        ):
            graph = record(work, self._device, self._say, pool=self._pool)
            if graph is None:
                for weight in self._weights:
                    weight.grad = None
                return None
            graphs.append(graph)
        gradients = [weight.grad for weight in self._weights]
        return Recording(fixed, share, losses[0].detach(), self._weights, gradients, *graphs)
