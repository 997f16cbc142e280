"""How fast a training will be: a few seconds of it, and nothing is left of them."""

import contextlib
import statistics
import time
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import pairwise

import torch
from torch import nn

from glassformer.config.sections import TrainingSettings
from glassformer.families.base import Family
from glassformer.families.language import StreamFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Task
from glassformer.training.checkpointer import Checkpointer
from glassformer.training.events import Ended, Event, Stepped
from glassformer.training.loop import Trainer

WARM = 2
"""Updates that are not counted."""
SECONDS, FEWEST = 3.0, 3
"""So long, and so many updates at least; where each takes longer, one has to do."""
SAMPLE = 256
"""Tokens that are translated to see how long a validation takes; of a language model, 16 times as many are read."""
HELD_OUT = ("validation", "test")
"""What is judged on the way, or, where all but the test is learned from, at the end alone."""


@dataclass(frozen=True)
class Speed:
    """Medians over some updates."""

    update: float
    """Seconds."""
    tokens: float
    """A second."""
    updates: int
    """How many were measured."""
    validation: float
    """Seconds for each token."""
    notes: tuple[str, ...]
    """On what, and how precisely."""


class _Enough(Exception):
    """Enough was seen of a training."""


class _Clock:
    """Listens to a training, and ends it when it has seen enough."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []
        """Seconds in steps, and tokens, after each."""
        self.reason = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Ended):
            self.reason = event.reason
        if not isinstance(event, Stepped):
            return
        self.seen.append((event.seconds, event.tokens))
        counted = len(self.seen) - WARM
        spent = event.seconds - self.seen[min(WARM, len(self.seen)) - 1][0]
        if spent >= SECONDS and counted >= (FEWEST if spent < 5 * SECONDS else 1):
            raise _Enough


def probe(family: Family, model: nn.Module, task: Task, settings: TrainingSettings, device: torch.device) -> Speed:
    """Real updates of the real loop; the caller's random numbers are left as they were."""
    clock = _Clock()
    trainer = Trainer(
        model,
        task,
        replace(
            settings,
            validate_every=10**9,
            checkpoint_every=None,
            keep_checkpoints=False,
            compile="on" if settings.compile == "tuned" else settings.compile,
        ),
        device=device,
        checkpointer=Checkpointer(),
        listen=clock,
    )
    with contextlib.suppress(_Enough):
        trainer.run()
    if clock.reason == "interrupted":
        raise KeyboardInterrupt
    steps = [(0.0, 0), *clock.seen]
    taken = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(steps)]
    counted = taken[WARM:] or taken[-1:]
    each = statistics.median(seconds / max(1, tokens) for seconds, tokens in counted)
    update = each * statistics.mean(tokens for _, tokens in counted)
    notes = (f"on {device}, matrix products in {trainer.precision.name}", *_threads(trainer), *_compiled(trainer))
    return Speed(update, 1 / each, len(counted), validation_seconds(family, trainer, each), notes)


def _threads(trainer: Trainer) -> tuple[str, ...]:
    many = trainer.progress.threads
    return (f"{many} thread{'s' * (many != 1)}",) if trainer.device.type == "cpu" else ()


def _compiled(trainer: Trainer) -> tuple[str, ...]:
    return ("compiled",) if trainer.loss.how != "off" else ()


@singledispatch
def validation_seconds(family: Family, trainer: Trainer, each: float) -> float:
    """Seconds that a validation takes for each token; `each`: seconds of a step, of which a forward pass is a third."""
    return each / 3


@validation_seconds.register(StreamFamily)
@validation_seconds.register(TranslationFamily)
def _(family: Family, trainer: Trainer, each: float) -> float:
    """Tried out."""
    task = trainer.task
    part = next((name for name in HELD_OUT if name in task.parts), None)
    if part is None:
        return 0.0
    most = SAMPLE if not task.steady else 16 * SAMPLE
    trainer.model.eval()
    began = time.perf_counter()
    with trainer.precision.autocast(), torch.no_grad():
        metrics = task.evaluate(trainer.model, part, most=most).metrics
    return (time.perf_counter() - began) / metrics.get("tokens", metrics.get("target_tokens", most))
