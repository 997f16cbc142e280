"""How processes share a training: each holds the whole model, and they average their gradients (DDP); or each holds a
part of every weight, gradient and memory of the optimiser, and weights come together where they are used (FSDP).

What is updated is `weights`, by name: the whole ones, or this process's shards of them.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.models.weights import put_weights, take_weights, trained_weights
from glassformer.runs.checkpoints import STARTS
from glassformer.runs.stored_tensors import Rows
from glassformer.training.device import StepLoss
from glassformer.training.distributed.processes import Processes
from glassformer.training.update_rules import Muon


class Replicated:
    """Every process holds the whole model. One process is a world of one."""

    def __init__(self, loss: StepLoss, processes: Processes, device: torch.device) -> None:
        self.model = loss.model
        self.stepper: nn.Module = loss
        if processes.world > 1:
            self.stepper = DistributedDataParallel(loss, device_ids=[device] if device.type == "cuda" else None)
        self.weights: dict[str, Tensor] = trained_weights(loss.model)
        """What is trained, by name."""

    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        """Processes exchange gradients once a step: with the last piece."""
        if last or not isinstance(self.stepper, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.stepper.no_sync()

    def collect(self) -> None:
        """After the backward pass: gradients stand beside the weights that are updated."""

    def zero(self) -> None:
        """Forget the gradients."""
        for weight in self.weights.values():
            weight.grad = None

    def size(self, name: str) -> int:
        """How many numbers a whole weight has."""
        return self.weights[name].numel()

    def sum(self, squares: Tensor) -> Tensor:
        """Of numbers that were summed over these weights, those over all of them."""
        return squares

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return nn.utils.get_total_norm(gradients)

    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Each process has the whole model, to use it as it likes."""
        yield

    def empty_model(self) -> nn.Module:
        """The model on its device, for other weights."""
        return self.model

    def take_weights(self) -> dict[str, Tensor]:
        """All weights by name; of several processes, the first one has them."""
        return take_weights(self.model)

    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        put_weights(self.model, dict(weights), "the checkpoint")

    def rows(self, optimiser: Mapping[str, Tensor], average: Mapping[str, Tensor]) -> dict[str, Rows]:
        """What this process writes of a checkpoint."""
        parts = zip(STARTS, (self.named_tensors(), optimiser, average), strict=True)
        found = {
            start + name: self.rows_of(name.partition("/")[0], tensor)
            for start, part in parts
            for name, tensor in part.items()
        }
        return {name: rows for name, rows in found.items() if rows is not None}

    def rows_of(self, name: str, tensor: Tensor) -> Rows | None:
        """A weight, or what is remembered of the weight of this name; None: another process writes it."""
        return Rows(tensor)

    def named_tensors(self) -> dict[str, Tensor]:
        """The weights as this process has them."""
        return take_weights(self.model)

    def muon(self, groups: Sequence[dict[str, Any]], **settings: Any) -> Muon:
        return Muon(groups, **settings)

    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a checkpoint holds of the weights that are updated here: the average, what an optimiser remembers."""
        return dict(stored)
