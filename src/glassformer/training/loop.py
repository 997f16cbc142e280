"""The training loop: loss, gradients, update. The same three steps for every model.

Batch k and the random numbers of step k are functions of the seed, k and the process's rank. They need not be saved,
and a run that was interrupted, or is spread over other processes, sees the same batches.
"""

import contextlib
import math
from functools import partial
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from glassformer.config.errors import RunError, TrainingFailed
from glassformer.config.messages import listening
from glassformer.config.sections import TrainingSettings
from glassformer.models.weights import take_weights
from glassformer.runs.checkpoints import step_of
from glassformer.runs.history import due
from glassformer.tasks.base import Batch, Task
from glassformer.training.checkpointer import Snapshot
from glassformer.training.context import TrainerOptions, TrainingContext
from glassformer.training.distributed.processes import reseed, share_of
from glassformer.training.events import Checkpointed, Diverged, Ended, Started, Stepped, lower_rate
from glassformer.training.measurements import first_not_finite, rows_not_finite
from glassformer.training.schedule import Interrupt, rate_factor
from glassformer.training.step import NotFinite, TrainingStep
from glassformer.training.validation import Validator

COMPILE_NOTES = {
    "on": "compiling the step first, which takes a while (--training.compile off)",
    "tuned": "compiling and tuning the step first, which takes minutes (--training.compile on)",
}
"""Note about compiling, by value of `training.compile`."""


class Agreement(NamedTuple):
    """Values that all processes share after a step."""

    loss: float
    """Mean loss of the batch over all processes."""
    asked: bool
    """Whether any process was asked to stop."""


class Trainer:
    """The training loop of one model on one task."""

    def __init__(self, model: nn.Module, task: Task, settings: TrainingSettings, options: TrainerOptions) -> None:
        self.context = context = TrainingContext.make(model, task, settings, options)
        self._interrupt = Interrupt()
        self.step = TrainingStep(context)
        self.validator = Validator(context)
        self.shard_writer = context.parallel.shard_writer(options.checkpointer)
        self.done = 0.0
        """Part of the training run that is done, 0 to 1."""
        self._before = context.progress.elapsed
        """Seconds of the earlier commands of this run."""
        self.saved = None if options.resume is None else context.progress.step
        """Step of the newest checkpoint."""

    def run(self) -> Ended:
        """Train until the last update, until a validation stops the run early, or until asked to stop.

        The caller's random numbers and number of threads stay as they were.
        """
        context, device = self.context, self.context.options.device
        threads = torch.get_num_threads()
        torch.set_num_threads(context.progress.threads)  # the results of sums depend on the number of threads
        try:
            random_state = torch.random.fork_rng([device] if device.type == "cuda" else [])
            with random_state, self._interrupt, listening(self._note):
                reason = self._run()
                self._finish_checkpoint()
        finally:
            if self.shard_writer is not None:
                self.shard_writer.close()
            self.step.release()
            torch.set_num_threads(threads)
        ended = Ended(context.progress.step, reason, context.progress.seconds, self._interrupt.signal)
        context.options.listen(ended)
        return ended

    def _note(self, line: str) -> None:
        """Report a message as an event; after Ctrl-C, the message of a compiler that was stopped is not reported."""
        if not self._interrupt.asked:
            self.context.say(line)

    def _run(self) -> str:
        """Run all steps with the validations and checkpoints between them; return the reason for stopping."""
        context, settings, progress = self.context, self.context.settings, self.context.progress
        clock, processes = context.options.clock, context.options.processes
        progress.preparing += processes.from_first(clock())
        progress.elapsed = processes.from_first(self.elapsed())
        per_example = context.task.tokens_per_example
        context.options.listen(Started(progress.step, context.total, settings.minutes, self._notes(), per_example))
        if progress.step == 0:  # there is at least one update, however long reading took
            self._keep_moment()
        else:
            self.done = self.validator.last_done = self._part_done()
        while self.done < 1:
            if self.validator.had_enough():
                self._keep_moment(last=True)
                return "patience"
            before = self.done
            is_first = not context.loss.ran
            asked = self._step(self._interrupt.asked)
            if is_first and context.loss.how != "off":
                context.say(f"the first update was done {clock():.0f} s after the command began")
            self.done = self._part_done()
            self._keep_moment(last=self.done >= 1)
            if self.done >= 1 or self.validator.due(before, self.done):
                self._validate()
            elif settings.checkpoint_every and progress.step % settings.checkpoint_every == 0:
                self._checkpoint()
            if (asked or (self._interrupt.asked and processes.world == 1)) and self.done < 1:
                self._checkpoint()
                return "interrupted"
        return "finished"

    def elapsed(self) -> float:
        """Return the seconds of this command and the earlier commands of this run."""
        return self._before + self.context.options.clock()

    def _part_done(self) -> float:
        context = self.context
        if context.budget is not None:
            return max(self.done, context.budget.part_done(context.progress))
        assert context.total is not None
        return context.progress.step / context.total

    # --- one step ---

    def _step(self, asked: bool = False) -> bool:
        """Compute the loss and its gradients and update the weights; return whether any process was asked to stop."""
        context, progress, clock = self.context, self.context.progress, self.context.options.clock
        began = clock()
        factor = rate_factor(context.settings, progress.step, self.done, context.total)
        batch = self.step.make_gradients()
        loss, asked = self._agree(asked)
        if not math.isfinite(loss):
            self._fail(f"the loss became {loss} at step {progress.step + 1}")
        try:
            norm, layers = self.step.update(factor)
        except NotFinite as error:
            self._fail(str(error))
        progress.step += 1
        progress.tokens += batch.tokens
        progress.seconds += clock() - began
        lr = factor * context.optimiser.lr
        context.options.listen(
            Stepped(progress.step, loss, lr, norm, progress.tokens, progress.seconds, self.done, layers)
        )
        return asked

    def _agree(self, asked: bool) -> Agreement:
        """Exchange the loss, requests to stop and the clock at once, so that all processes make the same decisions."""
        processes, progress = self.context.options.processes, self.context.progress
        written = self.shard_writer is not None and self.shard_writer.has_written
        elapsed = self.elapsed() if processes.first else 0.0
        asking = self._interrupt.weight if asked else 0.0
        own = (self.step.watch.read(), asking, elapsed, float(written))
        loss, any_asked, progress.elapsed, writers = processes.all_reduce(own, self.context.options.device)
        if writers == processes.world:
            self._finish_checkpoint()
        self._interrupt.hear(any_asked)
        return Agreement(loss / processes.world, any_asked > 0)

    def _fail(self, what: str) -> NoReturn:
        """Report the first tensor that is not finite and the examples that cause it, and raise `TrainingFailed`.

        A checkpoint of this step is deleted, because a run resumed from it would fail again.
        """
        context, options, model = self.context, self.context.options, self.context.model
        with contextlib.suppress(RunError):  # complete an earlier step's checkpoint, to resume from
            self._finish_checkpoint()
        step, lr = context.progress.step, lower_rate(context.optimiser.lr, options.usual_rate)
        reseed(context.settings.seed, step, options.processes, options.device)
        batch = context.task.batch(step)
        pieces = share_of(batch, context.settings.accumulation_steps, options.processes)
        with context.parallel.whole_weights():
            culprits = (first_not_finite(model, partial(self._plain_loss, piece)) for piece in pieces)
            culprit = next(filter(None, culprits), "none when computed again")
            rows = rows_not_finite(model, batch.size, lambda row: self._plain_loss(batch.rows(row, row + 1)))
        example = options.describe(batch, rows[0]) if rows else ""
        diverged = Diverged(step, what, culprit, step + 1, rows, example, batch.size, lr)
        if options.processes.first and self.saved == step:
            options.checkpointer.forget(step)
        options.listen(diverged)
        raise TrainingFailed(diverged.line)

    def _plain_loss(self, piece: Batch) -> Tensor:
        context = self.context
        with context.precision.autocast():
            return context.task.loss(context.model, *piece.tensors(context.options.device))

    # --- between steps ---

    def _notes(self) -> tuple[str, ...]:
        context, processes = self.context, self.context.options.processes
        notes = [f"on {context.options.device}, matrix products in {context.precision.name}"]
        if context.loss.how in COMPILE_NOTES:
            notes.append(COMPILE_NOTES[context.loss.how])
        if context.parallel.sharded:
            notes.append(f"{processes.world} processes, each with its shard of the model (FSDP)")
        elif processes.world > 1:
            notes.append(f"{processes.world} processes")
        if context.budget is not None:
            notes.append(f"reading and building took {context.progress.preparing:.0f} s of them")
        return tuple(notes)

    def _validate(self) -> None:
        """Validate and write a checkpoint."""
        context, progress = self.context, self.context.progress
        if context.budget is not None and self.done >= 1:
            progress.spent = context.budget.seconds
        progress.validating += self.validator.fit_sample()
        began = context.options.clock()
        failure = self.validator.validate()
        if failure is not None:
            self._fail(failure)
        self._checkpoint()
        self.validator.last_done = self.done
        progress.between = context.options.processes.from_first(context.options.clock() - began)
        progress.validating += progress.between

    def _keep_moment(self, *, last: bool = False) -> None:
        """Store the weights for later inspection if a moment is due.

        This precedes the checkpoint of the same step, so that a run resumed from the checkpoint has the moment.
        """
        context, step = self.context, self.context.progress.step
        if context.settings.keep_checkpoints and (last or due(step, context.total)):
            with context.average.in_use():
                weights = context.parallel.take_weights()
                checkpointer = context.options.checkpointer
                context.options.processes.first_does(lambda: checkpointer.moment(weights, step, context.total))

    def _checkpoint(self) -> None:
        context, progress = self.context, self.context.progress
        if self.saved == progress.step:
            return
        self.saved = progress.step
        optimiser, average = context.optimiser.state(), context.average.state()
        if self.shard_writer is not None:
            self._finish_checkpoint()
            self.shard_writer.begin(progress, optimiser, average)
            return
        snapshot = Snapshot(take_weights(context.model), optimiser, progress, average)
        options = context.options
        path = options.processes.first_does(lambda: options.checkpointer.checkpoint(snapshot))
        options.listen(Checkpointed(progress.step, path))

    def _finish_checkpoint(self) -> None:
        """Wait for the shards of a checkpoint that is being written, and complete it."""
        path = None if self.shard_writer is None else self.shard_writer.finish()
        if path is not None:
            self.context.options.listen(Checkpointed(step_of(path), str(path)))
