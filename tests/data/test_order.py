import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.data.order import LengthOrder, number, permute
from glassformer.data.packing.windows import WindowOrder


def epochs(order: WindowOrder, count: int) -> np.ndarray:
    """The starts of the first epochs, a row each."""
    steps = -(-count * order.windows // order.batch_size)
    starts = np.concatenate([order.starts(step) for step in range(steps)])
    return starts[: count * order.windows].reshape(count, order.windows)


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_permuted_is_a_permutation(size: int, key: int) -> None:
    out = permute(np.arange(size, dtype=np.uint64), size, number(key))
    assert sorted(out.tolist()) == list(range(size))


def test_every_place_is_about_equally_likely() -> None:
    size, keys = 7, 7000
    counts = np.zeros((size, size))
    for place in range(size):
        where = permute(np.full(keys, place, dtype=np.uint64), size, np.arange(keys, dtype=np.uint64) * np.uint64(7919))
        counts[place] = np.bincount(where.astype(np.int64), minlength=size)
    expected = keys / size
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_neighbours_do_not_stay_neighbours() -> None:
    size = 100_003
    out = permute(np.arange(size, dtype=np.uint64), size, number(1)).astype(np.float64)
    assert abs(np.corrcoef(out[:-1], out[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(out, np.arange(size))[0, 1]) < 0.02


@pytest.mark.slow
@given(context=st.integers(1, 31), extra=st.integers(0, 400), batch_size=st.integers(1, 53), seed=st.integers(0, 2**63))
@settings(max_examples=100, deadline=None)
def test_an_epoch_tiles_the_tokens(context: int, extra: int, batch_size: int, seed: int) -> None:
    length = context + 1 + extra
    order = WindowOrder(length, context, batch_size, seed)
    assert order.steps_per_epoch * batch_size * context == pytest.approx(length)  # it reads as many tokens
    assert order.starts(0).dtype == np.int64
    assert order.starts(5).shape == (batch_size,)
    for starts in epochs(order, 3):
        first, last = starts.min(), starts.max()
        assert sorted(starts.tolist()) == list(range(first, last + 1, context))  # none twice, none missing, no gap
        assert first >= 0
        assert last + context + 1 <= length
        assert order.windows * context + 2 * context > length - 1 or order.windows == 1  # little is left out


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    order = WindowOrder(10_007, 13, 7, seed=3)
    later = order.starts(1_000_003).tolist()
    order.starts(2)
    assert WindowOrder(10_007, 13, 7, seed=3).starts(1_000_003).tolist() == later
    assert WindowOrder(10_007, 13, 7, seed=4).starts(1_000_003).tolist() != later


def test_batches_cut_one_long_order() -> None:
    fine, coarse = WindowOrder(1009, 11, 1, seed=5), WindowOrder(1009, 11, 17, seed=5)
    assert epochs(fine, 4).tolist() == epochs(coarse, 4).tolist()


@pytest.mark.slow
def test_epochs_differ_in_order_and_in_borders() -> None:
    rows = epochs(WindowOrder(1009, 11, 17, seed=0), 300)
    assert {row.min() % 11 for row in rows} == set(range(11))
    ranks = {tuple(np.argsort(row).tolist()) for row in rows}
    assert len(ranks) == 300


@pytest.mark.parametrize("length", [12, 13, 23, 34, 101])
def test_in_the_long_run_every_token_but_the_first_is_predicted(length: int) -> None:
    rows = epochs(WindowOrder(length, 11, 3, seed=0), 300)
    predicted = {token for start in np.unique(rows) for token in range(start + 1, start + 12)}
    assert predicted == set(range(1, length))


def test_a_batch_larger_than_the_data() -> None:
    order = WindowOrder(12, 11, 5, seed=0)
    assert order.windows == 1
    assert order.starts(7).tolist() == [0] * 5


def test_too_few_tokens() -> None:
    with pytest.raises(DataError) as caught:
        WindowOrder(57, 128, 32, seed=0)
    assert (
        str(caught.value)
        == "context 128 needs at least 129 tokens, but the training part has 57: lower --model.context"
    )


def test_large_data_needs_no_table() -> None:
    starts = WindowOrder(10**13, 1024, 4096, seed=0).starts(10**6)
    assert len(set(starts.tolist())) == 4096
    assert starts.max() < 10**13


# --- texts, those of like length together ---

lengths_of_texts = st.lists(st.integers(0, 50), min_size=1, max_size=300)


@given(lengths_of_texts, st.integers(1, 40), st.integers(0, 2**62))
@settings(max_examples=100, deadline=None)
def test_each_text_once_an_epoch(lengths: list[int], batch_size: int, seed: int) -> None:
    order = LengthOrder(np.array(lengths), batch_size, seed)
    assert order.steps_per_epoch == -(-len(lengths) // batch_size)
    for epoch in range(3):
        steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
        batches = [order.rows(step).tolist() for step in steps]
        assert sorted(text for batch in batches for text in batch) == list(range(len(lengths)))
        sizes = sorted(len(batch) for batch in batches)
        assert sizes[1:] == [batch_size] * (len(batches) - 1)
        assert 1 <= sizes[0] <= batch_size


@given(lengths_of_texts, st.integers(1, 40), st.integers(0, 2**62), st.lists(st.integers(0, 10**6), max_size=5))
@settings(max_examples=50, deadline=None)
def test_texts_of_a_batch_depend_on_seed_and_step_alone(
    lengths: list[int], batch_size: int, seed: int, steps: list[int]
) -> None:
    order = LengthOrder(np.array(lengths), batch_size, seed)
    for step in steps:  # in any order, after whatever came before
        assert order.rows(step).tolist() == LengthOrder(np.array(lengths), batch_size, seed).rows(step).tolist()


def whole_epochs(order: LengthOrder, count: int) -> list[list[list[int]]]:
    steps = order.steps_per_epoch
    return [[order.rows(epoch * steps + step).tolist() for step in range(steps)] for epoch in range(count)]


def test_epochs_and_seeds_differ() -> None:
    lengths = np.arange(40) % 7
    first, second = whole_epochs(LengthOrder(lengths, 4, 0), 2)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    assert whole_epochs(LengthOrder(lengths, 4, 1), 1)[0] != first


def test_batches_do_not_come_by_length() -> None:
    lengths = np.arange(300)
    for batches in whole_epochs(LengthOrder(lengths, 5, 0), 3):
        means = [float(lengths[batch].mean()) for batch in batches]
        assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.4


def test_within_a_stretch_lengths_do_not_overlap() -> None:
    """Up to 64 batches are sorted together, whatever their size; more of them are only sorted in stretches."""
    lengths = np.random.default_rng(0).permutation(64 * 3)
    for batches in whole_epochs(LengthOrder(lengths, 3, 0), 2):
        spans = sorted((lengths[batch].min(), lengths[batch].max()) for batch in batches)
        assert all(longest < shortest for (_, longest), (shortest, _) in itertools.pairwise(spans))
    many = np.random.default_rng(0).permutation(64 * 3 * 5)
    for batches in whole_epochs(LengthOrder(many, 3, 0), 2):
        spread = [many[batch].max() - many[batch].min() for batch in batches]
        assert 2 < np.mean(spread) < 0.05 * len(many)  # chance still rules, and little is padded


def test_texts_of_one_length_are_mixed_too() -> None:
    """Which texts meet in a batch is chance: over many epochs, any two of them do."""
    order = LengthOrder(np.full(12, 5), 3, 0)
    met = {
        frozenset(pair) for batches in whole_epochs(order, 60) for b in batches for pair in itertools.combinations(b, 2)
    }
    assert len(met) == 66
