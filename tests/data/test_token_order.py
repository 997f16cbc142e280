"""Pairs in batches of about as many tokens."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.data.order import TokenOrder, by_lengths, token_borders

Lengths = list[tuple[int, int]]

pair_lengths = st.lists(st.tuples(st.integers(1, 50), st.integers(2, 50)), min_size=1, max_size=300)
seeds = st.integers(0, 2**62)


def made(lengths: Lengths, batch_tokens: int, seed: int) -> TokenOrder:
    sources, targets = np.array(lengths).T
    return TokenOrder(sources, targets, batch_tokens, seed)


def epochs(order: TokenOrder, pairs: int, count: int) -> list[list[list[int]]]:
    """Batches of whole epochs: one ends where every pair has come once."""
    step, found = 0, []
    for _ in range(count):
        batches: list[list[int]] = []
        while sum(map(len, batches)) < pairs:
            batches.append(order.rows(step).tolist())
            step += 1
        found.append(batches)
    return found


def like_lengths(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sources = random.integers(3, 40, count)
    return sources, np.maximum(2, sources + random.integers(-4, 5, count))


@given(pair_lengths, st.integers(1, 400), seeds)
@settings(max_examples=100, deadline=None)
def test_each_pair_once_an_epoch_and_no_batch_too_large(lengths: Lengths, batch_tokens: int, seed: int) -> None:
    order = made(lengths, batch_tokens, seed)
    found = epochs(order, len(lengths), 3)
    assert len(found[0]) == order.steps_per_epoch
    for batches in found:
        assert sorted(pair for batch in batches for pair in batch) == list(range(len(lengths)))
        for batch in batches:
            size = len(batch) * (max(lengths[pair][0] for pair in batch) + max(lengths[pair][1] for pair in batch))
            assert size <= batch_tokens or len(batch) == 1


@pytest.mark.slow
@given(pair_lengths, st.integers(50, 400), seeds, st.lists(st.integers(0, 300), max_size=5))
@settings(max_examples=30, deadline=None)
def test_pairs_of_a_batch_depend_on_seed_and_step_alone(
    lengths: Lengths, batch_tokens: int, seed: int, steps: list[int]
) -> None:
    order = made(lengths, batch_tokens, seed)
    for step in steps:  # in any order, after whatever came before
        assert order.rows(step).tolist() == made(lengths, batch_tokens, seed).rows(step).tolist()


def test_a_jump_is_a_walk() -> None:
    sources, targets = like_lengths(499)
    walked = TokenOrder(sources, targets, 300, 0)
    steps = [walked.rows(step).tolist() for step in range(7 * walked.steps_per_epoch)]
    for step in (0, 1, walked.steps_per_epoch, 4 * walked.steps_per_epoch + 3, len(steps) - 1):
        assert TokenOrder(sources, targets, 300, 0).rows(step).tolist() == steps[step]
    assert walked.rows(5).tolist() == steps[5]


def test_epochs_of_different_sizes() -> None:
    """Each begins where the one before ends, also where some have a batch more."""
    random = np.random.default_rng(0)
    sources, targets = random.integers(1, 60, 1201), random.integers(2, 60, 1201)
    order = TokenOrder(sources, targets, 120, 0)
    found = epochs(order, 1201, 6)
    sizes = [len(batches) for batches in found]
    assert len(set(sizes)) > 1
    assert max(sizes) < 1.1 * min(sizes)
    for batches in found:
        assert sorted(pair for batch in batches for pair in batch) == list(range(1201))


def test_epochs_and_seeds_differ() -> None:
    sources, targets = like_lengths(200)
    first, second = epochs(TokenOrder(sources, targets, 200, 0), 200, 2)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    assert epochs(TokenOrder(sources, targets, 200, 1), 200, 1)[0] != first


@pytest.mark.parametrize("batch_tokens", [500, 2000])
def test_little_is_padded_and_batches_are_full(batch_tokens: int) -> None:
    sources, targets = like_lengths(20_000)
    order = TokenOrder(sources, targets, batch_tokens, 0)
    batches = [order.rows(step) for step in range(order.steps_per_epoch)]
    padded = sum(len(rows) * int(sources[rows].max() + targets[rows].max()) for rows in batches)
    assert padded > 0.93 * batch_tokens * len(batches)
    assert (sources + targets).sum() > 0.92 * padded


def test_chance_still_rules() -> None:
    """Only a few dozen batches are sorted together: a batch does not hold all pairs of its length."""
    sources = targets = np.arange(20_000) + 100
    order = TokenOrder(sources, targets, 400_000, 0)
    some = [sources[order.rows(step)] for step in range(20)]
    assert all(lengths.max() - lengths.min() > 2 * len(lengths) for lengths in some if len(lengths) > 5)


def test_batches_do_not_come_by_length() -> None:
    sources, targets = like_lengths(700)
    for batches in epochs(TokenOrder(sources, targets, 500, 0), 700, 3):
        means = [float(targets[batch].mean()) for batch in batches]
        assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.4


def test_pairs_of_one_length_are_mixed_too() -> None:
    """Which pairs meet in a batch is chance: over many epochs, any two of them do."""
    order = TokenOrder(np.full(12, 5), np.full(12, 5), 30, 0)
    met = {
        frozenset(pair) for batches in epochs(order, 12, 60) for b in batches for pair in itertools.combinations(b, 2)
    }
    assert len(met) == 66


def test_a_long_pair_is_a_batch_of_its_own() -> None:
    order = made([(3, 4), (100, 7), (3, 4)], 14, 0)
    assert sorted(sorted(order.rows(step).tolist()) for step in range(2)) == [[0, 2], [1]]
    assert order.steps_per_epoch == 2


def test_no_pairs() -> None:
    with pytest.raises(DataError, match="no pair to learn from"):
        TokenOrder(np.empty(0, np.int64), np.empty(0, np.int64), 100, 0)


def test_where_pairs_are_cut() -> None:
    def borders(lengths: Lengths, most: int) -> list[int]:
        sources, targets = np.array(lengths).T
        return token_borders(most, sources, targets)

    assert borders([(1, 2), (2, 1), (1, 1)], 12) == [0, 3]
    assert borders([(1, 2), (2, 1), (1, 1)], 11) == [0, 2, 3]
    assert borders([(9, 9), (1, 1), (1, 1)], 4) == [0, 1, 3]
    assert token_borders(9, np.empty(0, np.int64), np.empty(0, np.int64)) == [0]


def test_neighbours_are_alike() -> None:
    sources, targets = np.array([(s, t) for t in (4, 3) for s in (7, 9, 8)]).T
    order = by_lengths(sources, targets)
    assert list(zip(sources[order].tolist(), targets[order].tolist(), strict=True)) == [
        (7, 3), (8, 3), (9, 3), (9, 4), (8, 4), (7, 4),
    ]  # fmt: skip
