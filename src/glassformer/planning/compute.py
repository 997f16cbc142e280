"""What a training computes (products, tokens, updates), how long that takes, and how far minutes get."""

from dataclasses import dataclass
from functools import partial

from glassformer.planning.probe import Speed
from glassformer.planning.setup import PlannedTraining
from glassformer.planning.training_step import count_products

ENOUGH_TOKENS = 20
"""Tokens per parameter at which a language model makes most of what is computed (Hoffmann et al. 2022)."""
VALIDATIONS = 10
"""In a training, unless said."""


@dataclass(frozen=True)
class TrainingCompute:
    """Of a whole training; None: the clock decides, and was not read."""

    tokens: int
    """Of the training part."""
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
        """Of an update: each product comes with a sum, and the backward pass takes twice the forward pass."""
        return None if self.products is None else 6 * self.products * self.per_update

    @property
    def all_flops(self) -> float | None:
        return None if self.updates is None or self.flops is None else self.updates * self.flops

    def per_parameter(self, parameters: int) -> float | None:
        return None if self.seen is None else self.seen / max(1, parameters)


def training_compute(planned: PlannedTraining, speed: Speed | None) -> TrainingCompute:
    """What is computed; where the clock is the budget, as much as it allows at this speed."""
    counted = _products(planned)
    updates, minutes = planned.updates, planned.config.training.minutes
    if updates is None and speed is not None and minutes is not None:
        seconds = 60 * minutes
        # the loop gives validations a tenth of the time at most
        validating = min(0.1 * seconds, VALIDATIONS * _validation(planned, speed))
        updates = max(1, round((seconds - validating) / _update(planned, speed)))
    each = None if counted is None else counted / max(1, planned.batch_tokens)
    return TrainingCompute(planned.tokens["train"], planned.per_update, updates, planned.per_epoch, each)


def _products(planned: PlannedTraining) -> int | None:
    """Of the largest batch. Blocks of a Transformer are alike: two of them say what the others do."""
    blocks = planned.blocks
    if blocks is None or blocks <= 2:
        return count_products(partial(planned.build, planned.config), planned.task, planned.piece)
    one, two = (
        count_products(partial(planned.build, planned.with_blocks(count)), planned.task, planned.piece)
        for count in (1, 2)
    )
    return None if one is None or two is None else one + (blocks - 1) * (two - one)


def seconds_to_end(planned: PlannedTraining, work: TrainingCompute, speed: Speed | None) -> float | None:
    """Updates, the validations between them, and a last look at everything that is held out."""
    if speed is None or work.updates is None:
        return None
    training = planned.config.training
    last = speed.validation * sum(_judged(planned, part) for part in planned.tokens if part != "train")
    if training.minutes is not None:
        return 60 * training.minutes + last
    every = training.validate_every
    validations = work.updates // every if every else min(VALIDATIONS, work.updates)
    return work.updates * _update(planned, speed) + validations * _validation(planned, speed) + last


def _update(planned: PlannedTraining, speed: Speed) -> float:
    """Seconds of an average one."""
    return planned.per_update / speed.tokens


def _validation(planned: PlannedTraining, speed: Speed) -> float:
    """Seconds of one on the way."""
    tokens = _judged(planned, "validation")
    if not planned.family.labels_examples:
        tokens = min(tokens, planned.config.training.validation_tokens)
    return tokens * speed.validation


def _judged(planned: PlannedTraining, part: str) -> int:
    """Tokens of a part that are judged: of a translation its targets, about half of them."""
    return planned.tokens.get(part, 0) // (2 if planned.family.has_decoder else 1)
