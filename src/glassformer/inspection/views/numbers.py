"""A run's model followed number by number: what it computes for an example, and one step of learning from it."""

import torch
from torch import nn

from glassformer.config.errors import Misuse
from glassformer.families.answer import learned_answer
from glassformer.families.load import LoadedPredictor
from glassformer.inspection.numbers.training import training_step
from glassformer.inspection.numbers.walk import walk
from glassformer.inspection.views.request import Asked
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes

RATE = 0.1
"""Of plain gradient descent on one example."""


def walk_through(asked: Asked) -> View:
    """Every formula with its numbers."""
    example = asked.given
    return walk(
        asked.model,
        example.inputs,
        example.tokens,
        layer=asked.layer or 0,
        head=asked.head or 0,
        position=asked.position,
        written=example.written or (),
        outputs=_outputs(asked),
    )


def step(asked: Asked) -> View:
    """Loss, gradient and update on one example; the run stays as it is."""
    example, loaded, loss = asked.given, asked.loaded, "softmax"
    if isinstance(loaded, LoadedPredictor):
        answers = learned_answer(loaded, asked.answer)
        loss = loaded.answers.loss if isinstance(loaded.answers, Classes) else "squared"
    elif asked.answer is not None:
        raise Misuse("--answer is for runs that predict: a text is its own answer, a translator's is --translation")
    else:
        answers = torch.tensor([[-1 if id is None else id for id in example.follows]])
    return training_step(
        asked.model,
        example.inputs,
        answers,
        loss=loss,
        tokens=() if isinstance(loaded, LoadedPredictor) else example.written or example.tokens,
        outputs=_outputs(asked),
        position=asked.position,
        lr=RATE,
        optimizer=loaded.config.training.optimizer,
    )


def _outputs(asked: Asked) -> list[str]:
    """Names of what is scored: a head may have rows that no token has."""
    if isinstance(asked.loaded, LoadedPredictor):
        answers = asked.loaded.answers
        return list(answers.names) if isinstance(answers, Classes) else []
    assert isinstance(asked.model.head, nn.Linear)
    return [asked.tokenizer.shown(id) for id in range(asked.model.head.out_features)]
