"""A run's own validation part, to be looked at again: some of its examples, and the loss on it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from glassformer.config.errors import DataError
from glassformer.config.say import Say, silent
from glassformer.runs.run import Run
from glassformer.verbs.given import Given
from glassformer.verbs.held_out import examples_held_out
from glassformer.verbs.load import AnyLoaded
from glassformer.verbs.prepare import Prepared, prepare
from glassformer.verbs.resume import same_data

MOST_TOKENS = 128
"""Of an example over which heads are measured."""
MOST_JUDGED = 20_000
"""Tokens of the validation part on which a loss is measured again and again."""


def prepare_again(run: Run) -> Prepared:
    """The data that a run was trained on, as it was read then."""
    try:
        prepared = prepare(run.config(), silent, run.tokenizer(), target_tokenizer=run.target_tokenizer())
    except DataError as error:
        raise DataError(f"the data that this run was trained on is not there ({error}): give a text") from None
    same_data(run, prepared)
    return prepared


def examples_of(loaded: AnyLoaded, count: int, say: Say) -> list[Given]:
    """Some examples of the validation part, spread over it."""
    prepared = prepare_again(loaded.run)
    found = list(
        examples_held_out(loaded.run, loaded.config, prepared, loaded.model, count=count, most=MOST_TOKENS, room=4096)
    )
    if not found:
        raise DataError(f"no example of the validation part has {MOST_TOKENS} tokens or fewer: give a text")
    say(f"{len(found)} examples of the validation part")
    return found


def loss_on(loaded: AnyLoaded, examples: Sequence[Given], say: Say) -> tuple[Callable[[], float], str]:
    """Something that measures a model's loss: on these examples, or without any on the validation part; and its name.

    Of a text the loss per token, of a translation that of what is written. What is predicted of an example has no right
    answer here: it is judged by the answer that the whole model gives.
    """
    model = loaded.model
    if not examples:
        prepared = prepare_again(loaded.run)
        say("the loss is that of the validation part")
        return torch.no_grad()(
            lambda: prepared.task.evaluate(model, "validation", most=MOST_JUDGED).metrics["loss"]
        ), f"validation loss, {prepared.task.unit}"
    with torch.no_grad():
        answers = [_answers(model, example) for example in examples]
    judge = torch.no_grad()(lambda: _mean_loss(model, examples, answers))
    return judge, "loss on this text" if len(examples) == 1 else "loss on these texts"


def _answers(model: nn.Module, example: Given) -> Tensor:
    """The token that follows each, or what the model says of the example."""
    if example.answer_ids is not None:
        return torch.tensor(example.answer_ids)
    return model(*example.inputs)[0].detach().cpu()


def _mean_loss(model: nn.Module, examples: Sequence[Given], answers: Sequence[Tensor]) -> float:
    losses = []
    for example, right in zip(examples, answers, strict=True):
        scores = model(*example.inputs)[0].float().cpu()
        if example.answer_ids is not None:
            losses.append(nn.functional.cross_entropy(scores[: len(right)], right))
        elif len(scores) == 1:
            losses.append((scores - right).square().mean())
        else:
            losses.append(nn.functional.cross_entropy(scores, right.softmax(-1)))
    return float(torch.stack(losses).mean())
