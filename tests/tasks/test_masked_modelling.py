"""Guessing hidden tokens: what is asked, what it costs, and what that is divided by, against the definitions."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.config.errors import DataError
from glassformer.config.resolve import resolve
from glassformer.data.masking import NOTHING, Masking
from glassformer.data.store import Tokens
from glassformer.models.build import build_masked_model
from glassformer.models.masked_model import MaskedLanguageModel
from glassformer.tasks import windows
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.trials.floors.hidden import judge_hidden
from running import tiny
from support import randomise, same

VOCAB, START, END, MASK = 13, 1, 2, 3
CPU = torch.device("cpu")
READERS = ["transformer", "lstm", "gru", "rnn", "cnn", "window", "average"]


def model_of(encoder: str = "transformer", context: int = 7, **flags: Any) -> MaskedLanguageModel:
    settings = resolve({}, {**tiny(encoder), "task": "masked-language-model", "model.context": context, **flags},
                       strict=False).model  # fmt: skip
    return randomise(build_masked_model(settings, vocab=VOCAB)).eval()


def documents(*lengths: int, seed: int = 0) -> Tokens:
    random = np.random.default_rng(seed)
    ids = [id for length in lengths for id in (START, *random.integers(4, VOCAB, length), END)]
    return Tokens(np.array(ids, np.uint16), sum(lengths), sum(lengths), len(lengths), 0)


def task_of(tokens: Tokens, *, context: int = 7, rate: float = 0.4, **more: Any) -> MaskedModelling:
    masking = Masking(MASK, np.arange(4, VOCAB), VOCAB, rate)
    settings = {"batch_size": 5, "start": START, "end": END, **more}
    return MaskedModelling({"train": tokens, "validation": tokens}, context=context, masking=masking, **settings)


def nats(scores: Tensor, answer: int) -> float:
    y = scores.detach().double().numpy()
    return float(np.log(np.exp(y - y.max()).sum()) + y.max() - y[answer])


@pytest.mark.parametrize("encoder", READERS)
def test_loss_is_that_of_guessed_places_alone(encoder: str) -> None:
    model, task = model_of(encoder), task_of(documents(4, 6, 5, 9, 3, 8))
    batch = task.batch(0)
    asked = [(row, place) for row, place in (batch.answers != NOTHING).nonzero().tolist()]
    expected = sum(nats(model(batch.inputs[row : row + 1])[0, place], int(batch.answers[row, place]))
                   for row, place in asked)  # fmt: skip
    assert 0 < len(asked) < batch.tokens
    assert batch.count == len(asked)
    same(task.loss(model, *batch.tensors(CPU)), expected, 1e-4)


@pytest.mark.parametrize("encoder", ["transformer", "lstm", "gru", "rnn", "cnn", "window"])
def test_a_guess_depends_on_both_sides(encoder: str) -> None:
    model = model_of(encoder)
    ids = torch.tensor([[START, 5, MASK, 7, END]])
    for place in (1, 3):
        other = ids.clone()
        other[0, place] = 9
        assert (model(ids)[0, 2] - model(other)[0, 2]).abs().max() > 1e-4


def test_a_batch_is_text_with_some_of_it_hidden_and_divides_into_rows() -> None:
    tokens = documents(20, 30, 25)
    task = task_of(tokens, apart=True)
    batch = task.batch(3)
    whole = torch.where(batch.answers == NOTHING, batch.inputs, batch.answers)
    text = tokens.ids.tolist()
    found = {tuple(text[at : at + 7]) for at in range(len(text) - 6)}
    assert all(tuple(row) in found for row in whole.tolist())
    assert batch.segments is not None
    pieces = [batch.rows(0, 2), batch.rows(2, 5)]
    assert sum(piece.count for piece in pieces) == batch.count
    for number, tensor in enumerate(batch.tensors(CPU)):
        assert torch.equal(torch.cat([piece.tensors(CPU)[number] for piece in pieces]), tensor)
    again = task_of(tokens, apart=True).batch(3)
    assert torch.equal(again.inputs, batch.inputs)
    assert not torch.equal(task.batch(4).inputs, batch.inputs)


@pytest.mark.parametrize("apart", [False, True])
def test_evaluation_against_the_definition(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, context = documents(4, 6, 5, 9, 30, 8, 41, 17), 7
    model, task = model_of(), task_of(tokens, rate=0.9, apart=apart)
    monkeypatch.setattr(windows, "TOKENS_AT_ONCE", 15)
    ids = np.asarray(tokens.ids, np.int64)
    inputs, answers = task.masking.to_judge(ids, 0)
    losses, right = {}, 0
    for place in np.flatnonzero(answers != NOTHING).tolist():
        begin = min(place // context * context, len(ids) - context)
        first, last = begin, begin + context
        if apart:
            document = [
                at for at in range(begin, last) if (ids[: at + 1] == START).sum() == (ids[: place + 1] == START).sum()
            ]
            first, last = document[0], document[-1] + 1
        scores = model(torch.from_numpy(inputs[first:last])[None])[0, place - first]
        losses[place] = nats(scores, int(answers[place]))
        right += int(scores.argmax()) == answers[place]
    found = task.evaluate(model, "validation")
    assert found.primary == "loss"
    assert found.lower_is_better
    assert found.metrics["tokens"] == len(losses) == sum(record["tokens"] for record in found.records)
    assert found.metrics["loss"] == pytest.approx(sum(losses.values()) / len(losses), rel=1e-5)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(found.metrics["loss"]))
    assert found.metrics["accuracy"] == right / len(losses)
    assert sum(record["covered"] for record in found.records) == len(ids)
    order = np.argsort(found.arrays["place"])
    assert found.arrays["place"][order].tolist() == list(losses)
    np.testing.assert_allclose(found.arrays["loss"][order], list(losses.values()), rtol=1e-4)


def test_a_part_may_be_judged_in_part_and_must_hide_something() -> None:
    task = task_of(documents(40, 60))
    model = model_of()
    some = task.evaluate(model, "validation", most=50)
    assert sum(record["covered"] for record in some.records) == 50
    with pytest.raises(DataError, match="none of its tokens is hidden"):
        task.evaluate(model, "validation", most=1)


def test_counting_is_judged_as_a_model_is() -> None:
    task = task_of(documents(400, 300))
    found, counted = judge_hidden(task, "validation")
    ids = np.asarray(task.parts["train"].ids, np.int64)
    _, answers = task.masking.to_judge(ids, 0)
    shares = (np.bincount(ids, minlength=VOCAB) + 1)[4:] / (np.bincount(ids, minlength=VOCAB) + 1)[4:].sum()
    asked = answers[answers != NOTHING]
    assert counted == VOCAB - 4
    assert found.metrics["loss"] == pytest.approx(-np.log(shares[asked - 4]).mean())
    assert found.metrics["accuracy"] == pytest.approx((asked == 4 + shares.argmax()).mean())
