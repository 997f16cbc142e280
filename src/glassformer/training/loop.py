"""The loop: loss, gradients, update. The same three steps for every model.

Batch k, and the random numbers of step k, are functions of the seed and k (and the process's rank): nothing of them
needs saving, and a run that was interrupted, or is spread over other processes, sees the same batches.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import torch
from torch import Tensor, nn

from glassformer.config.errors import RunError, TrainingFailed
from glassformer.config.sections import TrainingSettings
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.weights import take_weights
from glassformer.runs.checkpoints import step_of
from glassformer.runs.history import due
from glassformer.tasks.base import Batch, Task
from glassformer.training.budget import Budget, Clock, Stopwatch
from glassformer.training.checkpointer import Checkpointer, Progress, Snapshot
from glassformer.training.device import StepLoss, choose_compile, choose_precision
from glassformer.training.distributed.parallel import Parallel, Replicated
from glassformer.training.distributed.processes import Processes, check_shares, reseed, share_of
from glassformer.training.distributed.shard_writer import ShardWriter
from glassformer.training.events import Checkpointed, Diverged, Ended, Listener, Noted, Started, Stepped, lower_rate
from glassformer.training.measurements import first_not_finite, rows_not_finite
from glassformer.training.optimiser import Average, Optimiser
from glassformer.training.schedule import Interrupt, rate_factor, total_steps
from glassformer.training.step import NotFinite, TrainingContext, TrainingStep
from glassformer.training.validation import Validator

COMPILING = {
    "on": "compiling the step first, which takes a while (--training.compile off)",
    "tuned": "compiling and tuning the step first, which takes minutes (--training.compile on)",
}
"""What is said of a step that is compiled, by how."""


class Trainer(TrainingContext):
    """Trains one model on one task."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: TrainingSettings,
        *,
        device: torch.device,
        checkpointer: Checkpointer,
        listen: Listener,
        processes: Processes | None = None,
        resume: Snapshot | None = None,
        shown: Callable[[Batch, int], str] = lambda batch, row: "",
        usual: float = math.inf,
        new: Sequence[str] = (),
        clock: Clock | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`shown`: an example of a batch as a person knows it; `usual`: the rate for such models, if known; `new`:
        what a model that was trained before has beside what was taken; `clock`: seconds since the command began;
        `budget`: of the settings' minutes, with what is to follow the loop (unset: nothing).
        """
        sharded = settings.parallel == "fsdp"
        processes, progress = processes or Processes(), resume.progress if resume is not None else Progress()
        check_shares(settings, processes)
        for part in model.modules():
            if isinstance(part, TransformerEncoder):
                part.recompute = settings.recompute
        model = model if sharded else model.to(device)
        total = total_steps(settings, task)
        precision = choose_precision(settings.precision, device)
        loss = StepLoss(model, task, choose_compile(settings, device, total, steady=task.steady))
        parallel: Parallel
        shard_writer = None
        if sharded:
            from glassformer.training.distributed.sharded import Sharded  # loading it takes seconds

            parallel = Sharded(loss, processes, device, precision)
            if checkpointer.folder is not None:
                shard_writer = ShardWriter(checkpointer.folder, checkpointer, processes, parallel.rows)
        else:
            parallel = Replicated(loss, processes, device)
        if resume is not None:
            parallel.put_weights(resume.weights)
        optimiser = Optimiser(model, settings, new, parallel.weights, parallel.muon)
        average = Average(parallel.weights, settings.average)
        if resume is not None:
            optimiser.load(parallel.read(resume.optimiser))
        if resume is not None and resume.average:
            average.load(parallel.read(resume.average))
        else:
            progress.averaged = 0
        progress.threads = settings.threads or progress.threads or torch.get_num_threads()
        super().__init__(
            model=model,
            task=task,
            settings=settings,
            device=device,
            precision=precision,
            processes=processes,
            loss=loss,
            parallel=parallel,
            optimiser=optimiser,
            average=average,
            progress=progress,
            checkpointer=checkpointer,
            listen=listen,
            clock=clock or Stopwatch(),
            budget=None if settings.minutes is None else budget or Budget(60 * settings.minutes),
        )
        context = dict(vars(self))
        self._interrupt = interrupt = Interrupt()
        # after Ctrl-C, the message of a compiler that was stopped is of no interest
        self.step = TrainingStep(**context, warn=lambda line: None if interrupt.asked else listen(Noted(line)))
        self.validator = Validator(**context)
        self.sharded, self.shard_writer = sharded, shard_writer
        self.total, self.shown, self.usual = total, shown, usual
        self.done = 0.0
        """How far through the training, 0 to 1."""
        self._before = progress.elapsed
        """Seconds of the commands that this one goes on from."""
        self.saved = None if resume is None else resume.progress.step
        """The step of the newest checkpoint."""

    def run(self) -> Ended:
        """Train to the end of the budget, until it is enough, or until asked to stop.

        The caller's random numbers and number of threads are left as they were.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(self.progress.threads)  # sums depend on it
        try:
            with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []), self._interrupt:
                reason = self._run()
                self._finish_checkpoint()
        finally:
            if self.shard_writer is not None:
                self.shard_writer.close()
            self.step.release()
            torch.set_num_threads(threads)
        ended = Ended(self.progress.step, reason, self.progress.seconds, self._interrupt.signal)
        self.listen(ended)
        return ended

    def _run(self) -> str:
        """Steps, and what is due between them; gives the reason for stopping."""
        settings, progress = self.settings, self.progress
        progress.preparing += self.processes.from_first(self.clock())
        progress.elapsed = self.processes.from_first(self.elapsed())
        per_example = self.task.tokens_per_example
        self.listen(Started(progress.step, self.total, settings.minutes, self._notes(), per_example))
        if progress.step == 0:  # one update is made, however long reading took
            self._keep_moment()
        else:
            self.done = self.validator.last = self._part_done()
        while self.done < 1:
            if self.validator.had_enough():
                self._keep_moment(last=True)
                return "patience"
            before = self.done
            is_first = not self.loss.ran
            asked = self._step(self._interrupt.asked)
            if is_first and self.loss.how != "off":
                self.say(f"the first update was done {self.clock():.0f} s after the command began")
            self.done = self._part_done()
            self._keep_moment(last=self.done >= 1)
            if self.done >= 1 or self.validator.due(before, self.done):
                self._validate()
            elif settings.checkpoint_every and progress.step % settings.checkpoint_every == 0:
                self._checkpoint()
            if (asked or (self._interrupt.asked and self.processes.world == 1)) and self.done < 1:
                self._checkpoint()
                return "interrupted"
        return "finished"

    def elapsed(self) -> float:
        """Seconds spent in all, by this command and those that it goes on from."""
        return self._before + self.clock()

    def _part_done(self) -> float:
        if self.budget is not None:
            return max(self.done, self.budget.part_done(self.progress))
        assert self.total is not None
        return self.progress.step / self.total

    # --- one step ---

    def _step(self, asked: bool = False) -> bool:
        """Loss, gradients, update. Gives whether any process was asked to stop."""
        settings, progress = self.settings, self.progress
        began = self.clock()
        factor = rate_factor(settings, progress.step, self.done, self.total)
        batch = self.step.make_gradients()
        mean, asked = self._exchange(asked)
        if not math.isfinite(mean):
            self._fail(f"the loss became {mean} at step {progress.step + 1}")
        try:
            norm, layers = self.step.update(factor)
        except NotFinite as found:
            self._fail(str(found))
        progress.step += 1
        progress.tokens += batch.tokens
        progress.seconds += self.clock() - began
        lr = factor * self.optimiser.lr
        self.listen(Stepped(progress.step, mean, lr, norm, progress.tokens, progress.seconds, self.done, layers))
        return asked

    def _exchange(self, asked: bool) -> tuple[float, bool]:
        """The batch's mean loss over all processes, whether any was asked to stop, and one clock for all.

        All must decide alike: in one exchange each step.
        """
        written = self.shard_writer is not None and self.shard_writer.has_written
        elapsed = self.elapsed() if self.processes.first else 0.0
        asking = self._interrupt.weight if asked else 0.0
        mine = (self.step.watch.read(), asking, elapsed, float(written))
        loss, any_asked, self.progress.elapsed, writers = self.processes.all_reduce(mine, self.device)
        if writers == self.processes.world:
            self._finish_checkpoint()
        self._interrupt.hear(any_asked)
        return loss / self.processes.world, any_asked > 0

    def _fail(self, what: str) -> NoReturn:
        """Names the first tensor that went wrong, and the examples that led there. A checkpoint of these weights is no
        good: it would fail again.
        """
        with contextlib.suppress(RunError):  # of an earlier step: to go on from
            self._finish_checkpoint()
        step, lr = self.progress.step, lower_rate(self.optimiser.lr, self.usual)
        reseed(self.settings.seed, self.progress.step, self.processes, self.device)
        batch = self.task.batch(step)
        pieces = share_of(batch, self.settings.accumulation_steps, self.processes)
        with self.parallel.whole_weights():
            found = (first_not_finite(self.model, partial(self._plain_loss, piece)) for piece in pieces)
            culprit = next(filter(None, found), "none when computed again")
            rows = rows_not_finite(self.model, batch.size, lambda row: self._plain_loss(batch.rows(row, row + 1)))
        example = self.shown(batch, rows[0]) if rows else ""
        diverged = Diverged(step, what, culprit, step + 1, rows, example, batch.size, lr)
        if self.processes.first and self.saved == step:
            self.checkpointer.forget(step)
        self.listen(diverged)
        raise TrainingFailed(diverged.line)

    def _plain_loss(self, piece: Batch) -> Tensor:
        with self.precision.autocast():
            return self.task.loss(self.model, *piece.tensors(self.device))

    # --- between steps ---

    def _notes(self) -> tuple[str, ...]:
        notes = [f"on {self.device}, matrix products in {self.precision.name}", COMPILING.get(self.loss.how, "")]
        if self.sharded or self.processes.world > 1:
            shards = ", each with its shard of the model (FSDP)" if self.sharded else ""
            notes.append(f"{self.processes.world} processes{shards}")
        if self.budget is not None:
            notes.append(f"reading and building took {self.progress.preparing:.0f} s of them")
        return tuple(filter(None, notes))

    def _validate(self) -> None:
        """A validation, and a checkpoint."""
        progress = self.progress
        if self.budget is not None and self.done >= 1:
            progress.spent = self.budget.seconds
        progress.validating += self.validator.fit_sample()
        began = self.clock()
        culprit = self.validator.validate()
        if culprit is not None:
            self._fail(culprit)
        self._checkpoint()
        self.validator.last = self.done
        progress.between = self.processes.from_first(self.clock() - began)
        progress.validating += progress.between

    def _keep_moment(self, *, last: bool = False) -> None:
        """If one is due. Before the checkpoint of the same step: a run that goes on from that has this behind it."""
        step = self.progress.step
        if self.settings.keep_checkpoints and (last or due(step, self.total)):
            with self.average.in_use():
                weights = self.parallel.take_weights()
                self.processes.first_does(lambda: self.checkpointer.moment(weights, step, self.total))

    def _checkpoint(self) -> None:
        if self.saved == self.progress.step:
            return
        self.saved = self.progress.step
        optimiser, average = self.optimiser.state(), self.average.state()
        if self.shard_writer is not None:
            self._finish_checkpoint()
            self.shard_writer.begin(self.progress, optimiser, average)
            return
        snapshot = Snapshot(take_weights(self.model), optimiser, self.progress, average)
        path = self.processes.first_does(lambda: self.checkpointer.checkpoint(snapshot))
        self.listen(Checkpointed(self.progress.step, path))

    def _finish_checkpoint(self) -> None:
        """Wait for the shards of a checkpoint that is being written, and complete it."""
        path = None if self.shard_writer is None else self.shard_writer.finish()
        if path is not None:
            self.listen(Checkpointed(step_of(path), str(path)))
