"""What a training really holds, from torch's own record of every allocation."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch, Task
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Event, Stepped
from glassformer.training.loop import Trainer


class Enough(Exception):
    pass


def most_held(act: Callable[[], object]) -> int:
    """Bytes, beyond those that were there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        act()

    def walk(events: Any) -> Iterator[tuple[int, int]]:
        for event in events:
            if event.name == "[memory]":
                yield event.start_time_ns, event.extra_fields.alloc_size
            yield from walk(event.children)

    assert seen.profiler is not None
    now = most = 0
    for _, size in sorted(walk(seen.profiler.kineto_results.experimental_event_tree()), key=lambda one: one[0]):
        now += size
        most = max(most, now)
    return most


def most_of_training(model: nn.Module, task: Task, batch: Batch, settings: TrainingSettings, steps: int = 3) -> int:
    """Of the real loop, on this batch again and again, weights not counted."""
    task.batch = lambda step: batch  # type: ignore[method-assign]

    def listen(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == steps:
            raise Enough

    trainer = Trainer(model, task, settings, TrainerOptions(torch.device("cpu"), listen=listen))

    def train() -> None:
        try:
            trainer.run()
        except Enough:
            return

    return most_held(train)
