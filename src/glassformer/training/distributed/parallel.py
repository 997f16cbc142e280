"""How processes share a training: each holds the whole model, and they average their gradients (DDP); or each holds a
part of every weight, gradient and memory of the optimiser, and weights come together where they are used (FSDP).

What is updated is `weights`, by name: the whole ones, or this process's shards of them.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.models.weights import put_weights, take_weights, trained_weights
from glassformer.training.device import StepLoss
from glassformer.training.distributed.processes import Processes
from glassformer.training.update_rules import Muon


class Parallel(ABC):
    """What training asks of the processes that share it, whatever each holds of the model."""

    model: nn.Module
    """The model that others know."""
    stepper: nn.Module
    """What computes the loss of a step."""
    weights: dict[str, Tensor]
    """What is trained, by name: whole weights, or this process's shards of them."""

    @abstractmethod
    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        """Processes exchange gradients once per step: with the last piece."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return how many numbers a whole weight has."""

    @abstractmethod
    def sum(self, squares: Tensor) -> Tensor:
        """Return sums over all weights, given sums over those of this process."""

    @abstractmethod
    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Each process has the whole model, to use it as it likes."""

    @abstractmethod
    def empty_model(self) -> nn.Module:
        """Return the model on its device, to be filled with other weights."""

    @abstractmethod
    def take_weights(self) -> dict[str, Tensor]:
        """Return all weights by name, on the first process; others may get none."""

    @abstractmethod
    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Fill the model with the weights of a checkpoint."""

    @abstractmethod
    def muon(self, groups: Sequence[dict[str, Any]], **settings: Any) -> Muon:
        """Return the Muon of these weights."""

    @abstractmethod
    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what a checkpoint holds of the weights updated here: their average or their optimiser state."""

    @abstractmethod
    def collect(self) -> None:
        """After the backward pass: put gradients beside the weights that are updated."""

    def zero(self) -> None:
        """Forget the gradients."""
        for weight in self.weights.values():
            weight.grad = None

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm of the gradients of all weights."""
        return nn.utils.get_total_norm(gradients)


class Replicated(Parallel):
    """Every process holds the whole model. One process is a world of one."""

    def __init__(self, loss: StepLoss, processes: Processes, device: torch.device) -> None:
        self.model, self.stepper = loss.model, loss
        if processes.world > 1:
            self.stepper = DistributedDataParallel(loss, device_ids=[device] if device.type == "cuda" else None)
        self.weights = trained_weights(loss.model)

    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        if last or not isinstance(self.stepper, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.stepper.no_sync()

    def collect(self) -> None:
        """Gradients are there already."""

    def size(self, name: str) -> int:
        return self.weights[name].numel()

    def sum(self, squares: Tensor) -> Tensor:
        return squares

    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        yield

    def empty_model(self) -> nn.Module:
        return self.model

    def take_weights(self) -> dict[str, Tensor]:
        return take_weights(self.model)

    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        put_weights(self.model, dict(weights), "the checkpoint")

    def muon(self, groups: Sequence[dict[str, Any]], **settings: Any) -> Muon:
        return Muon(groups, **settings)

    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(stored)
