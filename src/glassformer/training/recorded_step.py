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
    """A step on batches of one shape. Its two graphs leave the host a moment between them to look at the loss."""

    tensors: tuple[Tensor, ...]
    share: Tensor
    loss: Tensor
    weights: list[Tensor]
    gradients: list[Tensor | None]
    backward: torch.cuda.CUDAGraph
    update: torch.cuda.CUDAGraph

    def make_gradients(self, tensors: Sequence[Tensor], share: float) -> Tensor:
        """The loss; the gradients stand where an update that is not recorded would look for them, too."""
        torch._foreach_copy_(list(self.tensors), list(tensors))
        self.share.fill_(share)
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        self.backward.replay()
        return self.loss


class StepRecorder:
    """Recordings by the shape of a batch."""

    def __init__(
        self,
        weights: Sequence[Tensor],
        device: torch.device,
        *,
        backward: Callable[[tuple[Tensor, ...], Tensor], Tensor],
        update: Callable[[], None],
        say: Say,
    ) -> None:
        """`backward`: the loss of a batch, times a factor, and its gradients. `update`: what is done with these."""
        self._weights, self._device = list(weights), device
        self._backward, self._update = backward, update
        self._say = say
        self._times: Counter[tuple[object, ...]] = Counter()
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._can_record = True

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
        backward = record(lambda: losses.append(self._backward(fixed, share)), self._device, self._say)
        gradients = [weight.grad for weight in self._weights]
        update = None if backward is None else record(self._update, self._device, self._say)
        if backward is None or update is None:
            for weight in self._weights:
                weight.grad = None
            return None
        return Recording(fixed, share, losses[0], self._weights, gradients, backward, update)
