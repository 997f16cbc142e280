"""Reading the loss of a step without making a GPU wait."""

import torch
from torch import Tensor


class LossWatch:
    """Sums the losses of a step's pieces.

    On a GPU the sum is copied out as soon as the last forward pass is done, while the backward pass runs: reading it
    costs nothing, and a loss that is not finite is known before the weights are touched.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._total = torch.zeros((), device=device)
        if self._cuda:
            self._copy = torch.zeros((), pin_memory=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def add(self, loss: Tensor, *, first: bool, last: bool) -> None:
        detached = loss.detach().float()
        self._total = detached if first else self._total + detached
        if last and self._cuda:
            self._copy.copy_(self._total, non_blocking=True)
            self._copied.record()

    def read(self) -> float:
        if not self._cuda:
            return float(self._total)
        self._copied.synchronize()
        return float(self._copy)
