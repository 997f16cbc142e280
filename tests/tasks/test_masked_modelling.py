"""Guessing hidden tokens: what is asked, what it costs, and what that is divided by, against the definitions."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.bricks import losses
from glassformer.bricks.losses import vocabulary_loss
from glassformer.config.errors import DataError
from glassformer.config.resolve import resolve
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import NOTHING, Masking
from glassformer.models.build import build_masked_model
from glassformer.models.modules import MaskedLanguageModel
from glassformer.tasks import language_model
from glassformer.tasks.language_model import MaskedBatch, MaskedModelling, masked_places
from glassformer.trials.baselines.language import judge_hidden
from helpers.running import tiny
from helpers.support import randomise, same

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


def answers_of(batch: MaskedBatch) -> Tensor:
    """At every place of the batch: what is asked there."""
    return torch.full_like(batch.inputs, NOTHING).scatter(1, batch.places, batch.answers)


def nats(scores: Tensor, answer: int) -> float:
    y = scores.detach().double().numpy()
    return float(np.log(np.exp(y - y.max()).sum()) + y.max() - y[answer])


@pytest.mark.parametrize("encoder", READERS)
def test_loss_is_that_of_guessed_places_alone(encoder: str) -> None:
    model, task = model_of(encoder), task_of(documents(4, 6, 5, 9, 3, 8))
    batch = task.batch(0)
    answers = answers_of(batch)
    asked = [(row, place) for row, place in (answers != NOTHING).nonzero().tolist()]
    expected = sum(nats(model(batch.inputs[row : row + 1])[0, place], int(answers[row, place]))
                   for row, place in asked)  # fmt: skip
    assert 0 < len(asked) < batch.tokens
    assert batch.count == len(asked)
    same(task.loss(model, *batch.tensors(CPU)), expected, 1e-4)


@pytest.mark.parametrize("flags", [{"model.style": "bert", "model.tied": True}, {"model.head_bias": True}, {}], ids=str)
@pytest.mark.parametrize("apart", [False, True])
def test_only_guessed_places_are_scored_and_what_is_learned_is_the_same(
    flags: dict[str, Any], apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(context=16, **flags)
    task = task_of(documents(20, 30, 25, 19), context=16, rate=0.2, smoothing=0.1, apart=apart)
    batch = task.batch(0)
    scored = []

    def recorded(features: Tensor, *more: Any, **how: Any) -> Tensor:
        scored.append(len(features))
        return vocabulary_loss(features, *more, **how)

    monkeypatch.setattr(losses, "vocabulary_loss", recorded)
    found = task.loss(model, *batch.tensors(CPU))
    assert batch.count <= scored[0] <= 0.7 * batch.tokens
    scores = model.head(model.features(batch.inputs, segments=batch.segments))
    expected = nn.functional.cross_entropy(
        scores.flatten(0, 1), answers_of(batch).flatten(), ignore_index=NOTHING, reduction="sum", label_smoothing=0.1
    )
    same(found, expected, 1e-5)
    weights = list(model.parameters())
    for one, other in zip(torch.autograd.grad(found, weights), torch.autograd.grad(expected, weights), strict=True):
        same(one, other, 1e-4)


COMPILED = """
import numpy as np, torch
from torch._dynamo.testing import CompileCounter
from glassformer.config.resolve import resolve
from glassformer.data.packing.windows import Masking
from glassformer.data.packing.store import Tokens
from glassformer.models.build import build_masked_model
from glassformer.tasks.language_model import MaskedModelling

asked = {"task": "masked-language-model", "model.style": "bert", "model.layers": 1, "model.width": 8, "model.heads": 2}
model = build_masked_model(resolve({}, {**asked, "model.context": 16}).model, vocab=13)
tokens = Tokens(np.random.default_rng(0).integers(4, 13, 999).astype(np.uint16), 999, 999, 1, 0)
masking = Masking(3, np.arange(4, 13), 13, 0.15)
task = MaskedModelling({"train": tokens}, context=16, masking=masking, start=1, batch_size=5)
counter = CompileCounter()
compiled = torch.compile(task.loss, backend=counter, dynamic=not task.steady, fullgraph=True)
batches = [task.batch(step) for step in range(9)]
for batch in batches:
    tensors = batch.tensors(torch.device("cpu"))
    torch.testing.assert_close(compiled(model, *tensors), task.loss(model, *tensors))
print(counter.frame_count, len({batch.places.shape[1] for batch in batches}))
"""


@pytest.mark.slow
def test_a_step_is_compiled_in_one_piece_and_once_for_each_number_of_places() -> None:
    """In a process without the checks of shapes, which cannot be compiled."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiled, shapes = map(int, done.stdout.split())
    assert compiled == shapes < 5


def test_places_are_as_many_in_each_row_in_whole_eighths_and_all_that_is_asked_is_among_them() -> None:
    random = np.random.default_rng(0)
    for context, rate in [(7, 0.4), (16, 0.15), (64, 0.15), (64, 0.0), (13, 1.0)]:
        answers = np.where(random.random((5, context)) < rate, random.integers(4, VOCAB, (5, context)), NOTHING)
        places, asked = masked_places(answers)
        assert places.shape[1] in {math.ceil(context * eighths / 8) for eighths in range(1, 9)}
        most = (answers != NOTHING).sum(1).max()
        assert most <= places.shape[1] < max(most, 1) + context / 8 + 1
        again = np.full_like(answers, NOTHING)
        np.put_along_axis(again, places, asked, 1)
        np.testing.assert_array_equal(again, answers)
        assert all(len(set(row)) == len(row) for row in places.tolist())


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
    answers = answers_of(batch)
    whole = torch.where(answers == NOTHING, batch.inputs, answers)
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
    monkeypatch.setattr(language_model, "TOKENS_AT_ONCE", 15)
    ids = np.asarray(tokens.ids, np.int64)
    inputs, answers = task.masking.to_evaluate(ids, 0)
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
    _, answers = task.masking.to_evaluate(ids, 0)
    shares = (np.bincount(ids, minlength=VOCAB) + 1)[4:] / (np.bincount(ids, minlength=VOCAB) + 1)[4:].sum()
    asked = answers[answers != NOTHING]
    assert counted == VOCAB - 4
    assert found.metrics["loss"] == pytest.approx(-np.log(shares[asked - 4]).mean())
    assert found.metrics["accuracy"] == pytest.approx((asked == 4 + shares.argmax()).mean())
