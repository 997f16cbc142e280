"""From the speed that was seen to how long a training takes, and how far minutes get."""

from functools import partial

from glassformer.config.presets import LABELLING, TRANSLATION
from glassformer.planning.probe import Speed
from glassformer.planning.setup import Planned
from glassformer.planning.step import products
from glassformer.planning.work import Work

VALIDATIONS = 10
"""In a training, unless said."""


def work_of(planned: Planned, speed: Speed | None) -> Work:
    """What is computed; where the clock is the budget, as much as it allows at this speed."""
    counted = _products(planned)
    updates, minutes = planned.updates, planned.config.training.minutes
    if updates is None and speed is not None and minutes is not None:
        seconds = 60 * minutes
        # the loop gives validations a tenth of the time at most
        validating = min(0.1 * seconds, VALIDATIONS * _validation(planned, speed))
        updates = max(1, round((seconds - validating) / _update(planned, speed)))
    each = None if counted is None else counted / max(1, planned.batch_tokens)
    return Work(planned.tokens["train"], planned.per_update, updates, planned.per_epoch, each)


def _products(planned: Planned) -> int | None:
    """Of the largest batch. Blocks of a Transformer are alike: two of them say what the others do."""
    blocks = planned.blocks
    if blocks is None or blocks <= 2:
        return products(partial(planned.build, planned.config), planned.task, planned.piece)
    one, two = (
        products(partial(planned.build, planned.with_blocks(count)), planned.task, planned.piece) for count in (1, 2)
    )
    return None if one is None or two is None else one + (blocks - 1) * (two - one)


def seconds_to_end(planned: Planned, work: Work, speed: Speed | None) -> float | None:
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


def _update(planned: Planned, speed: Speed) -> float:
    """Seconds of an average one."""
    return planned.per_update / speed.tokens


def _validation(planned: Planned, speed: Speed) -> float:
    """Seconds of one on the way."""
    tokens = _judged(planned, "validation")
    if planned.config.task not in LABELLING:
        tokens = min(tokens, planned.config.training.validation_tokens)
    return tokens * speed.validation


def _judged(planned: Planned, part: str) -> int:
    """Tokens of a part that are judged: of a translation its targets, about half of them."""
    return planned.tokens.get(part, 0) // (2 if planned.config.task == TRANSLATION else 1)
