"""Next-token prediction: what is asked, how often, and what it is divided by, against the definitions written out."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config.errors import DataError
from glassformer.config.resolve import resolve
from glassformer.data.packing.store import Tokens
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from glassformer.tasks import language_model
from glassformer.tasks.language_model import LanguageModelling
from helpers.running import CAUSAL, tiny
from helpers.support import numbers, randomise, same

VOCAB, START, END = 11, 1, 2
CPU = torch.device("cpu")


def model_of(encoder: str = "transformer", context: int = 7, **flags: Any) -> LanguageModel:
    settings = resolve({}, {**tiny(encoder), "model.context": context, **flags}).model
    return randomise(build_language_model(settings, vocab=VOCAB)).eval()


def documents(*lengths: int, seed: int = 0) -> Tokens:
    """START … END, one document after the other; a byte for every token that is text."""
    random = np.random.default_rng(seed)
    ids = [id for length in lengths for id in (START, *random.integers(3, VOCAB, length), END)]
    return Tokens(np.array(ids, np.uint16), sum(lengths), sum(lengths), len(lengths), 0)


def task_of(tokens: Tokens, *, context: int = 7, **more: Any) -> LanguageModelling:
    settings = {"batch_size": 3, "start": START, **more}
    return LanguageModelling({"train": tokens, "validation": tokens}, context=context, **settings)


def cross_entropy(scores: Tensor, following: Tensor) -> list[float]:
    """−log softmax(scores)[answer] of each position, in numpy."""
    y = scores.detach().double().numpy()
    total = np.log(np.exp(y - y.max(-1, keepdims=True)).sum(-1)) + y.max(-1)
    return [float(total[at] - y[at, answer]) for at, answer in enumerate(following.tolist())]


@pytest.mark.parametrize("encoder", CAUSAL)
def test_loss_is_cross_entropy_of_every_token_but_start(encoder: str) -> None:
    model, task = model_of(encoder), task_of(documents(4, 6, 5, 9, 3, 8))
    batch = task.batch(0)
    assert (batch.ids[:, 1:] == START).any()
    assert (batch.ids[:, 1:] == END).any()
    expected, asked = 0.0, 0
    for row in batch.ids:
        losses = cross_entropy(model(row[None, :-1])[0], row[1:])
        kept = [loss for loss, following in zip(losses, row[1:].tolist(), strict=True) if following != START]
        expected, asked = expected + sum(kept), asked + len(kept)
    same(task.loss(model, *batch.tensors(CPU)), expected, 1e-5)
    assert batch.count == asked < batch.tokens == 3 * 7


def test_end_is_asked_for_and_start_is_not() -> None:
    """A model that gives END no chance pays for it; what it gives START costs it nothing by itself."""
    model = model_of()
    task = task_of(documents(2, 2, 2, 2, 2, 2))
    inputs, following = task.batch(0).tensors(CPU)
    assert END in following
    assert START not in following
    at_start = inputs == END  # what follows is START, always
    assert (following[at_start] == -1).all()
    assert (following >= 0).sum() == task.batch(0).count
    only_start = torch.full_like(following, -1)
    assert task.loss(model, inputs, only_start) == 0


def test_without_start_everything_is_asked() -> None:
    batch = task_of(documents(3, 3, 3), start=None).batch(0)
    assert batch.count == batch.tokens
    assert (batch.tensors(CPU)[1] == batch.ids[:, 1:]).all()


def test_label_smoothing_is_in_the_loss_and_never_in_the_metrics() -> None:
    model, tokens = model_of(), documents(4, 6, 5, 9)
    plain, smooth = task_of(tokens), task_of(tokens, smoothing=0.3)
    inputs, following = plain.batch(0).tensors(CPU)
    expected = F.cross_entropy(
        model(inputs).flatten(0, 1), following.flatten(), ignore_index=-1, reduction="sum", label_smoothing=0.3
    )
    same(smooth.loss(model, inputs, following), expected.detach(), 1e-5)
    assert abs(smooth.loss(model, inputs, following) - plain.loss(model, inputs, following)) > 0.01
    assert smooth.evaluate(model, "validation").metrics == plain.evaluate(model, "validation").metrics


# --- batches ---


def test_batch_k_follows_from_seed_and_k() -> None:
    tokens = documents(*[5] * 20)
    one, again, other = task_of(tokens, seed=3), task_of(tokens, seed=3), task_of(tokens, seed=4)
    for step in (0, 1, 7, 1000):
        torch.rand(step % 3)  # what else is drawn has no say
        np.random.default_rng().random()
        assert torch.equal(again.batch(step).ids, one.batch(step).ids)
    assert not torch.equal(one.batch(0).ids, other.batch(0).ids)
    assert not torch.equal(one.batch(0).ids, one.batch(1).ids)


def test_a_batch_is_windows_of_the_text_and_divides_into_rows() -> None:
    tokens = documents(*[5] * 20)
    text = tokens.ids.tolist()
    windows = {tuple(text[at : at + 8]) for at in range(len(text) - 7)}
    batch = task_of(tokens).batch(2)
    assert batch.ids.shape == (3, 8)
    assert all(tuple(row) in windows for row in batch.ids.tolist())
    parts = [batch.rows(0, 1), batch.rows(1, 3)]
    assert torch.equal(torch.cat([part.ids for part in parts]), batch.ids)
    assert sum(part.count for part in parts) == batch.count
    assert sum(part.tokens for part in parts) == batch.tokens


# --- evaluation ---


def brute_force(model: LanguageModel, ids: list[int], context: int, stride: int) -> list[float]:
    """Token by token from the definition: windows end at context, context + stride, …, and at the end of the text; a
    token is predicted in the first window that holds it, from all that the window has before it.
    """
    losses = []
    ends = [min(context, len(ids) - 1)]
    while ends[-1] < len(ids) - 1:
        ends.append(min(ends[-1] + stride, len(ids) - 1))
    for at in range(1, len(ids)):  # the token to predict
        end = next(end for end in ends if at <= end)
        before = ids[max(0, end - context) : at]
        assert 1 <= len(before) <= context
        if ids[at] != START:
            losses += cross_entropy(model(torch.tensor([before]))[0, -1:], torch.tensor([ids[at]]))
    return losses


@pytest.mark.parametrize("stride", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("encoder", ["transformer", "lstm", "cnn"])
def test_evaluation_predicts_each_token_once(encoder: str, stride: int) -> None:
    model, tokens = model_of(encoder), documents(4, 1, 13, 6)
    evaluation = task_of(tokens).evaluate(model, "validation", stride=stride)
    expected = brute_force(model, tokens.ids.tolist(), 7, stride)
    assert evaluation.metrics["tokens"] == len(expected) == int((tokens.ids[1:] != START).sum())
    assert evaluation.metrics["loss"] == pytest.approx(math.fsum(expected) / len(expected), rel=1e-6)
    assert sum(record["covered"] for record in evaluation.records) == len(tokens.ids) - 1
    starts = sorted(record["start"] for record in evaluation.records)
    assert starts == sorted({1, *range(8, len(tokens.ids), stride)})


class LectureModel(torch.nn.Module):
    """A character model as lectures write it: one-hot characters in, h from step to step, scores of the last h."""

    def __init__(self, vocab: int, hidden: int) -> None:
        super().__init__()
        self.w_ih, self.w_hh = (torch.nn.Parameter(numbers(hidden, size)) for size in (vocab, hidden))
        self.bias = torch.nn.Parameter(numbers(hidden))
        self.fc = torch.nn.Linear(hidden, vocab).double()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), len(self.bias), dtype=x.dtype)
        for t in range(x.shape[1]):
            h = torch.tanh(x[:, t] @ self.w_ih.T + h @ self.w_hh.T + self.bias)
        return self.fc(h)


def test_from_the_last_state_alone_as_the_lecture_has_it() -> None:
    flags = {"width": 11, "layers": 1, "embed": "onehot", "initial": False, "head_bias": True}
    settings = resolve({}, {"model": "rnn", **{f"model.{key}": value for key, value in flags.items()}}).model
    model, lecture = build_language_model(settings, vocab=VOCAB), LectureModel(VOCAB, 11).float()
    cell = model.encoder.layers.cell
    pairs = {cell.weight_ih_l0: lecture.w_ih, cell.weight_hh_l0: lecture.w_hh, cell.bias_ih_l0: lecture.bias,
             model.head.weight: lecture.fc.weight, model.head.bias: lecture.fc.bias}  # fmt: skip
    with torch.no_grad():
        cell.bias_hh_l0.zero_()
        for ours, theirs in pairs.items():
            ours.copy_(theirs)
    task = task_of(documents(4, 6, 5, 9, 3, 8), last_only=True, batch_size=5)
    batch = task.batch(2)
    asked = batch.ids[:, -1] != START
    assert 0 < int(asked.sum()) == batch.count < 5
    x = F.one_hot(batch.ids[asked, :-1], VOCAB).float()
    theirs = F.cross_entropy(lecture(x), batch.ids[asked, -1], reduction="sum")
    loss = task.loss(model, *batch.tensors(CPU))
    same(loss, theirs, 1e-5)
    loss.backward()
    theirs.backward()
    for ours, other in pairs.items():
        same(ours.grad, other.grad, 1e-5)


@pytest.mark.parametrize("stride", [None, 1, 3])
def test_a_model_of_last_states_is_evaluated_after_whole_windows(stride: int | None) -> None:
    model, tokens = model_of(), documents(4, 6, 5, 9)
    task = task_of(tokens, last_only=True)
    evaluation = task.evaluate(model, "validation", stride=stride)
    ids = torch.from_numpy(tokens.ids.astype(np.int64))
    ends = [*range(task.context, len(ids) - 1, stride or 1), len(ids) - 1]
    losses = [
        cross_entropy(model(ids[None, end - task.context : end])[0, -1:], ids[None, end])[0]
        for end in ends
        if ids[end] != START
    ]
    assert evaluation.metrics["tokens"] == len(losses)
    assert evaluation.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert evaluation.arrays["before"].tolist() == [task.context] * len(losses)
    assert "only the token after each window" in evaluation.summary
    if stride is None:
        assert task.record_count("validation") == len(evaluation.records)


def test_validations_of_last_states_read_no_more_tokens_than_allowed() -> None:
    task = LanguageModelling({"validation": documents(*[20] * 200)}, context=64, last_only=True, start=START)
    windows = task.windows(len(task.parts["validation"].ids), most=1000)
    assert sum(end - begin for begin, end, _ in windows) <= 1000
    assert all(end - counted == 1 for _, end, counted in windows)
    assert task.token_share("validation", 1000) == pytest.approx(125 / len(task.parts["validation"].ids))


def test_learned_positions_are_never_exceeded() -> None:
    model, tokens = model_of(**{"model.style": "gpt2"}), documents(30)
    for stride in (1, 5, 7):
        assert task_of(tokens).evaluate(model, "validation", stride=stride).metrics["tokens"] == 31


def test_many_windows_are_computed_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = model_of(), documents(3, 20, 11, 9)
    whole = task_of(tokens).evaluate(model, "validation", stride=2)
    monkeypatch.setattr(language_model, "TOKENS_AT_ONCE", 15)
    grouped = task_of(tokens).evaluate(model, "validation", stride=2)
    assert grouped.metrics["loss"] == pytest.approx(whole.metrics["loss"], rel=1e-6)
    assert grouped.metrics["tokens"] == whole.metrics["tokens"]


def test_context_longer_than_the_text() -> None:
    model, tokens = model_of(context=50), documents(4, 5)
    task = LanguageModelling({"validation": tokens}, context=50, batch_size=1, start=START)
    evaluation = task.evaluate(model, "validation")
    losses = brute_force(model, tokens.ids.tolist(), 50, 50)
    assert len(evaluation.records) == 1
    assert evaluation.metrics["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)


def test_metrics_by_hand() -> None:
    model, tokens = model_of(), documents(4, 1, 13, 6)
    metrics = task_of(tokens).evaluate(model, "validation").metrics
    losses = brute_force(model, tokens.ids.tolist(), 7, 7)
    nats = math.fsum(losses)
    assert metrics["loss"] == pytest.approx(nats / len(losses), rel=1e-6)
    assert metrics["perplexity"] == pytest.approx(math.exp(nats / len(losses)), rel=1e-5)
    assert metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / (4 + 1 + 13 + 6), rel=1e-6)


def test_an_untaught_model_guesses_evenly() -> None:
    """ln V nats a token. 10 of 11 tokens that are asked for are one byte each: log₂ 11 · 11 / 10 bits per byte."""
    model = model_of()
    torch.nn.init.zeros_(model.head.weight)
    metrics = task_of(documents(10)).evaluate(model, "validation").metrics
    assert metrics["loss"] == pytest.approx(math.log(VOCAB), rel=1e-6)
    assert metrics["perplexity"] == pytest.approx(VOCAB, rel=1e-5)
    assert metrics["bits_per_byte"] == pytest.approx(math.log2(VOCAB) * 11 / 10, rel=1e-6)


@pytest.mark.parametrize("most", [1, 5, 7, 8, 13, 20, 26, 1000])
def test_most_tokens(most: int) -> None:
    model, tokens = model_of(), documents(25)  # 27 tokens, 26 of them with one before them
    evaluation = task_of(tokens).evaluate(model, "validation", most=most)
    assert evaluation.metrics["tokens"] == min(most, 26)
    start = brute_force(model, tokens.ids[: most + 1].tolist(), 7, 7)
    assert evaluation.metrics["loss"] == pytest.approx(sum(start) / len(start), rel=1e-6)
    bits = evaluation.metrics["bits_per_byte"]
    share = 25 * min(most, 26) / 26  # bytes are shared out evenly
    assert bits == pytest.approx(sum(start) / math.log(2) / share, rel=1e-6)


def test_the_primary_metric_and_its_direction() -> None:
    evaluation = task_of(documents(9)).evaluate(model_of(), "validation")
    assert (evaluation.primary, evaluation.lower_is_better) == ("loss", True)
    assert evaluation.score == evaluation.metrics["loss"]


def test_evaluation_leaves_no_gradient_and_draws_nothing() -> None:
    model, task = model_of(**{"model.dropout": 0.5}), task_of(documents(30))
    before = torch.random.get_rng_state()
    first = task.evaluate(model, "validation").metrics
    assert task.evaluate(model, "validation").metrics == first
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("stride", [8, 0, -1])
def test_a_stride_that_cannot_be(stride: int) -> None:
    with pytest.raises(DataError, match=f"stride {stride}"):
        task_of(documents(30)).evaluate(model_of(), "validation", stride=stride)


def test_nothing_to_predict() -> None:
    for ids in ([START], [3], [END, START]):
        tokens = Tokens(np.array(ids, np.uint16), 1, 1, 1, 0)
        task = LanguageModelling({"validation": tokens}, context=7, batch_size=1, start=START)
        with pytest.raises(DataError, match="predict"):
            task.evaluate(model_of(), "validation")


def test_too_little_text_for_one_window() -> None:
    with pytest.raises(DataError, match="context 7 needs at least 8 tokens, but the training part has 6"):
        task_of(documents(4))
