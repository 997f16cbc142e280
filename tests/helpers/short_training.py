"""Limit every training run to a few updates.

A plugin (GLASSFORMER_PLUGINS) for processes that run the commands of the documents: they test that a command works, and
the lessons and the demo test what training at full length reaches.
"""

from glassformer.config.sections import TrainingSettings
from glassformer.pipeline import training
from glassformer.tasks.base import Task
from glassformer.training import loop, schedule

MAX_UPDATES = 60


def limited_steps(settings: TrainingSettings, task: Task) -> int | None:
    """Return at most MAX_UPDATES; None under a limit of time, as before."""
    steps = schedule.total_steps(settings, task)
    return steps and min(steps, MAX_UPDATES)


for module in (loop, training):
    module.total_steps = limited_steps  # type: ignore[attr-defined]
