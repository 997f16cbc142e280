"""Processes of one start find each other, whatever those of earlier starts have left."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore

from glassformer.config.errors import TrainingFailed
from glassformer.training.distributed.processes import _newest, meet


def together(store: HashStore, ranks: list[int], world: int) -> set[str]:
    """The names of the meetings that these ranks come to."""
    with ThreadPoolExecutor(world) as pool:
        return {found.result(30) for found in [pool.submit(meet, store, rank, world) for rank in ranks]}


@pytest.mark.parametrize("world", [2, 5])
def test_every_start_has_a_meeting_of_its_own(world: int) -> None:
    store = HashStore()
    names = [together(store, [*range(1, world), 0], world) for _ in range(3)]
    assert [len(found) for found in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3


def test_nobody_meets_the_dead() -> None:
    """A first process invited and died, before its rank 2 had come: the next ranks are in its meeting alone until there
    is a new first one, and meet there.
    """
    store = HashStore()
    store.set(_newest(3), "old")
    store.add("old/1", 1)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(meet, store, rank, 3) for rank in (1, 2)]
        until(lambda: store.check(["old/2"]))
        assert not any(found.done() for found in others)
        first = pool.submit(meet, store, 0, 3).result(30)
        assert {found.result(30) for found in others} == {first}


def test_a_start_with_other_processes() -> None:
    """A machine is lost, and comes back: what it finds is not what those before it met in."""
    store = HashStore()
    names = [together(store, [*range(1, world), 0], world) for world in (3, 2, 3, 5)]
    assert [len(found) for found in names] == [1, 1, 1, 1]
    assert len(set.union(*names)) == 4


def test_who_never_comes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.training.distributed.processes.default_pg_timeout", timedelta(0))
    with pytest.raises(TrainingFailed, match="not all processes of this training have come within 0:00:00"):
        meet(HashStore(), 0, 2)
    with pytest.raises(TrainingFailed, match="the first process of this training has not come"):
        meet(HashStore(), 1, 2)


def until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.01)
