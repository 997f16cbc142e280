"""Distribution of a training run over several processes.

With DDP, each process holds the whole model, and processes average their gradients. With FSDP, each process holds a
shard of every weight, gradient and optimiser state, and weights are gathered where they are used.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.models.weights import put_weights, take_weights, trained_weights
from glassformer.training.checkpointer import Checkpointer
from glassformer.training.device import StepLoss
from glassformer.training.distributed.processes import Processes
from glassformer.training.distributed.shard_writer import ShardWriter
from glassformer.training.update_rules import Muon, WeightGroup


class Parallel(Protocol):
    """The distribution of weights, gradients and optimiser states over the processes of a training run."""

    sharded: bool
    """Whether each process holds only shards of the weights."""
    model: nn.Module
    """The model as its user knows it."""
    stepper: nn.Module
    """The module that computes the loss of a step."""
    weights: dict[str, Tensor]
    """Trained weights of this process by name: whole weights or shards."""

    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        """Return a context in which the backward pass exchanges gradients only if `last`, once per step."""

    def collect(self) -> None:
        """Attach the gradients to `weights` after the backward pass."""

    def zero(self) -> None:
        """Delete the gradients."""

    def size(self, name: str) -> int:
        """Return the number of elements of a whole weight."""

    def sum(self, squares: Tensor) -> Tensor:
        """Return sums over all weights from the sums over this process's weights."""

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm of the gradients of all weights."""

    def muon(self, groups: Sequence[WeightGroup]) -> Muon:
        """Return a Muon optimiser for these weights."""

    def whole_weights(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which `model` has all its weights on every process."""

    def empty_model(self) -> nn.Module:
        """Return the model on its device, ready to load other weights."""

    def take_weights(self) -> dict[str, Tensor]:
        """Return all weights by name on the first process; other processes may get none."""

    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights of a checkpoint."""

    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return this process's part of an average or an optimiser state in a checkpoint."""

    def shard_writer(self, checkpointer: Checkpointer) -> ShardWriter | None:
        """Return the writer of sharded checkpoints; None if checkpoints are whole or not kept."""


class Replicated:
    """Distribution in which every process holds the whole model (DDP, or a single process)."""

    sharded = False

    def __init__(self, loss: StepLoss, processes: Processes, device: torch.device) -> None:
        self.model = loss.model
        self.stepper: nn.Module = loss
        if processes.world > 1:
            self.stepper = DistributedDataParallel(loss, device_ids=[device] if device.type == "cuda" else None)
        self.weights = trained_weights(loss.model)

    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        if last or not isinstance(self.stepper, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.stepper.no_sync()

    def collect(self) -> None:
        """Do nothing: the backward pass has attached the gradients."""

    def zero(self) -> None:
        for weight in self.weights.values():
            weight.grad = None

    def size(self, name: str) -> int:
        return self.weights[name].numel()

    def sum(self, squares: Tensor) -> Tensor:
        return squares

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return nn.utils.get_total_norm(gradients)

    def muon(self, groups: Sequence[WeightGroup]) -> Muon:
        return Muon(groups)

    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        yield

    def empty_model(self) -> nn.Module:
        return self.model

    def take_weights(self) -> dict[str, Tensor]:
        return take_weights(self.model)

    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        put_weights(self.model, dict(weights), "the checkpoint")

    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(stored)

    def shard_writer(self, checkpointer: Checkpointer) -> ShardWriter | None:
        return None
