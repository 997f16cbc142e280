"""Fully sharded data parallel training (FSDP2): every process holds its rows of each weight.

Imported only when used, because torch's modules for it take seconds to import.
"""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from glassformer.bricks.capabilities import parts_with
from glassformer.config.errors import SettingError
from glassformer.encoders.base import StackedBlock
from glassformer.models.weights import refuse_misfit, take_weights, trained_weights
from glassformer.runs.checkpoints import PREFIXES
from glassformer.runs.stored_tensors import Rows, StoredTensors
from glassformer.training.checkpointer import Checkpointer
from glassformer.training.device import PRECISIONS, Precision, StepLoss
from glassformer.training.distributed.processes import Processes
from glassformer.training.distributed.shard_writer import ShardWriter
from glassformer.training.update_rules import Muon, WeightGroup, orthogonalise


class Sharded:
    """Distribution in which every process holds its rows of each weight.

    The trained model is a twin of `model`, which has values only inside `whole_weights`. Blocks of a Transformer are
    gathered one at a time, the other weights of the twin for a whole step.
    """

    sharded = True

    def __init__(self, loss: StepLoss, processes: Processes, device: torch.device, precision: Precision) -> None:
        self.model, self.processes, self.device = loss.model, processes, device
        self.stepper: nn.Module = loss
        for name, weight in self.model.named_parameters():
            if not weight.dim():
                raise SettingError(f"training.parallel fsdp: {name} is a single number: make it a vector of one")
        start = dict(_tensors(self.model))
        _assign(self.model, {name: _without_values(tensor) for name, tensor in self.model.named_parameters()}, {})
        self.twin = loss.model = copy.deepcopy(self.model)
        self._mesh = init_device_mesh(device.type, (processes.world,))
        # Weights of blocks are gathered in the precision of their products. Inputs are not cast: autocast chooses what
        # is computed in half precision, as on one process.
        half, single = PRECISIONS.get(precision.name), torch.float32
        policy = MixedPrecisionPolicy(half, single, cast_forward_inputs=False)
        for block in [loss.get_submodule(path) for path, _ in parts_with(loss, StackedBlock)]:
            fully_shard(block, mesh=self._mesh, mp_policy=policy)
        policy = MixedPrecisionPolicy(None, single, cast_forward_inputs=False)
        fully_shard(loss, mesh=self._mesh, mp_policy=policy, reshard_after_forward=False)
        loss.to_empty(device=device)
        for name, tensor in _tensors(self.twin):
            self._put(tensor, self._from_first(start.pop(name)))
        self._dtensors = trained_weights(self.twin)
        self.weights = {name: shard_of(weight) for name, weight in self._dtensors.items()}

    # --- a step ---

    def exchange(self, *, last: bool) -> contextlib.AbstractContextManager[object]:
        assert isinstance(self.stepper, FSDPModule)
        self.stepper.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    def collect(self) -> None:
        for name, weight in self._dtensors.items():
            self.weights[name].grad = None if weight.grad is None else shard_of(weight.grad)

    def zero(self) -> None:
        for weight in (*self.weights.values(), *self._dtensors.values()):
            weight.grad = None

    def size(self, name: str) -> int:
        return self._dtensors[name].numel()

    def sum(self, squares: Tensor) -> Tensor:
        dist.all_reduce(squares)
        return squares

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return self.sum(nn.utils.get_total_norm(gradients).square()).sqrt()

    def muon(self, groups: Sequence[WeightGroup]) -> Muon:
        rows = {id(self.weights[name]): weight.shape[0] for name, weight in self._dtensors.items()}
        return ShardedMuon(groups, rows, self.processes)

    # --- the unsharded model ---

    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        bare = {name: _without_values(weight) for name, weight in self.model.named_parameters()}
        buffers = dict(self.twin.named_buffers(remove_duplicate=False))
        for buffer in buffers.values():  # they differ, because each process saw other batches
            dist.broadcast(buffer, 0)
        with torch.no_grad():
            weights = {name: _whole(weight) for name, weight in self.twin.named_parameters()}
        whole = {name: nn.Parameter(weight, bare[name].requires_grad) for name, weight in weights.items()}
        _assign(self.model, whole, {name: buffer.clone() for name, buffer in buffers.items()})
        try:
            yield
        finally:
            _assign(self.model, bare, {})

    def empty_model(self) -> nn.Module:
        empty = {name: torch.empty_like(weight, device=self.device) for name, weight in self.model.named_parameters()}
        weights = {name: nn.Parameter(weight) for name, weight in empty.items()}
        _assign(self.model, weights, dict(self.twin.named_buffers(remove_duplicate=False)))
        return self.model

    @torch.no_grad()
    def take_weights(self) -> dict[str, Tensor]:
        whole = {}
        for name, weight in take_weights(self.twin).items():
            value = _whole(weight)
            if self.processes.first:
                whole[name] = value.cpu()
        return whole

    # --- checkpoints ---

    def shard_writer(self, checkpointer: Checkpointer) -> ShardWriter | None:
        if checkpointer.folder is None:
            return None
        return ShardWriter(checkpointer.folder, checkpointer, self.processes, self.rows)

    def rows(self, optimiser: Mapping[str, Tensor], average: Mapping[str, Tensor]) -> dict[str, Rows]:
        """Return the part of a checkpoint that this process writes."""
        rows = {}
        for start, part in zip(PREFIXES, (take_weights(self.twin), optimiser, average), strict=True):
            for name, tensor in part.items():
                if (own := self._rows_to_write(name.partition("/")[0], tensor)) is not None:
                    rows[start + name] = own
        return rows

    def _rows_to_write(self, name: str, tensor: Tensor) -> Rows | None:
        """Return this process's part of a weight or its optimiser state; None if another process writes it."""
        if isinstance(tensor, DTensor):
            return Rows(shard_of(tensor), self._rows(tensor.shape[0]).start)
        if name in self.weights and tensor.shape == self.weights[name].shape:
            return Rows(tensor, self._rows(self._dtensors[name].shape[0]).start)
        return Rows(tensor) if self.processes.first else None  # equal on all processes

    @torch.no_grad()
    def put_weights(self, weights: Mapping[str, Tensor]) -> None:
        assert isinstance(weights, StoredTensors)
        refuse_misfit(self.twin, {name: weights.shape(name) for name in weights}, "the checkpoint")
        for name, tensor in take_weights(self.twin).items():
            if isinstance(tensor, DTensor):
                tensor.to_local().copy_(weights.rows(name, self._rows(tensor.shape[0])))
            else:
                tensor.copy_(weights[name])

    def read(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        assert isinstance(stored, StoredTensors)
        tensors: dict[str, Tensor] = {}
        for name in stored:
            weight = self._dtensors.get(name.partition("/")[0])
            if weight is None or stored.shape(name) != tuple(weight.shape):
                tensors[name] = stored[name]
            else:
                tensors[name] = stored.rows(name, self._rows(weight.shape[0]))
        return tensors

    def _from_first(self, tensor: Tensor) -> Tensor:
        """Return the first process's values of a tensor, which may have none on the other processes."""
        whole = tensor.to(self.device) if self.processes.first else torch.empty_like(tensor, device=self.device)
        dist.broadcast(whole, 0)
        return whole

    @torch.no_grad()
    def _put(self, tensor: Tensor, whole: Tensor) -> None:
        if isinstance(tensor, DTensor):
            tensor.to_local().copy_(whole[self._rows(tensor.shape[0])])
        else:
            tensor.copy_(whole)

    def _rows(self, count: int) -> slice:
        """Return this process's share of `count` rows."""
        return _rows_of(count, self.processes.rank, self.processes.world)


class ShardedMuon(Muon):
    """Muon for shards.

    Newton–Schulz on some rows of a matrix would be another optimiser. Each process therefore gathers every n-th matrix
    (n processes), orthogonalises it, and sends each process its rows.
    """

    def __init__(self, groups: Sequence[WeightGroup], rows: Mapping[int, int], processes: Processes) -> None:
        """Create the rule for these shards. `rows`: number of rows of each whole weight, by the id of its shard."""
        super().__init__(groups)
        self.rows, self.processes = rows, processes

    def matrix_shape(self, weight: Tensor) -> torch.Size:
        return torch.Size([self.rows[id(weight)], weight.flatten(1).shape[1]])

    def orthogonalise(self, matrices: list[Tensor], shape: torch.Size) -> Tensor:
        world, rank = self.processes.world, self.processes.rank
        rows, columns = shape
        spans = [_rows_of(rows, other, world) for other in range(world)]
        owned = [matrices[other::world] for other in range(world)]
        mine = [(len(owned[rank]), len(range(rows)[span]), columns) for span in spans]
        theirs = [(len(group), len(matrices[0]), columns) for group in owned]
        empty = matrices[0].new_empty(0, *matrices[0].shape)
        whole = torch.cat(_exchanged([torch.stack(group) if group else empty for group in owned], mine), 1)
        made = orthogonalise(whole) if len(whole) else whole
        back = _exchanged([made[:, span] for span in spans], theirs)
        return torch.stack([back[number % world][number // world] for number in range(len(matrices))])


def _exchanged(tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Send the n-th tensor to process n, and return the tensors received, which have these shapes."""
    sizes = [math.prod(shape) for shape in shapes]
    sent = torch.cat([tensor.flatten() for tensor in tensors])
    received = sent.new_empty(sum(sizes))
    dist.all_to_all_single(received, sent, sizes, [tensor.numel() for tensor in tensors])
    return [part.view(shape) for part, shape in zip(torch.split(received, sizes), shapes, strict=True)]


def _rows_of(count: int, rank: int, world: int) -> slice:
    """Return the rows of a process, as torch divides them."""
    each = -(-count // world)
    first = min(rank * each, count)
    return slice(first, min(first + each, count))


def _assign(model: nn.Module, weights: Mapping[str, nn.Parameter], buffers: Mapping[str, Tensor]) -> None:
    """Replace weights and buffers of a model; modules that share one still share it."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, weights[names[id(weight)]])
    for path, module in model.named_modules():
        for name, _ in list(module.named_buffers(recurse=False)):
            if (found := f"{path}.{name}".lstrip(".")) in buffers:
                setattr(module, name, buffers[found])


def _without_values(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=weight.requires_grad)


def _whole(tensor: Tensor) -> Tensor:
    whole: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers(remove_duplicate=False)


def shard_of(tensor: Tensor) -> Tensor:
    """Return this process's rows of a tensor."""
    assert isinstance(tensor, DTensor)
    local: Tensor = tensor.detach().to_local()  # type: ignore[attr-defined]
    return local
