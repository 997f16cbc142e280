"""From scores to a token: each step against its formula, and drawn frequencies against their distribution."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.decoding import sampling
from glassformer.decoding.options import Sampling
from glassformer.decoding.sampling import GREEDY, SamplingPlan, SamplingRows
from helpers.support import numbers, same, softmax

B, V = 3, 11
SCORES = numbers(B, V, seed=1, scale=2.0)


def of_rows(value: float, scores: Tensor) -> Tensor:
    return torch.full((len(scores), 1), value)


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    return sampling.keep_top_k(scores, of_rows(k, scores), k)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    return sampling.keep_top_p(scores, of_rows(p, scores))


def penalise(scores: Tensor, seen: Tensor, penalty: float) -> Tensor:
    return sampling.penalise(scores, seen, of_rows(penalty, scores))


def distribution(scores: Tensor, how: Sampling, seen: Tensor | None = None) -> Tensor:
    rows = [how] * len(scores)
    return sampling.distribution(scores, SamplingRows.of(rows), SamplingPlan.of(rows), seen)


def choose(scores: Tensor, how: Sampling, generator: torch.Generator, seen: Tensor | None = None) -> Tensor:
    rows = [how] * len(scores)
    draw = torch.rand(len(scores), 1, generator=generator)
    return sampling.choose(scores, SamplingRows.of(rows), SamplingPlan.of(rows), draw, seen)


def kept(scores: Tensor) -> list[set[int]]:
    return [set(torch.isfinite(row).nonzero().flatten().tolist()) for row in scores]


@pytest.mark.parametrize("k", [1, 2, 5, 10, 11, 12, 500])
def test_top_k_keeps_the_k_highest_as_they_were(k: int) -> None:
    out = keep_top_k(SCORES, k)
    highest = [set(np.argsort(-row.numpy())[:k].tolist()) for row in SCORES]
    assert kept(out) == highest
    assert torch.equal(out[out.isfinite()], SCORES[out.isfinite()])
    assert (out[~out.isfinite()] == -torch.inf).all()


def test_of_equal_scores_only_k_stay() -> None:
    out = keep_top_k(torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]]), 2)
    assert [len(row) for row in kept(out)] == [2, 2]
    assert kept(out)[0] <= {1, 2, 3}
    assert [len(row) for row in kept(keep_top_p(torch.zeros(1, 10), 0.35))] == [4]


def test_a_top_p_that_single_precision_cannot_hold_keeps_the_likeliest() -> None:
    for how in (Sampling(top_p=1e-300), Sampling(top_k=5, top_p=1e-300)):
        assert torch.equal(distribution(SCORES, how), distribution(SCORES, GREEDY))
        rows = [how] * B
        drawn = sampling.choose(SCORES, SamplingRows.of(rows), SamplingPlan.of(rows), of_rows(0.9, SCORES))
        assert torch.equal(drawn, SCORES.argmax(-1))


@pytest.mark.parametrize("p", [1e-9, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0])
def test_top_p_keeps_the_smallest_set_that_reaches_p(p: float) -> None:
    out = keep_top_p(SCORES, p)
    for row, got in zip(SCORES.numpy(), kept(out), strict=True):
        probabilities = softmax(row)
        wanted: set[int] = set()
        for token in np.argsort(-probabilities):
            if wanted and sum(probabilities[list(wanted)]) >= p:
                break
            wanted.add(int(token))
        assert got == wanted
    assert torch.equal(out[out.isfinite()], SCORES[out.isfinite()])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=9), st.floats(0.01, 1.0))
def test_top_p_is_enough_and_not_more(row: list[float], p: float) -> None:
    scores = torch.tensor([row], dtype=torch.float64)
    probabilities = scores.softmax(-1)[0]
    (chosen,) = kept(keep_top_p(scores, p))
    total = float(probabilities[list(chosen)].sum())
    assert total >= p - 1e-9
    least = float(probabilities[list(chosen)].min())
    assert total - least < p + 1e-12  # without its least likely one it would not do
    outside = [float(value) for token, value in enumerate(probabilities) if token not in chosen]
    assert max(outside, default=0.0) <= least


def test_temperature() -> None:
    for temperature in (0.3, 1.0, 4.0, 100.0):
        expected = softmax(SCORES.numpy() / temperature)
        same(distribution(SCORES, Sampling(temperature)), expected, 1e-6)
    sharp = distribution(SCORES, Sampling(1e-4))
    assert torch.equal(sharp.argmax(-1), SCORES.argmax(-1))
    assert (sharp.amax(-1) > 1 - 1e-6).all()
    assert torch.equal(distribution(SCORES, GREEDY), torch.nn.functional.one_hot(SCORES.argmax(-1), V).float())


def test_repetition_penalty() -> None:
    """Positive scores are divided, negative ones multiplied: both become less likely (Keskar 2019)."""
    seen = torch.zeros(B, V, dtype=torch.bool)
    seen[0, [0, 3, 7]] = seen[2, :5] = True
    out = penalise(SCORES, seen, 1.7)
    for row in range(B):
        for token in range(V):
            score = SCORES[row, token].item()
            lower = score / 1.7 if score > 0 else score * 1.7
            assert out[row, token].item() == pytest.approx(lower if seen[row, token] else score)
    assert (out[seen] < SCORES[seen]).all()
    assert torch.equal(penalise(SCORES, seen, 1.0), SCORES)


def test_presence_and_frequency_penalties() -> None:
    """As OpenAI's API has them: once for a token that was written, and once more for each time."""
    how = Sampling(0.8, presence_penalty=0.7, frequency_penalty=-0.4)
    counts = torch.zeros(B, V)
    counts[0, [0, 3]], counts[2, 5] = torch.tensor([1.0, 4.0]), 2.0
    wanted = SCORES.clone()
    for row, token in ((0, 0), (0, 3), (2, 5)):
        wanted[row, token] -= 0.7 - 0.4 * counts[row, token]
    rows = [how] * B
    got = sampling.distribution(SCORES, SamplingRows.of(rows), SamplingPlan.of(rows), None, counts)
    same(got, (wanted / 0.8).softmax(-1), 1e-6)


def test_the_order_of_things() -> None:
    """Penalty, temperature, top-k, then top-p among what is left."""
    how = Sampling(0.7, top_k=5, top_p=0.8, repetition_penalty=1.5)
    seen = numbers(B, V, seed=5) > 0
    wanted = penalise(SCORES.float(), seen, 1.5) / 0.7
    wanted = keep_top_p(keep_top_k(wanted, 5), 0.8).softmax(-1)
    got = distribution(SCORES, how, seen)
    same(got, wanted, 1e-6)
    same(got.sum(-1), torch.ones(B), 1e-6)
    assert ((got > 0).sum(-1) <= 5).all()


def test_greedy_is_the_highest_score() -> None:
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(choose(SCORES, GREEDY, generator), SCORES.argmax(-1))
    seen = torch.zeros(B, V, dtype=torch.bool)
    seen[torch.arange(B), SCORES.argmax(-1)] = True
    how = Sampling(0.0, repetition_penalty=50.0)
    assert torch.equal(choose(SCORES, how, generator, seen), penalise(SCORES, seen, 50.0).argmax(-1))
    assert not torch.equal(choose(SCORES, how, generator, seen), SCORES.argmax(-1))


@pytest.mark.parametrize(
    "how",
    [Sampling(), Sampling(0.5), Sampling(2.0, top_k=4), Sampling(1.3, top_p=0.7), Sampling(1.0, 6, 0.9, 1.8)],
    ids=str,
)
def test_drawn_frequencies_match_the_distribution(how: Sampling) -> None:
    """χ² against the probabilities, well within what chance allows once in ten thousand."""
    draws = 40_000
    seen = torch.zeros(1, V, dtype=torch.bool)
    seen[0, :4] = True
    expected = distribution(SCORES[:1], how, seen)[0].double()
    generator = torch.Generator().manual_seed(11)
    tokens = choose(SCORES[:1].expand(draws, -1), how, generator, seen.expand(draws, -1))
    counts = torch.bincount(tokens, minlength=V).double()
    assert (counts[expected == 0] == 0).all()
    possible = expected > 0
    chi = ((counts - draws * expected).square() / (draws * expected))[possible].sum().item()
    freedom = int(possible.sum()) - 1
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8


def test_rows_with_settings_of_their_own_are_as_if_each_were_alone() -> None:
    hows = [GREEDY, Sampling(), Sampling(0.5, 3), Sampling(2.0, top_p=0.6), Sampling(1.0, 7, 0.9, 1.8),
            Sampling(0.0, repetition_penalty=50.0), Sampling(3.0, 1)]  # fmt: skip
    scores, seen = numbers(len(hows), V, seed=2, scale=2.0), numbers(len(hows), V, seed=5) > 0
    draw = torch.rand(len(hows), 1, generator=torch.Generator().manual_seed(4))
    together = sampling.choose(scores, SamplingRows.of(hows), SamplingPlan.of(hows), draw, seen)
    chances = sampling.distribution(scores, SamplingRows.of(hows), SamplingPlan.of(hows), seen)
    for row, how in enumerate(hows):
        one = slice(row, row + 1)
        alone = SamplingRows.of([how]), SamplingPlan.of([how])
        assert torch.equal(chances[one], sampling.distribution(scores[one], *alone, seen[one]))
        assert torch.equal(together[one], sampling.choose(scores[one], *alone, draw[one], seen[one]))


def test_what_is_impossible_is_never_drawn() -> None:
    """Not by the smallest nor the largest random number, wherever the impossible ones stand."""
    scores = torch.full((20_000, 9), -torch.inf)
    scores[:, [2, 5]] = torch.tensor([0.3, -1.0])
    drawn = set(choose(scores, Sampling(), torch.Generator().manual_seed(3)).tolist())
    assert drawn == {2, 5}
    certain = torch.full((5000, 4), -torch.inf)
    certain[:, 0] = 0.0
    assert set(choose(certain, Sampling(), torch.Generator().manual_seed(3)).tolist()) == {0}


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-40, 100.0])
@pytest.mark.parametrize("penalty", [0.01, 100.0])
def test_extreme_settings_give_probabilities(temperature: float, penalty: float) -> None:
    scores = torch.tensor([[0.0, 300.0, -300.0, -torch.inf]])
    rows = [Sampling(temperature, repetition_penalty=penalty)]
    seen = torch.ones(1, 4, dtype=torch.bool)
    chances = sampling.distribution(scores, SamplingRows.of(rows), SamplingPlan.of(rows), seen)
    assert chances.sum() == pytest.approx(1.0)
    assert chances[0, 3] == 0


def test_seeds() -> None:
    scores = torch.zeros(50, V)

    def draw(seed: int) -> list[int]:
        return choose(scores, Sampling(), torch.Generator().manual_seed(seed)).tolist()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": -0.1}, "--temperature"),
        ({"temperature": math.nan}, "--temperature"),
        ({"temperature": 1e308}, r"--temperature is 1e\+308, but must lie between 0 and 100"),
        ({"top_k": 0}, "--top-k"),
        ({"top_p": 0.0}, "--top-p"),
        ({"top_p": 1.1}, "--top-p"),
        ({"top_p": math.nan}, "--top-p"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty"),
        ({"repetition_penalty": math.nan}, "--repetition-penalty"),
        ({"repetition_penalty": 1e-300}, "--repetition-penalty is 1e-300, but must lie between 0.01 and 100"),
        ({"repetition_penalty": 1e308}, "--repetition-penalty"),
        ({"presence_penalty": 2.1}, "--presence-penalty"),
        ({"frequency_penalty": math.nan}, "--frequency-penalty"),
    ],
)
def test_what_cannot_be(settings: dict[str, float], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        Sampling(**settings)  # type: ignore[arg-type]
