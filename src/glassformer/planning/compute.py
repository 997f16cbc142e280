"""Compute and time of a training run: products, tokens and updates, the measured speed, and parameters by part."""

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
from glassformer.config.resolve import Config
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
"""Compute-optimal number of tokens per parameter of a language model (Hoffmann et al. 2022)."""
VALIDATIONS = 10
"""Default number of validations per training run."""
WARM_UP_UPDATES = 2
"""Number of first updates that are not measured."""
MIN_SECONDS, MIN_UPDATES = 3.0, 3
"""Minimum length of the measurement; one update is enough if it takes five times as long."""
SAMPLE_TOKENS = 256
"""Tokens translated to measure a validation; a language model reads 16 times as many."""
HELD_OUT = ("validation", "test")
"""Parts of the data for measuring a validation; the first that exists is used."""


# --- speed ---


@dataclass(frozen=True)
class Speed:
    """Measured speed of training: medians over several updates."""

    update: float
    """Seconds per update."""
    tokens: float
    """Tokens per second."""
    updates: int
    """Number of measured updates."""
    validation: float
    """Seconds per token of a validation."""
    notes: tuple[str, ...]
    """Device, precision and other conditions of the measurement."""
    tokens_per_example: int | None = None
    """Tokens that an example counts as, for data without text."""


class _MeasuredEnough(Exception):
    """Raised to end the training run of a measurement."""


def probe(family: Family, model: nn.Module, task: Task, settings: TrainingSettings, device: torch.device) -> Speed:
    """Measure the speed of the training loop. The caller's random state does not change."""
    steps = [(0.0, 0)]
    """Total seconds and tokens after each step."""

    def stop_after_some(event: Event) -> None:
        if isinstance(event, Stepped):
            steps.append((event.seconds, event.tokens))
            made = len(steps) - 1
            spent = event.seconds - steps[min(WARM_UP_UPDATES, made)][0]
            if spent >= MIN_SECONDS and made - WARM_UP_UPDATES >= (MIN_UPDATES if spent < 5 * MIN_SECONDS else 1):
                raise _MeasuredEnough

    how = "on" if settings.compile == "tuned" else settings.compile
    settings = replace(settings, validate_every=10**9, checkpoint_every=None, keep_checkpoints=False, compile=how)
    trainer = Trainer(model, task, settings, TrainerOptions(device, stop_after_some))
    with contextlib.suppress(_MeasuredEnough):
        if trainer.run().reason == "interrupted":
            raise KeyboardInterrupt
    taken = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(steps)]
    updates = taken[WARM_UP_UPDATES:] or taken[-1:]
    each = statistics.median(seconds / max(1, tokens) for seconds, tokens in updates)
    update = each * statistics.mean(tokens for _, tokens in updates)
    notes = [f"on {device}, matrix products in {trainer.context.precision.name}"]
    notes += [counted(trainer.context.progress.threads, "thread")] if device.type == "cpu" else []
    notes += ["compiled"] if trainer.context.loss.how != "off" else []
    validation = _validation_seconds(family, trainer, each)
    return Speed(update, 1 / each, len(updates), validation, tuple(notes), task.tokens_per_example)


def _validation_seconds(family: Family, trainer: Trainer, each: float) -> float:
    """Return the seconds of a validation per token.

    A plain forward pass takes a third of a step. Other validations, such as translation, are measured.
    `each`: seconds of a step per token.
    """
    if not (family.reads_stream or family.has_decoder):
        return each / 3
    task = trainer.context.task
    part = next((name for name in HELD_OUT if name in task.parts), None)
    if part is None:
        return 0.0
    most = SAMPLE_TOKENS if not task.steady else 16 * SAMPLE_TOKENS
    trainer.context.model.eval()
    began = time.perf_counter()
    with trainer.context.precision.autocast(), torch.no_grad():
        metrics = task.evaluate(trainer.context.model, part, most=most).metrics
    return (time.perf_counter() - began) / metrics.get("tokens", metrics.get("target_tokens", most))


# --- compute and time ---


@dataclass(frozen=True)
class TrainingCompute:
    """Compute of a whole training run. Totals are None if the budget is in minutes and the speed is unknown."""

    tokens: int
    """Tokens of the training part."""
    per_update: float
    """Mean tokens per update."""
    updates: int | None
    per_epoch: float
    """Updates per epoch."""
    products: float | None
    """Multiplications per token in a forward pass; None if they could not be counted."""

    @property
    def epochs(self) -> float | None:
        return None if self.updates is None else self.updates / self.per_epoch

    @property
    def seen(self) -> float | None:
        """Return the total number of tokens read."""
        return None if self.updates is None else self.updates * self.per_update

    @property
    def flops(self) -> float | None:
        """Return the FLOPs per update: 2 per product, and a backward pass costs as much as two forward passes."""
        return None if self.products is None else 6 * self.products * self.per_update

    @property
    def all_flops(self) -> float | None:
        return None if self.updates is None or self.flops is None else self.updates * self.flops

    def per_parameter(self, parameters: int) -> float | None:
        return None if self.seen is None else self.seen / max(1, parameters)


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a whole training run, by purpose."""

    reading: float
    """Time of reading the data and learning its tokens, as measured for the plan."""
    updates: float
    validations: float
    """All validations during training."""
    last: float
    """The final evaluation of the held-out parts."""
    papers: float
    """Approximate time of the doctor, pictures and the report."""
    validation: float
    """One validation."""
    steps: int
    """Number of updates."""

    @property
    def total(self) -> float:
        return self.reading + self.updates + self.validations + self.last + self.papers


def training_compute(planned: PlannedTraining, times: TimePlan | None) -> TrainingCompute:
    """Return the compute of a training run. If the budget is in minutes, `times` sets the number of updates."""
    products, updates = _products(planned), planned.updates
    return TrainingCompute(
        tokens=planned.tokens["train"],
        per_update=planned.per_update,
        updates=times.steps if updates is None and times is not None else updates,
        per_epoch=planned.task.steps_per_epoch,
        products=None if products is None else products / max(1, planned.batch_tokens),
    )


def _products(planned: PlannedTraining) -> int | None:
    """Return the multiplications of the largest batch. In a Transformer, later blocks count like the second one."""

    def count(config: Config) -> int | None:
        return count_products(partial(planned.build, config), planned.task, planned.piece)

    blocks = planned.blocks
    if blocks is None or blocks <= 2:
        return count(planned.config)
    one, two = count(planned.with_blocks(1)), count(planned.with_blocks(2))
    return None if one is None or two is None else one + (blocks - 1) * (two - one)


def time_plan(planned: PlannedTraining, speed: Speed) -> TimePlan:
    """Return the seconds of reading, updates, validations, the final evaluation of all held-out parts, and the report.

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
    """Return the number of evaluated tokens of a part; in translation only the targets, about half of the tokens."""
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
"""Part that the weights of a module belong to, including those of submodules that are not listed."""

OF_ATTENTION = {"query": "queries W^Q", "key": "keys W^K", "value": "values W^V", "output": "output W^O"}
OF_SCORES = {"shared": "shared U", "bilinear": "bilinear W"}
"""Names of the single matrix, for scores without separate query and key matrices."""


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Return the number of weights by part; a shared weight counts once, in its first part."""
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
    """Return the name of a matrix in an attention layer; empty for other modules."""
    return ""


@matrix_name.register
def matrix_of_attention(parent: Attention, name: str) -> str:
    usual = OF_ATTENTION.get(name, "")
    return OF_SCORES.get(parent.scores, usual) if name == "query" else usual


@singledispatch
def part_name(module: nn.Module) -> str:
    """Return the part that an attention layer or a user's brick belongs to; empty for other modules."""
    return ""


@part_name.register
def part_of_own_brick(module: OwnBrick) -> str:
    return {"attention": "attention", "norm": "norms", "positions": "positions"}.get(module.part.kind, "pool")


@part_name.register
def part_of_attention(module: Attention) -> str:
    return "attention to the source" if module.is_cross_attention else "attention"


def tied(model: nn.Module) -> bool:
    """Return whether the head shares its weights with another module."""
    known, named = capability(model, HasHead), model.named_parameters(remove_duplicate=False)
    head = None if known is None else known.head
    return isinstance(head, nn.Linear) and any(
        weight is head.weight and not name.startswith("head") for name, weight in named
    )
