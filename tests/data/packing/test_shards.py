from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.packing import store
from glassformer.data.packing.store import Shards, how_often

SIZES = (7, 1, 0, 11, 5)
WHOLE = np.random.default_rng(0).integers(0, 13, sum(SIZES)).astype(np.uint16)


@pytest.fixture
def ids() -> Shards:
    return Shards(np.split(WHOLE, np.cumsum(SIZES)[:-1]))


def test_it_is_as_long_as_its_files(ids: Shards) -> None:
    assert (len(ids), ids.shape, ids.ndim, ids.dtype) == (24, (24,), 1, np.uint16)


places = st.none() | st.integers(-30, 30)


@given(start=places, stop=places, step=st.sampled_from([None, 1, 2, 5, -1, -3]))
def test_a_stretch_is_that_of_one_array(start: int | None, stop: int | None, step: int | None) -> None:
    ids = Shards(np.split(WHOLE, np.cumsum(SIZES)[:-1]))
    found = ids[start:stop:step]
    assert found.dtype == np.uint16
    assert found.tolist() == WHOLE[start:stop:step].tolist()


def test_a_stretch_of_one_file_is_not_copied(ids: Shards) -> None:
    assert np.shares_memory(ids[8:19], WHOLE)
    assert not np.shares_memory(ids[7:19], WHOLE)


def test_ids_at_any_places(ids: Shards) -> None:
    """As windows of a batch are taken: rows of places that cross from file to file."""
    rows = np.array([[0], [5], [6], [17]]) + np.arange(6)
    assert ids[rows].tolist() == WHOLE[rows].tolist()
    assert ids[np.array([23, -1, -24, 8, 7])].tolist() == WHOLE[[23, -1, -24, 8, 7]].tolist()
    assert ids[np.zeros((0, 3), np.int64)].shape == (0, 3)
    assert (ids[7], ids[-1], ids[np.int64(8)]) == (WHOLE[7], WHOLE[-1], WHOLE[8])


@pytest.mark.parametrize("wrong", [24, -25, np.array([3, 24]), np.array([-25]), np.array([0.5]), np.array([True])])
def test_places_that_are_not_there(ids: Shards, wrong: Any) -> None:
    with pytest.raises(IndexError):
        ids[wrong]


def test_what_else_an_array_can_do(ids: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.asarray(ids, np.int64).tolist() == WHOLE.tolist()
    assert np.asarray(ids).dtype == np.uint16
    monkeypatch.setattr(store, "COUNTED_TOKENS", 5)
    assert how_often(ids, 17).tolist() == how_often(WHOLE, 17).tolist() == np.bincount(WHOLE, minlength=17).tolist()
