"""How the processes of one start find each other in a store that outlives them.

torchrun tells its workers a store that it keeps over restarts, and no number that all machines count alike: one that
saw its worker die counts a restart, one that follows it does not.
"""

import time
from collections.abc import Iterator
from uuid import uuid4

from torch._C._distributed_c10d import Store
from torch.distributed.constants import default_pg_timeout

from glassformer.config.errors import TrainingFailed

LOOK_AGAIN = 0.05
"""Seconds."""


def meet(store: Store, rank: int, world: int) -> str:
    """The name of a meeting of all ranks of this start, and of no other, for what they leave in the store."""
    return _invite(store, world) if rank == 0 else _come(store, rank, world)


def _invite(store: Store, world: int) -> str:
    """The first process names a meeting anew, and it begins when every rank has come."""
    name = f"glassformer/{uuid4()}"
    store.set(_newest(world), name)
    for _ in _moments("not all processes of this training have come"):
        if store.check([_seat(name, rank) for rank in range(1, world)]):
            break
    store.set(_begun(name), "")
    return name


def _come(store: Store, rank: int, world: int) -> str:
    """The others come to the newest meeting of so many. One that their rank came to before, or whose first process is
    dead, is an old one: they wait for the next.
    """
    mine, newest = "", _newest(world)
    for _ in _moments("the first process of this training has not come"):
        if not store.check([newest]):
            continue
        name = store.get(newest).decode()
        if name != mine and store.add(_seat(name, rank), 1) == 1:
            mine = name
        if name == mine and store.check([_begun(name)]):
            break
    return mine


def _moments(failure: str) -> Iterator[None]:
    """A short while between each and the next, for as long as torch waits for processes."""
    give_up = time.monotonic() + default_pg_timeout.total_seconds()
    while time.monotonic() < give_up:
        yield
        time.sleep(LOOK_AGAIN)
    raise TrainingFailed(f"{failure} within {default_pg_timeout}")


def _newest(world: int) -> str:
    """The key of the newest meeting's name. Of one that has begun with as many, every seat is taken."""
    return f"glassformer/meeting of {world}"


def _seat(name: str, rank: int) -> str:
    return f"{name}/{rank}"


def _begun(name: str) -> str:
    return f"{name}/begun"
