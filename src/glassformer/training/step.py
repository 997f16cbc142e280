"""One step of a training: the loss of a batch, its gradients, and the update of the weights."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.bricks.losses import l2_penalty
from glassformer.bricks.own import is_own
from glassformer.config.errors import Say
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch, Task
from glassformer.training.average import Average
from glassformer.training.checkpointer import Progress
from glassformer.training.device import Precision, StepLoss
from glassformer.training.distributed.parallel import Replicated
from glassformer.training.distributed.processes import Processes, reseed, share_of
from glassformer.training.finite import LossWatch
from glassformer.training.layer_stats import LayerStats, LayerStatsRecorder
from glassformer.training.optimiser import Optimiser, decayed
from glassformer.training.recorded_step import Recording, StepRecorder
from glassformer.training.update_rules import gradients_of


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


@dataclass
class TrainingStep:
    """Makes the steps of one training, each a function of the seed, the step's number and the process's rank."""

    loss: StepLoss
    task: Task
    settings: TrainingSettings
    device: torch.device
    precision: Precision
    processes: Processes
    parallel: Replicated
    optimiser: Optimiser
    average: Average
    progress: Progress
    say: Say

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

    def rehearse(self) -> None:
        """Compute the gradients of the next update and drop them. Weights, buffers and random numbers do not change."""
        model = self.loss.model
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        with torch.random.fork_rng(devices=[]):
            self.make_gradients()
        self.parallel.zero()
        with torch.no_grad():
            for name, buffer in model.named_buffers():  # running statistics of a batch norm
                if name in buffers:
                    buffer.copy_(buffers[name])

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
            return self.loss.through(self.parallel.stepper, tensors, self.say) * weight

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
            self.weights, self.device, loss=self._loss_of, backward=self._backward, update=update, say=self.say
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
