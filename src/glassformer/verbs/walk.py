"""A run's model followed number by number: what it computes for an example, and one step of learning from it."""

import torch

from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.inside.numbers.training import training_step
from glassformer.inside.numbers.walk import walk
from glassformer.inside.view import View
from glassformer.tasks.answers import Classes
from glassformer.verbs.asked import Asked
from glassformer.verbs.load import LoadedPredictor

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
    example, loss = asked.given, "softmax"
    if isinstance(asked.loaded, LoadedPredictor):
        answers, loss = _right(asked.loaded, asked.answer)
    elif asked.answer is not None:
        raise Misuse("--answer is for runs that predict: a text is its own answer, a translator's is --translation")
    else:
        ids = example.answer_ids or []
        answers = torch.tensor([[*ids, *([] if example.written else [-1])]])
    return training_step(
        asked.model,
        example.inputs,
        answers,
        loss=loss,
        tokens=() if isinstance(asked.loaded, LoadedPredictor) else example.written or example.tokens,
        outputs=_outputs(asked),
        position=asked.position,
        lr=RATE,
        optimizer=asked.loaded.config.training.optimizer,
    )


def _right(loaded: LoadedPredictor, answer: str | None) -> tuple[torch.Tensor, str]:
    """What is to be learned, as the model learns it, and by which loss."""
    answers = loaded.answers
    if answer is None:
        which = f"one of {', '.join(answers.names)}" if isinstance(answers, Classes) else "a number"
        raise Misuse(f"a training step needs what the example should be: --answer, {which}")
    if isinstance(answers, Classes):
        if answer not in answers.names:
            raise Misuse(unknown("class", answer, answers.names))
    else:
        try:
            float(answer)
        except ValueError:
            raise Misuse(f"--answer {answer}: this run learned numbers") from None
    return torch.from_numpy(answers.learned([answer])), answers.loss if isinstance(answers, Classes) else "squared"


def _outputs(asked: Asked) -> list[str]:
    """Names of what is scored."""
    if isinstance(asked.loaded, LoadedPredictor):
        answers = asked.loaded.answers
        return list(answers.names[-answers.outputs :]) if isinstance(answers, Classes) else []
    return [asked.tokenizer.shown(id) for id in range(asked.tokenizer.vocab_size)]
