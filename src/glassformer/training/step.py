"""One step of a training run: the loss of a batch, its gradients, and the update of the weights.

On a CUDA GPU a step is recorded as CUDA graphs: small models then wait for arithmetic, and no longer for launches.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.bricks.losses import l2_penalty
from glassformer.bricks.own import is_own
from glassformer.config.errors import Say
from glassformer.config.sections import TrainingSettings
from glassformer.models.cuda_graph import record
from glassformer.tasks.base import Batch, Task
from glassformer.training.budget import Budget, Clock
from glassformer.training.checkpointer import Checkpointer, Progress
from glassformer.training.device import Precision, StepLoss
from glassformer.training.distributed.parallel import Parallel
from glassformer.training.distributed.processes import Processes, reseed, share_of
from glassformer.training.events import Listener, Noted
from glassformer.training.measurements import LayerStats, LayerStatsRecorder, LossWatch
from glassformer.training.optimiser import Average, Optimiser, decayed
from glassformer.training.update_rules import gradients_of

RUNS_BEFORE_RECORDING, MAX_SHAPES = 2, 4
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


@dataclass
class StepRecorder:
    """Recordings by the shape of a batch."""

    weights: list[Tensor]
    device: torch.device
    loss: Callable[[tuple[Tensor, ...], Tensor], Tensor]
    """The loss of a batch, times a factor."""
    backward: Callable[[Tensor], None]
    """Makes the gradients of a loss."""
    update: Callable[[], None]
    """What is done with the gradients."""
    say: Say

    def __post_init__(self) -> None:
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
            if self._times[shape] > RUNS_BEFORE_RECORDING and len(self._recordings) < MAX_SHAPES:
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
        share = torch.zeros((), device=self.device)
        losses: list[Tensor] = []
        for weight in self.weights:
            weight.grad = None
        graphs: list[torch.cuda.CUDAGraph] = []
        for work in (lambda: losses.append(self.loss(fixed, share)), lambda: self.backward(losses[0]), self.update):
            graph = record(work, self.device, self.say, pool=self._pool)
            if graph is None:
                for weight in self.weights:
                    weight.grad = None
                return None
            graphs.append(graph)
        gradients = [weight.grad for weight in self.weights]
        return Recording(fixed, share, losses[0].detach(), self.weights, gradients, *graphs)


class NotFinite(ArithmeticError):
    """A gradient is not a number: the weights were not touched."""


@dataclass(frozen=True)
class Share:
    """What this process does of a step."""

    step: int
    batch: Batch
    """The whole batch."""
    pieces: list[tuple[tuple[Tensor, ...], float]]
    """Tensors on the device, and what their summed loss counts."""


@dataclass(eq=False)
class TrainingContext:
    """What the parts of one training run have in common: its loop, its steps and its validations."""

    model: nn.Module
    task: Task
    settings: TrainingSettings
    device: torch.device
    precision: Precision
    processes: Processes
    loss: StepLoss
    parallel: Parallel
    optimiser: Optimiser
    average: Average
    progress: Progress
    checkpointer: Checkpointer
    listen: Listener
    clock: Clock
    """Seconds since the command began."""
    budget: Budget | None
    """Of the settings' minutes; None: the number of updates is given."""

    def say(self, text: str) -> None:
        self.listen(Noted(text))


@dataclass
class TrainingStep(TrainingContext):
    """Makes the steps of one training, each a function of the seed, the step's number and the process's rank."""

    warn: Say

    def __post_init__(self) -> None:
        self.sharded = self.settings.parallel == "fsdp"
        self.scaled = self.precision.name == "fp16"
        self.weights = list(self.parallel.weights.values())
        penalised = decayed(self.parallel.model) if self.settings.l2 else ()
        self.penalised = [self.parallel.weights[name] for name in penalised]
        self.watch = LossWatch(self.device)
        self.layer_stats = LayerStatsRecorder(self.parallel) if self.processes.first or self.sharded else None
        self.recorder = self._make_recorder()
        self.recording: Recording | None = None
        """The recording that this step is replayed from."""
        self._ahead: Share | None = None
        """What the next step needs, got ready while a GPU computes this one."""

    def make_gradients(self) -> Batch:
        """Of the loss of this process's share of a batch, piece by piece; gives the whole batch."""
        step = self.progress.step
        reseed(self.settings.seed, step, self.processes, self.device)
        if not self.loss.model.training:
            self.loss.model.train()
        ahead, self._ahead = self._ahead, None
        share = ahead if ahead is not None and ahead.step == step else self._share_of(step)
        for number, (tensors, weight) in enumerate(share.pieces):
            first, last = number == 0, number + 1 == len(share.pieces)
            self.recording = None if self.recorder is None else self.recorder.find(tensors)
            if self.recording is not None:
                self.watch.add(self.recording.find_loss(tensors, weight), first=first, last=last)
                self.recording.make_gradients()
                continue
            with self.parallel.exchange(last=last):
                loss = self._loss_of(tensors, weight)
                self.watch.add(loss, first=first, last=last)
                self._backward(loss, first=first)
        if self.device.type == "cuda":  # which is busy with them
            self._ahead = self._share_of(step + 1)
        return share.batch

    def release(self) -> None:
        """Let go of what only further steps need; of a GPU, all that recordings hold."""
        self.recorder = self.recording = self._ahead = None

    def _share_of(self, step: int) -> Share:
        batch = self.task.batch(step)
        # The loss is the mean over the whole batch of all processes; these average their gradients, hence the factor.
        weight = self.processes.world / max(1, batch.count)
        pieces = [(piece, weight) for piece in share_of(batch, self.settings.accumulation_steps, self.processes)]
        # of a small batch there may be nothing for this process: it takes part all the same, with no weight; and in
        # every pass, where each needs the shards of all
        passes = self.settings.accumulation_steps if self.sharded else 1
        pieces += [(batch.rows(0, 1), 0.0)] * (passes - len(pieces))
        return Share(step, batch, [(piece.tensors(self.device), weight) for piece, weight in pieces])

    def _loss_of(self, tensors: tuple[Tensor, ...], weight: float | Tensor) -> Tensor:
        with self.precision.autocast():
            return self.loss.through(self.parallel.stepper, tensors, self.warn) * weight

    def _backward(self, loss: Tensor, *, first: bool = True) -> None:
        if self.penalised and first and not self.sharded:
            loss = loss + l2_penalty(self.penalised, self.settings.l2)
        (loss * self.progress.loss_scale if self.scaled else loss).backward()  # type: ignore[no-untyped-call]

    def _make_recorder(self) -> StepRecorder | None:
        """On one CUDA GPU, steps are recorded and replayed, where batches are of few shapes and all is done there."""
        alone = self.processes.world == 1 and self.settings.accumulation_steps == 1 and not self.sharded
        few_shapes = self.task.steady or self.task.tokens_per_example is not None
        if not alone or self.scaled or not self.optimiser.recordable or not few_shapes or is_own(self.parallel.model):
            return None

        def update() -> None:
            self._clip()
            self.optimiser.update()

        return StepRecorder(
            self.weights, self.device, loss=self._loss_of, backward=self._backward, update=update, say=self.warn
        )

    def update(self, factor: float) -> tuple[float | None, dict[str, LayerStats] | None]:
        """Clip and update; gives the gradient's norm where reading it costs nothing, and now and then each layer's."""
        norm = None
        self.parallel.collect()
        if self.scaled:
            torch._foreach_mul_(self._gradients(), 1 / self.progress.loss_scale)
        if self.sharded:  # a shard is no part of the forward pass: the gradient of l2 · ‖w‖²
            for weight in self.penalised:
                if weight.grad is not None:
                    weight.grad.add_(weight, alpha=2 * self.settings.l2)
        if self.layer_stats is not None:
            self.layer_stats.before(self.progress.step + 1)
        if self.recording is not None:
            self.optimiser.set_rate(factor)
            self.recording.update.replay()
            self.progress.averaged = self.average.update(self.progress.averaged)
        else:
            norm = self._clip()
            if not self.scaled or norm is None or self.progress.scale_held(math.isfinite(norm)):
                if norm is not None and norm.device.type == "cpu" and not math.isfinite(norm):
                    raise NotFinite(f"a gradient is not finite at step {self.progress.step + 1}")
                self.optimiser.step(factor)
                self.progress.averaged = self.average.update(self.progress.averaged)
            elif self.progress.loss_scale < 1:  # so that it is not the scale that is to blame
                raise NotFinite(f"a gradient is not finite at step {self.progress.step + 1}")
        self.parallel.zero()
        layers = None if self.layer_stats is None else self.layer_stats.after()
        return float(norm) if norm is not None and norm.device.type == "cpu" else None, layers

    def _gradients(self) -> list[Tensor]:
        return gradients_of(self.weights)

    def _clip(self) -> Tensor | None:
        """Gradients no longer than allowed; gives their norm, where it is needed."""
        if self.settings.grad_clip is None and not self.scaled:
            return None
        norm = self.parallel.norm(self._gradients())
        most = self.settings.grad_clip
        if most is not None and (norm.device.type != "cpu" or not norm + 1e-6 <= most):  # else they would be times 1
            nn.utils.clip_grads_with_norm_(self.weights, most, norm)
        return norm
