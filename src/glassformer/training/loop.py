"""The loop: loss, gradients, update. The same three steps for every model.

Batch k, and the random numbers of step k, are functions of the seed and k (and the process's rank): nothing of them
needs saving, and a run that was interrupted, or is spread over other processes, sees the same batches.
"""

import contextlib
import math
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.bricks.losses import l2_penalty
from glassformer.config.errors import SettingError, TrainingFailed
from glassformer.config.sections import TrainingSettings
from glassformer.runs.files import put_weights
from glassformer.tasks.base import Batch, Task
from glassformer.training.device import choose_compile, choose_precision
from glassformer.training.events import Checkpointed, Ended, Listener, Noted, Started, Stepped, Validated
from glassformer.training.finite import first_not_finite
from glassformer.training.interrupt import Interrupt
from glassformer.training.optimiser import Optimiser, decayed
from glassformer.training.processes import Processes
from glassformer.training.schedule import rate_factor
from glassformer.training.snapshot import Keeper, Progress, Snapshot, unique_weights
from glassformer.training.watch import LossWatch


class _Loss(nn.Module):
    """Task and model as one module, so that several processes can share its gradients."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.compute: Callable[..., Tensor] = self.eager

    def eager(self, *tensors: Tensor) -> Tensor:
        return self.task.loss(self.model, *tensors)

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.compute(*tensors)


class Trainer:
    """Trains one model on one task."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: TrainingSettings,
        *,
        device: torch.device,
        keeper: Keeper,
        listen: Listener,
        processes: Processes | None = None,
        resume: Snapshot | None = None,
    ) -> None:
        self.model = model.to(device)
        self.task = task
        self.settings = settings
        self.device = device
        self.keeper = keeper
        self.listen = listen
        self.processes = processes or Processes()
        self.total = self._total_steps()
        self.piece = self._piece_size()
        self.optimiser = Optimiser(model, settings)
        self.progress = Progress()
        if resume is not None:
            put_weights(model, resume.weights, "the checkpoint")
            self.optimiser.load(resume.optimiser)
            self.progress = resume.progress
        if threads := settings.threads or self.progress.threads:
            torch.set_num_threads(threads)  # sums depend on it
        self.progress.threads = torch.get_num_threads()

        self.precision = choose_precision(settings.precision, device)
        self.scaler = self.precision.scaler()
        self.compiled = choose_compile(settings, device, self.total)
        self.loss = _Loss(model, task)
        if self.compiled != "off":
            self.loss.compute = torch.compile(
                self.loss.eager, dynamic=False, options={"coordinate_descent_tuning": self.compiled == "tuned"}
            )
        self.stepper: nn.Module = self.loss
        if self.processes.world > 1:
            self.stepper = DistributedDataParallel(self.loss, device_ids=[device] if device.type == "cuda" else None)
        self.penalised = list(decayed(model).values()) if settings.l2 else []
        self.watch = LossWatch(device)
        self.saved: int | None = None
        """The step of the last checkpoint written here."""

    def run(self) -> Ended:
        """Train to the end of the budget, until it is enough, or until asked to stop."""
        settings, progress = self.settings, self.progress
        self.listen(Started(progress.step, self.total, settings.minutes, self._notes()))
        self._begun = time.perf_counter() - progress.elapsed
        self.done = self._done()
        reason = "finished"
        with Interrupt() as interrupt:
            while self.done < 1:
                if settings.patience is not None and progress.since_best >= settings.patience:
                    reason = "patience"
                    break
                before = self.done
                self._step()
                progress.elapsed = time.perf_counter() - self._begun
                self.done = self._done()
                if self.done >= 1 or self._validation_due(before):
                    self._validate()
                    self._checkpoint()
                elif settings.checkpoint_every and progress.step % settings.checkpoint_every == 0:
                    self._checkpoint()
                if self.done < 1 and self._any(interrupt.asked):
                    reason = "interrupted"
                    self._checkpoint()
                    break
        ended = Ended(progress.step, reason, progress.seconds)
        self.listen(ended)
        return ended

    # --- one step ---

    def _step(self) -> None:
        settings, progress = self.settings, self.progress
        began = time.perf_counter()
        self._reseed()
        self.model.train()
        batch = self.task.batch(progress.step)
        factor = rate_factor(settings, progress.step, self.done, self.total)
        # The loss is the mean over the whole batch of all processes; these average their gradients, hence the factor.
        scale = self.processes.world / batch.count
        pieces = self._pieces(batch)
        for number, piece in enumerate(pieces):
            first, last = number == 0, number + 1 == len(pieces)
            with self._sharing(last):
                with self.precision.autocast():
                    loss = self._forward(piece.tensors(self.device)) * scale
                self.watch.add(loss, first=first, last=last)
                if self.penalised and first:
                    loss = loss + l2_penalty(self.penalised, settings.l2)
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        mean = self._mean_loss()
        if not math.isfinite(mean):
            self._fail(f"the loss became {mean} at step {progress.step + 1}")
        norm = self._clip()
        if norm is not None and not math.isfinite(norm):
            self._fail(f"a gradient is not finite at step {progress.step + 1}")
        self.optimiser.step(factor, self.scaler)
        if self.scaler is not None:
            self.scaler.update()
        self.optimiser.zero()
        progress.step += 1
        progress.tokens += batch.tokens
        progress.seconds += time.perf_counter() - began
        lr = factor * self.optimiser.lr
        self.listen(Stepped(progress.step, mean, lr, norm, progress.tokens, progress.seconds, self.done))

    def _reseed(self) -> None:
        """The random numbers of a step follow from the seed, the step and the process."""
        numbers = np.random.SeedSequence((self.settings.seed, self.progress.step, self.processes.rank))
        torch.manual_seed(int(numbers.generate_state(1, np.uint64)[0]) >> 1)

    def _pieces(self, batch: Batch) -> list[Batch]:
        """This process's share of the batch, in as many pieces as asked for."""
        first = self.processes.rank * self.settings.accumulate * self.piece
        starts = range(first, first + self.settings.accumulate * self.piece, self.piece)
        return [batch.rows(start, start + self.piece) for start in starts]

    def _sharing(self, last: bool) -> contextlib.AbstractContextManager[object]:
        """Processes exchange gradients once a step: with the last piece."""
        if last or not isinstance(self.stepper, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.stepper.no_sync()

    def _forward(self, tensors: tuple[Tensor, ...]) -> Tensor:
        try:
            loss: Tensor = self.stepper(*tensors)
        except Exception as error:
            if self.compiled == "off" or self.progress.step or isinstance(error, torch.OutOfMemoryError):
                raise
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self.listen(Noted(f"torch.compile failed ({why[:120]}); going on without it"))
            self.compiled, self.loss.compute = "off", self.loss.eager
            loss = self.stepper(*tensors)
        return loss

    def _mean_loss(self) -> float:
        """The batch's mean loss over all processes."""
        mine = self.watch.read()
        if self.processes.world == 1:
            return mine
        return float(self.processes.total(torch.tensor([mine], device=self.device))) / self.processes.world

    def _clip(self) -> float | None:
        """Shorten the gradient; gives its norm where reading it costs nothing."""
        if self.scaler is not None:
            for part in self.optimiser.parts:
                self.scaler.unscale_(part)
        if self.settings.clip is None:
            return None
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        return float(norm) if self.device.type == "cpu" else None

    def _fail(self, what: str) -> NoReturn:
        """Names the first tensor that went wrong. A checkpoint of these weights is no good: it would fail again."""
        self._reseed()
        found = (
            first_not_finite(self.model, partial(self.task.loss, self.model, *piece.tensors(self.device)))
            for piece in self._pieces(self.task.batch(self.progress.step))
        )
        culprit = next(filter(None, found), "none when computed again")
        if self.processes.first and self.saved == self.progress.step:
            self.keeper.forget(self.progress.step)
        raise TrainingFailed(
            f"{what} (first tensor that is not finite: {culprit}); "
            f"go on from the last good checkpoint with a lower rate: --resume --lr {self.optimiser.lr / 3:.1g}"
        )

    # --- between steps ---

    def _total_steps(self) -> int | None:
        """Updates to make in all; None: the time decides."""
        if self.settings.epochs is not None:
            return max(1, math.ceil(self.settings.epochs * self.task.steps_per_epoch))
        return self.settings.steps

    def _piece_size(self) -> int:
        pieces = self.processes.world * self.settings.accumulate
        if self.settings.batch_size % pieces:
            raise SettingError(
                f"training.batch_size {self.settings.batch_size} cannot be shared evenly by "
                f"{self.processes.world} processes with training.accumulate {self.settings.accumulate}"
            )
        return self.settings.batch_size // pieces

    def _notes(self) -> tuple[str, ...]:
        notes = [f"on {self.device}, matrix products in {self.precision.name}"]
        if self.compiled != "off":
            notes.append("compiling the step first, which takes a while (--training.compile off)")
        if self.processes.world > 1:
            notes.append(f"{self.processes.world} processes")
        return tuple(notes)

    def _done(self) -> float:
        """How far through the budget, 0 to 1."""
        if self.total is not None:
            return self.progress.step / self.total
        assert self.settings.minutes is not None
        return self.processes.from_first(self.progress.elapsed) / (60 * self.settings.minutes)

    def _validation_due(self, before: float) -> bool:
        """Every so many updates, or whenever a tenth of the budget is through."""
        if self.settings.validate_every:
            return self.progress.step % self.settings.validate_every == 0
        return int(10 * before) < int(10 * self.done)

    def _any(self, mine: bool) -> bool:
        """Whether any process says so: all must stop at the same step."""
        if self.processes.world == 1:
            return mine
        return bool(self.processes.total(torch.tensor([float(mine)], device=self.device)) > 0)

    def _validate(self) -> None:
        progress = self.progress
        self.model.eval()
        with self.precision.autocast():
            evaluation = self.task.evaluate(self.model, "validation", most=self.settings.validation_tokens)
        if not math.isfinite(evaluation.score):
            self._fail(f"the validation {evaluation.primary} became {evaluation.score} after step {progress.step}")
        better = progress.best_score is None or evaluation.score < progress.best_score
        if better:
            progress.best_score, progress.best_step, progress.since_best = evaluation.score, progress.step, 0
            if self.processes.first:
                self.keeper.best(unique_weights(self.model), evaluation, progress.step)
        else:
            progress.since_best += 1
        self.listen(Validated(progress.step, evaluation, better))

    def _checkpoint(self) -> None:
        if self.saved == self.progress.step:
            return
        self.saved = self.progress.step
        if self.processes.first:
            snapshot = Snapshot(unique_weights(self.model), self.optimiser.state(), self.progress)
            self.listen(Checkpointed(self.progress.step, self.keeper.checkpoint(snapshot)))
        self.processes.wait()
