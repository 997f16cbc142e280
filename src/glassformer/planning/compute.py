"""What a training takes: parameters by what they are for, products, tokens, updates; how fast a few seconds of it are,
how long all of it takes, and how far minutes get.
"""

import contextlib
import statistics
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from itertools import pairwise

import torch
from torch import nn

from glassformer.bricks.attention import Attention, MemoryAttention
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.capabilities import capability
from glassformer.bricks.convolution import ConvolutionStack, Patches
from glassformer.bricks.embedding import WordVectors
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.bricks.own import OwnBrick
from glassformer.bricks.pooling import AttentionPool
from glassformer.bricks.positions import LearnedPositions, OneHotPositions
from glassformer.bricks.recurrent import Recurrent
from glassformer.config.sections import TrainingSettings
from glassformer.data.wording import counted
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.families.base import Family
from glassformer.models.capabilities import HasHead
from glassformer.models.inputs import ColumnTokens, MixedTokens
from glassformer.models.modules import Transform
from glassformer.planning.setup import PlannedTraining
from glassformer.planning.training_step import count_products
from glassformer.tasks.base import Task
from glassformer.training.budget import (
    ALL_VALIDATIONS_SHARE,
    LAST_EVALUATION_SHARE,
    MAX_REPORT_SHARE,
    REPORT_SECONDS,
    VALIDATION_SHARE,
)
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Event, Stepped
from glassformer.training.loop import Trainer

ENOUGH_TOKENS = 20
"""Tokens per parameter at which a language model makes most of what is computed (Hoffmann et al. 2022)."""
VALIDATIONS = 10
"""How many a training has, unless said."""
WARM = 2
"""Updates that are not counted."""
SECONDS, FEWEST = 3.0, 3
"""So long, and so many updates at least; where each takes longer, one has to do."""
SAMPLE = 256
"""Tokens that are translated to see how long a validation takes; of a language model, 16 times as many are read."""
HELD_OUT = ("validation", "test")
"""What is judged on the way, or, where all but the test is learned from, at the end alone."""


# --- how fast ---


@dataclass(frozen=True)
class Speed:
    """Medians over some updates."""

    update: float
    """Seconds of an update."""
    tokens: float
    """Tokens a second."""
    updates: int
    """How many were measured."""
    validation: float
    """Seconds of a validation for each token."""
    notes: tuple[str, ...]
    """What it was measured on, and how precisely."""
    tokens_per_example: int | None = None
    """What an example counts as, where it has no words."""


class _Enough(Exception):
    """Enough was seen of a training."""


def probe(family: Family, model: nn.Module, task: Task, settings: TrainingSettings, device: torch.device) -> Speed:
    """Real updates of the real loop; the caller's random numbers are left as they were."""
    steps = [(0.0, 0)]
    """Seconds in steps, and tokens, after each."""

    def stop_after_some(event: Event) -> None:
        if isinstance(event, Stepped):
            steps.append((event.seconds, event.tokens))
            made = len(steps) - 1
            spent = event.seconds - steps[min(WARM, made)][0]
            if spent >= SECONDS and made - WARM >= (FEWEST if spent < 5 * SECONDS else 1):
                raise _Enough

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
        TrainerOptions(device, stop_after_some),
    )
    with contextlib.suppress(_Enough):
        if trainer.run().reason == "interrupted":
            raise KeyboardInterrupt
    taken = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(steps)]
    updates = taken[WARM:] or taken[-1:]
    each = statistics.median(seconds / max(1, tokens) for seconds, tokens in updates)
    update = each * statistics.mean(tokens for _, tokens in updates)
    notes = [f"on {device}, matrix products in {trainer.context.precision.name}"]
    notes += [counted(trainer.context.progress.threads, "thread")] if device.type == "cpu" else []
    notes += ["compiled"] if trainer.context.loss.how != "off" else []
    validation = _validation_seconds(family, trainer, each)
    return Speed(update, 1 / each, len(updates), validation, tuple(notes), task.tokens_per_example)


def _validation_seconds(family: Family, trainer: Trainer, each: float) -> float:
    """Seconds that a validation takes for each token: tried out where it is more than a forward pass, which is a third
    of a step. `each`: seconds of a step.
    """
    if not (family.reads_stream or family.has_decoder):
        return each / 3
    task = trainer.context.task
    part = next((name for name in HELD_OUT if name in task.parts), None)
    if part is None:
        return 0.0
    most = SAMPLE if not task.steady else 16 * SAMPLE
    trainer.context.model.eval()
    began = time.perf_counter()
    with trainer.context.precision.autocast(), torch.no_grad():
        metrics = task.evaluate(trainer.context.model, part, most=most).metrics
    return (time.perf_counter() - began) / metrics.get("tokens", metrics.get("target_tokens", most))


# --- how much, and how long ---


@dataclass(frozen=True)
class TrainingCompute:
    """What a whole training computes; None: the clock decides, and was not read."""

    tokens: int
    """How many the training part has."""
    per_update: float
    """Tokens that an update reads, on average."""
    updates: int | None
    per_epoch: float
    """Updates in which the training part is gone through once."""
    products: float | None
    """Multiplications that each token takes in a forward pass; None: not counted."""

    @property
    def epochs(self) -> float | None:
        return None if self.updates is None else self.updates / self.per_epoch

    @property
    def seen(self) -> float | None:
        """Tokens read in all."""
        return None if self.updates is None else self.updates * self.per_update

    @property
    def flops(self) -> float | None:
        """What an update takes: each product comes with a sum, and the backward pass takes twice the forward pass."""
        return None if self.products is None else 6 * self.products * self.per_update

    @property
    def all_flops(self) -> float | None:
        return None if self.updates is None or self.flops is None else self.updates * self.flops

    def per_parameter(self, parameters: int) -> float | None:
        return None if self.seen is None else self.seen / max(1, parameters)


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a whole training run, by what they are for."""

    reading: float
    """Reading the data and learning its tokens, as measured for the plan."""
    updates: float
    validations: float
    """All validations during training."""
    last: float
    """The last evaluation of the held-out parts."""
    papers: float
    """The doctor, pictures and the report, about."""
    validation: float
    """One validation."""
    steps: int
    """Number of updates."""

    @property
    def total(self) -> float:
        return self.reading + self.updates + self.validations + self.last + self.papers


def training_compute(planned: PlannedTraining, times: TimePlan | None) -> TrainingCompute:
    """Return what is computed; if the budget is in minutes, as many updates as `times` allows."""
    products, updates = _products(planned), planned.updates
    return TrainingCompute(
        tokens=planned.tokens["train"],
        per_update=planned.per_update,
        updates=times.steps if updates is None and times is not None else updates,
        per_epoch=planned.task.steps_per_epoch,
        products=None if products is None else products / max(1, planned.batch_tokens),
    )


def _products(planned: PlannedTraining) -> int | None:
    """The products of the largest batch. Blocks of a Transformer are alike: two of them say what the others do."""
    blocks = planned.blocks
    if blocks is None or blocks <= 2:
        return count_products(partial(planned.build, planned.config), planned.task, planned.piece)
    one, two = (
        count_products(partial(planned.build, planned.with_blocks(count)), planned.task, planned.piece)
        for count in (1, 2)
    )
    return None if one is None or two is None else one + (blocks - 1) * (two - one)


def time_plan(planned: PlannedTraining, speed: Speed) -> TimePlan:
    """Return the time of reading, of updates and validations, and of the last evaluation of all held-out parts.

    A budget in minutes is shared among them as in `training/budget.py`.
    """
    training, step = planned.config.training, planned.per_update / speed.tokens
    held_out = {part: _judged(planned, part) for part in planned.tokens if part != "train"}
    tokens = held_out.get("validation", 0)
    most = tokens if planned.family.labels_examples else training.validation_tokens
    validation, last = speed.validation * min(tokens, most), speed.validation * sum(held_out.values())
    if planned.updates is not None:
        every, updates = training.validate_every, planned.updates
        count = updates // every if every else min(VALIDATIONS, updates)
        return TimePlan(planned.reading, updates * step, count * validation, last, REPORT_SECONDS, validation, updates)
    assert training.minutes is not None
    left = max(0.0, 60 * training.minutes - planned.reading)
    validation = min(validation, VALIDATION_SHARE * left)
    validations = min(ALL_VALIDATIONS_SHARE * left, VALIDATIONS * validation)
    last, papers = min(last, LAST_EVALUATION_SHARE * left), min(REPORT_SECONDS, MAX_REPORT_SHARE * left)
    seconds = left - validations - last - papers
    steps = max(1, round(seconds / step))
    return TimePlan(planned.reading, steps * step, validations, last, papers, validation, steps)


def _judged(planned: PlannedTraining, part: str) -> int:
    """Tokens of a part that are evaluated: of a translation the targets, about half of them."""
    return planned.tokens[part] // (2 if planned.family.has_decoder else 1)


# --- parameters ---

PARTS: dict[type[nn.Module], str] = {
    WordVectors: "word vectors",
    BagOfWords: "bag of words",
    Patches: "patches",
    ConvolutionStack: "convolutions",
    ColumnTokens: "columns",
    MixedTokens: "kinds of tokens",
    LearnedPositions: "positions",
    OneHotPositions: "positions",
    FeedForward: "feed-forward",
    LayerNorm: "norms",
    RMSNorm: "norms",
    BatchNorm: "norms",
    Recurrent: "recurrent layers",
    MemoryAttention: "attention to the source",
    RecurrentDecoder: "recurrent decoder: start and join",
    CnnEncoder: "convolutions",
    WindowEncoder: "window",
    AttentionPool: "pool",
    Transform: "head",
}
"""What a module's own weights are for, and those of the modules in it that are not named here."""

OF_ATTENTION = {"query": "queries W^Q", "key": "keys W^K", "value": "values W^V", "output": "output W^O"}
OF_SCORES = {"shared": "shared U", "bilinear": "bilinear W"}
"""What the one matrix is called that makes scores without separate queries and keys."""


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """All numbers by part; shared ones count once, at their first part."""
    parts: Counter[str] = Counter()
    for path, weight in model.named_parameters():
        module, part = model, "other"
        for name in path.split(".")[:-1]:
            child = module.get_submodule(name)
            part = _part(module, name, child, part)
            module = child
        parts[part] += weight.numel()
    return dict(parts)


def _part(parent: nn.Module, name: str, child: nn.Module, part: str) -> str:
    if matrix := matrix_name(parent, name):
        return f"{part}: {matrix}"
    return part_name(child) or ("head" if name == "head" else PARTS.get(type(child), part))


@singledispatch
def matrix_name(parent: nn.Module, name: str) -> str:
    """Return what a matrix of an attention is called; empty for other modules."""
    return ""


@matrix_name.register
def matrix_of_attention(parent: Attention, name: str) -> str:
    usual = OF_ATTENTION.get(name, "")
    return OF_SCORES.get(parent.scores, usual) if name == "query" else usual


@singledispatch
def part_name(module: nn.Module) -> str:
    """Return the part that an attention, or a user's own brick, belongs to; empty for other modules."""
    return ""


@part_name.register
def part_of_own_brick(module: OwnBrick) -> str:
    return {"attention": "attention", "norm": "norms", "positions": "positions"}.get(module.part.kind, "pool")


@part_name.register
def part_of_attention(module: Attention) -> str:
    return "attention to the source" if module.is_cross_attention else "attention"


def tied(model: nn.Module) -> bool:
    """Return whether the head has no weights of its own."""
    known = capability(model, HasHead)
    others = {
        id(weight) for name, weight in model.named_parameters(remove_duplicate=False) if not name.startswith("head")
    }
    return known is not None and isinstance(known.head, nn.Linear) and id(known.head.weight) in others
