"""The objects that the loop, its step and its validations share, and how they are made from a caller's options."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from glassformer.bricks.capabilities import parts_with
from glassformer.config.messages import silent
from glassformer.config.sections import TrainingSettings
from glassformer.encoders.base import Recomputes
from glassformer.tasks.base import Batch, Task
from glassformer.training.budget import Budget, Clock, Stopwatch
from glassformer.training.checkpointer import Checkpointer, Progress, Snapshot
from glassformer.training.device import Precision, StepLoss, choose_compile, choose_precision
from glassformer.training.distributed.parallel import Parallel, Replicated
from glassformer.training.distributed.processes import Processes, check_shares
from glassformer.training.events import Listener, Noted
from glassformer.training.optimiser import Average, Optimiser
from glassformer.training.schedule import total_steps


@dataclass(frozen=True)
class TrainerOptions:
    """Options of the trainer besides the settings."""

    device: torch.device
    listen: Listener = silent
    checkpointer: Checkpointer = field(default_factory=Checkpointer)
    processes: Processes = field(default_factory=Processes)
    resume: Snapshot | None = None
    """The checkpoint to resume from."""
    describe: Callable[[Batch, int], str] = lambda batch, row: ""
    """Returns an example of a batch as text."""
    usual_rate: float = math.inf
    """The usual learning rate of such models, if known."""
    new_parts: Sequence[str] = ()
    """Parts of a fine-tuned model that were not taken from the earlier run."""
    clock: Clock = field(default_factory=Stopwatch)
    """Seconds since the command began."""
    budget: Budget | None = None
    """The division of `training.minutes` between the loop and the work after it; None if there is no such work."""


@dataclass(frozen=True, eq=False)
class TrainingContext:
    """The objects that the loop, its step and its validations share."""

    model: nn.Module
    task: Task
    settings: TrainingSettings
    options: TrainerOptions
    total: int | None
    """Number of updates; None if the budget of minutes decides."""
    precision: Precision
    loss: StepLoss
    parallel: Parallel
    optimiser: Optimiser
    average: Average
    progress: Progress
    budget: Budget | None
    """The budget of `training.minutes`; None if the number of updates is given."""

    @classmethod
    def make(
        cls, model: nn.Module, task: Task, settings: TrainingSettings, options: TrainerOptions
    ) -> "TrainingContext":
        """Put the model on its device, make its optimiser, and restore both from a checkpoint if there is one."""
        device, processes, resume = options.device, options.processes, options.resume
        check_shares(settings, processes)
        for _, encoder in parts_with(model, Recomputes):
            encoder.recompute = settings.recompute
        total = total_steps(settings, task)
        precision = choose_precision(settings.precision, device)
        how = choose_compile(settings, device, total, steady=task.steady)
        parallel: Parallel
        if settings.parallel == "fsdp":
            from glassformer.training.distributed.sharded import Sharded  # importing it takes seconds

            loss = StepLoss(model, task, how)
            parallel = Sharded(loss, processes, device, precision)
        else:
            loss = StepLoss(model.to(device), task, how)
            parallel = Replicated(loss, processes, device)
        if resume is not None:
            parallel.put_weights(resume.weights)
        optimiser = Optimiser(model, settings, options.new_parts, parallel.weights, parallel.muon)
        average = Average(parallel.weights, settings.average)
        progress = Progress() if resume is None else resume.progress
        if resume is not None:
            optimiser.load(parallel.read(resume.optimiser))
        if resume is not None and resume.average:
            average.load(parallel.read(resume.average))
        else:
            progress.averaged = 0
        progress.threads = settings.threads or progress.threads or torch.get_num_threads()
        budget = None if settings.minutes is None else options.budget or Budget(60 * settings.minutes)
        return cls(
            model, task, settings, options, total, precision, loss, parallel, optimiser, average, progress, budget
        )

    def say(self, text: str) -> None:
        self.options.listen(Noted(text))
