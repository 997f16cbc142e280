"""One step of a training run: the loss of a batch, its gradients, and the update of the weights.

On a CUDA GPU, a step is recorded as CUDA graphs, because launching kernels limits the speed of small models.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.bricks.losses import l2_penalty
from glassformer.bricks.own import is_own
from glassformer.models.cuda_graph import record
from glassformer.tasks.base import Batch
from glassformer.training.context import TrainingContext
from glassformer.training.distributed.processes import reseed, share_of
from glassformer.training.measurements import LayerStats, LayerStatsRecorder, LossWatch
from glassformer.training.optimiser import decayed
from glassformer.training.update_rules import gradients_of

RUNS_BEFORE_RECORDING = 2
"""Number of ordinary steps with a shape of batch before it is recorded."""
MAX_SHAPES = 4
"""Maximum number of recorded shapes, because each recording keeps the memory of its step."""


@dataclass(frozen=True)
class Recording:
    """A step on batches of one shape as three graphs.

    The host reads the loss during the backward pass, and can still cancel the update.
    """

    tensors: tuple[Tensor, ...]
    weight: Tensor
    loss: Tensor
    weights: list[Tensor]
    gradients: list[Tensor | None]
    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph
    update: torch.cuda.CUDAGraph

    def find_loss(self, tensors: Sequence[Tensor], weight: float) -> Tensor:
        torch._foreach_copy_(list(self.tensors), list(tensors))
        self.weight.fill_(weight)
        self.forward.replay()
        return self.loss

    def make_gradients(self) -> None:
        """Compute the gradients of the last loss, and attach them to the weights as an ordinary backward pass does."""
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        self.backward.replay()


@dataclass
class StepRecorder:
    """Recordings of steps by shape of the batch."""

    weights: list[Tensor]
    device: torch.device
    loss: Callable[[tuple[Tensor, ...], Tensor], Tensor]
    """Returns the loss of a batch times a factor."""
    backward: Callable[[Tensor], None]
    """Computes the gradients of a loss."""
    update: Callable[[], None]
    """Clips the gradients and updates the weights."""

    def __post_init__(self) -> None:
        self._times: Counter[tuple[object, ...]] = Counter()
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._can_record = True
        self._pool = torch.cuda.graph_pool_handle()
        """Memory shared by all recordings, of which only one runs at a time."""

    def find(self, tensors: tuple[Tensor, ...]) -> Recording | None:
        """Return the recording for batches of this shape, and make it if due; None: run the step without one."""
        shape = tuple((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors)
        if shape not in self._recordings and self._can_record:
            self._times[shape] += 1
            if self._times[shape] > RUNS_BEFORE_RECORDING and len(self._recordings) < MAX_SHAPES:
                recording = self._record(tensors)
                if recording is None:
                    self._can_record = False
                else:
                    self._recordings[shape] = recording
        return self._recordings.get(shape)

    def _record(self, tensors: tuple[Tensor, ...]) -> Recording | None:
        # with the same strides, because a compiled step is compiled again for others
        fixed = tuple(
            torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            for tensor in tensors
        )
        torch._foreach_copy_(list(fixed), list(tensors))
        factor = torch.zeros((), device=self.device)
        losses: list[Tensor] = []
        for weight in self.weights:
            weight.grad = None
        graphs: list[torch.cuda.CUDAGraph] = []
        for work in (lambda: losses.append(self.loss(fixed, factor)), lambda: self.backward(losses[0]), self.update):
            graph = record(work, self.device, pool=self._pool)
            if graph is None:
                for weight in self.weights:
                    weight.grad = None
                return None
            graphs.append(graph)
        gradients = [weight.grad for weight in self.weights]
        return Recording(fixed, factor, losses[0].detach(), self.weights, gradients, *graphs)


class NotFinite(ArithmeticError):
    """A gradient is not finite; the weights were not changed."""


class Piece(NamedTuple):
    """Tensors of one forward pass on the device, and the weight of their summed loss."""

    tensors: tuple[Tensor, ...]
    weight: float


@dataclass(frozen=True)
class Share:
    """The part of a step's batch that this process computes."""

    step: int
    batch: Batch
    """The whole batch."""
    pieces: list[Piece]


class Update(NamedTuple):
    """Measurements of an update."""

    norm: float | None
    """Norm of the gradients before clipping; None if it is unknown or would have to be copied from a GPU."""
    layers: dict[str, LayerStats] | None
    """None if the layers are not measured in this step."""


class TrainingStep:
    """The steps of a training run, each a function of the seed, the step's number and the process's rank."""

    def __init__(self, context: TrainingContext) -> None:
        self.context = context
        device, parallel = context.options.device, context.parallel
        self.scaled = context.precision.name == "fp16"
        """Whether the loss is scaled before the backward pass."""
        self.weights = list(parallel.weights.values())
        penalised = decayed(parallel.model) if context.settings.l2 else ()
        self.penalised = [parallel.weights[name] for name in penalised]
        """Weights with an L2 penalty."""
        self.watch = LossWatch(device)
        measures_layers = context.options.processes.first or parallel.sharded
        self.layer_stats = LayerStatsRecorder(parallel) if measures_layers else None
        self.recorder = self._make_recorder()
        self.recording: Recording | None = None
        """The recording that this step replays."""
        self._next_share: Share | None = None
        """The share of the next step, prepared while a GPU computes this one."""

    def make_gradients(self) -> Batch:
        """Compute the gradients of this process's share of a batch, piece by piece; return the whole batch."""
        context = self.context
        step, device = context.progress.step, context.options.device
        reseed(context.settings.seed, step, context.options.processes, device)
        if not context.loss.model.training:
            context.loss.model.train()
        prepared, self._next_share = self._next_share, None
        share = prepared if prepared is not None and prepared.step == step else self._share_of(step)
        for number, piece in enumerate(share.pieces):
            first, last = number == 0, number + 1 == len(share.pieces)
            self.recording = None if self.recorder is None else self.recorder.find(piece.tensors)
            if self.recording is not None:
                self.watch.add(self.recording.find_loss(piece.tensors, piece.weight), first=first, last=last)
                self.recording.make_gradients()
                continue
            with context.parallel.exchange(last=last):
                loss = self._loss_of(piece.tensors, piece.weight)
                self.watch.add(loss, first=first, last=last)
                self._backward(loss, first=first)
        if device.type == "cuda":  # the GPU is still computing
            self._next_share = self._share_of(step + 1)
        return share.batch

    def release(self) -> None:
        """Release what only further steps need, such as the GPU memory of recordings."""
        self.recorder = self.recording = self._next_share = None

    def _share_of(self, step: int) -> Share:
        context, processes = self.context, self.context.options.processes
        batch = context.task.batch(step)
        # The loss is the mean over the batch of all processes, which average their gradients: hence the factor `world`.
        weight = processes.world / max(1, batch.count)
        steps = context.settings.accumulation_steps
        pieces = [(piece, weight) for piece in share_of(batch, steps, processes)]
        # A small batch may leave nothing for this process. It still takes part, with weight 0: in one pass, or with
        # shards in every pass, because each pass needs the shards of all processes.
        passes = steps if context.parallel.sharded else 1
        pieces += [(batch.rows(0, 1), 0.0)] * (passes - len(pieces))
        return Share(step, batch, [Piece(rows.tensors(context.options.device), weight) for rows, weight in pieces])

    def _loss_of(self, tensors: tuple[Tensor, ...], weight: float | Tensor) -> Tensor:
        with self.context.precision.autocast():
            return self.context.loss.through(self.context.parallel.stepper, tensors) * weight

    def _backward(self, loss: Tensor, *, first: bool = True) -> None:
        if self.penalised and first and not self.context.parallel.sharded:
            loss = loss + l2_penalty(self.penalised, self.context.settings.l2)
        (loss * self.context.progress.loss_scale if self.scaled else loss).backward()  # type: ignore[no-untyped-call]

    def _make_recorder(self) -> StepRecorder | None:
        """Return a recorder of CUDA graphs; None if steps cannot be recorded or would rarely be replayed."""
        context, task, parallel = self.context, self.context.task, self.context.parallel
        alone = context.options.processes.world == 1 and context.settings.accumulation_steps == 1
        few_shapes = task.steady or task.tokens_per_example is not None
        recordable = context.optimiser.recordable and not (parallel.sharded or self.scaled or is_own(parallel.model))
        if not (alone and few_shapes and recordable):
            return None

        def update() -> None:
            self._clip()
            context.optimiser.update()

        device = context.options.device
        return StepRecorder(self.weights, device, loss=self._loss_of, backward=self._backward, update=update)

    def update(self, factor: float) -> Update:
        """Clip the gradients and update the weights at `factor` times the learning rate."""
        context, progress, norm = self.context, self.context.progress, None
        context.parallel.collect()
        if self.scaled:
            torch._foreach_mul_(gradients_of(self.weights), 1 / progress.loss_scale)
        if context.parallel.sharded:  # shards take no part in the forward pass: add the gradient of l2 · ‖w‖²
            for weight in self.penalised:
                if weight.grad is not None:
                    weight.grad.add_(weight, alpha=2 * context.settings.l2)
        if self.layer_stats is not None:
            self.layer_stats.before(progress.step + 1)
        if self.recording is not None:
            context.optimiser.set_rate(factor)
            self.recording.update.replay()
            progress.averaged = context.average.update(progress.averaged)
        else:
            norm = self._clip()
            if not self.scaled or norm is None or progress.scale_held(math.isfinite(norm)):
                if norm is not None and norm.device.type == "cpu" and not math.isfinite(norm):
                    raise NotFinite(f"a gradient is not finite at step {progress.step + 1}")
                context.optimiser.step(factor)
                progress.averaged = context.average.update(progress.averaged)
            elif progress.loss_scale < 1:  # at such a small scale, the cause must be another one
                raise NotFinite(f"a gradient is not finite at step {progress.step + 1}")
        context.parallel.zero()
        layers = None if self.layer_stats is None else self.layer_stats.after()
        return Update(float(norm) if norm is not None and norm.device.type == "cpu" else None, layers)

    def _clip(self) -> Tensor | None:
        """Clip the gradients to `grad_clip` and return their norm; None if the norm is not needed."""
        max_norm = self.context.settings.grad_clip
        if max_norm is None and not self.scaled:
            return None
        norm = self.context.parallel.norm(gradients_of(self.weights))
        if max_norm is not None and (
            norm.device.type != "cpu" or not norm + 1e-6 <= max_norm
        ):  # otherwise the gradients stay unchanged
            nn.utils.clip_grads_with_norm_(self.weights, max_norm, norm)
        return norm
