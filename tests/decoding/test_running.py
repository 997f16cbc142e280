"""Rows that are written at once: each as if it were alone, whoever joins or leaves, and through fixed room too."""

from typing import Any

import pytest
import torch

from glassformer.config.messages import listening
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import DRAWS, MAX_ALTERNATIVES, Request, RunningBatch, Written
from glassformer.decoding.sampling import GREEDY
from glassformer.models.modules import LanguageModel
from helpers.writing import CONTEXT, SAMPLED, VOCAB, by_hand, every_model, model_of, prompt_of


def finish(batch: RunningBatch, texts: dict[int, list[int]]) -> None:
    """Write on until no row is left, into the text of each row."""
    while written := batch.step():
        for row, one in written.items():
            texts.setdefault(row, []).append(one.token)


@pytest.mark.sample(3)
@every_model
def test_fixed_room_gives_what_computing_the_past_again_gives(flags: dict[str, Any]) -> None:
    """The path of a GPU, on the CPU: nothing moves, every row counts its own tokens; past the context, too."""
    model = model_of(**flags)
    requests = [
        Request(prompt_of(length, seed=length), how, most, seed=seed)
        for seed, (length, how, most) in enumerate([(4, GREEDY, 9), (1, SAMPLED, 30), (11, Sampling(), 20)])
    ]
    batch = RunningBatch(model, len(requests), room=64, fixed=True)
    batch.join(dict(enumerate(requests)))
    texts: dict[int, list[int]] = {}
    finish(batch, texts)
    assert batch.state.in_place
    for row, request in enumerate(requests):
        assert texts[row] == by_hand(model, request.prompt, request.sampling, request.max_tokens, seed=request.seed)


@pytest.mark.sample(3)
@every_model
def test_rows_join_and_leave_and_change_nothing_of_others(flags: dict[str, Any]) -> None:
    model = model_of(**flags)
    long = Request(prompt_of(3), SAMPLED, 25, seed=5)
    short = Request(prompt_of(7, seed=2), Sampling(0.7), 4, seed=6)
    late = Request(prompt_of(1, seed=3), GREEDY, 12, seed=7)
    batch = RunningBatch(model, 2, room=64, fixed=True)
    batch.join({0: long, 1: short})
    texts: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(6):
        for row, one in batch.step().items():
            texts[row].append(one.token)
    assert batch.free == [1]
    assert texts.pop(1) == by_hand(model, short.prompt, short.sampling, 4, seed=6)
    batch.join({1: late})
    finish(batch, texts)
    assert texts[0] == by_hand(model, long.prompt, long.sampling, 25, seed=5)
    assert texts[1] == by_hand(model, late.prompt, late.sampling, 12, seed=7)
    assert batch.free == [0, 1]


def test_one_that_is_sent_away_writes_no_more() -> None:
    batch = RunningBatch(model_of(), 2, room=CONTEXT, fixed=True)
    batch.join({0: Request([1, 5], GREEDY, 20), 1: Request([1, 6], GREEDY, 5)})
    batch.step()
    batch.leave(0)
    texts: dict[int, list[int]] = {}
    finish(batch, texts)
    assert set(texts) == {1}
    assert len(texts[1]) == 4


@pytest.mark.parametrize("fixed", [True, False])
def test_what_stands_beside_a_row_changes_nothing_of_it_exactly(fixed: bool) -> None:
    """In as many rows: the scores are the same numbers, not only nearly so."""
    model = model_of()

    def scores(beside: Request | None) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        hook = model.head.register_forward_hook(lambda module, args, output: found.append(output[0].clone()))
        batch = RunningBatch(model, 2, room=CONTEXT, fixed=fixed)
        batch.join({0: Request([1, 5, 3], Sampling(), 8, seed=3)})
        if beside is not None:
            batch.join({1: beside})
        finish(batch, {})
        hook.remove()
        return found[:8]

    alone = scores(None)
    for beside in (Request([1], GREEDY, 12), Request(prompt_of(9), SAMPLED, 3, seed=9)):
        assert all(map(torch.equal, alone, scores(beside)))


@pytest.mark.slow
def test_random_numbers_beyond_one_draw() -> None:
    """Drawn many at once, they are those that would be drawn one by one."""
    model = model_of("gru")
    batch = RunningBatch(model, 1, room=8)
    batch.join({0: Request([1], Sampling(), DRAWS + 40, seed=4)})
    texts: dict[int, list[int]] = {}
    finish(batch, texts)
    assert texts[0] == by_hand(model, [1], Sampling(), DRAWS + 40, seed=4)


def test_an_encoder_whose_state_cannot_be_held_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes all the same, many rows too, and says that it takes longer."""
    model: LanguageModel = model_of("lstm")
    monkeypatch.setattr("glassformer.encoders.base.TensorState.fix", lambda state, extent: False)
    said: list[str] = []
    with listening(said.append):
        batch = RunningBatch(model, 2, room=8, fixed=True)
    requests = [Request(prompt_of(length, seed=length), GREEDY, 6) for length in (2, 5)]
    batch.join(dict(enumerate(requests)))
    texts: dict[int, list[int]] = {}
    finish(batch, texts)
    assert list(texts.values()) == [by_hand(model, request.prompt, GREEDY, 6) for request in requests]
    assert ["takes longer" in line for line in said] == [True]


def test_ends_are_each_rows_own() -> None:
    model = model_of()
    free = by_hand(model, [1, 5], GREEDY, 10)
    end = free[3]
    batch = RunningBatch(model, 2, room=CONTEXT)
    batch.join({0: Request([1, 5], GREEDY, 10, ends={end}), 1: Request([1, 5], GREEDY, 10)})
    texts: dict[int, list[int]] = {}
    finish(batch, texts)
    assert texts[0] == free[: free.index(end) + 1]
    assert texts[1] == free
    assert all(0 <= token < VOCAB for token in free)


def test_tokens_come_with_their_log_probabilities_where_asked() -> None:
    """Those of the model itself, whatever the sampling; a row beside it that asked for none has none."""
    model = model_of()
    prompt, never = prompt_of(5), [0, 3]
    batch = RunningBatch(model, 2, room=64, never=never, fixed=True)
    batch.join({0: Request(prompt, SAMPLED, 6, seed=1, logprobs=True), 1: Request(prompt, GREEDY, 6)})
    text = list(prompt)
    while written := batch.step():
        wanted = model(torch.tensor([text]))[0, -1].log_softmax(-1)
        token, logprob, likeliest = written[0]
        assert logprob == pytest.approx(wanted[token].item(), abs=1e-4)
        best = wanted.topk(min(MAX_ALTERNATIVES, VOCAB))
        assert [value for _, value in likeliest] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert likeliest[0][0] == best.indices[0]
        assert written[1] == Written(written[1].token)
        text.append(token)


def test_a_token_penalised_for_each_time_it_was_written_is_not_written_again() -> None:
    """Of the prompt's tokens nothing is taken off."""
    model = model_of()
    model.head.weight.data.mul_(0.01)  # all tokens are about as likely
    (plain, penalised) = (
        texts_of(model, Request([5, 6, 7], Sampling(0.0, presence_penalty=penalty), VOCAB)) for penalty in (0.0, 2.0)
    )
    assert len(set(plain)) < len(plain)
    assert sorted(penalised) == list(range(VOCAB))


def texts_of(model: LanguageModel, request: Request) -> list[int]:
    batch, texts = RunningBatch(model, 1, room=64), dict[int, list[int]]()
    batch.join({0: request})
    finish(batch, texts)
    return texts[0]
