"""An evaluation that several processes share: each judges some of the batches, and all know the results of all.

The batches are those of one process, and their results come back in the batches' order: so metrics, records and arrays
are bit for bit what one process finds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Among:
    """This process among those that evaluate the same model together."""

    rank: int = 0
    world: int = 1
    lockstep: bool = False
    """All take part in every forward pass, as they must where each holds a shard of the weights."""

    def spread(self, batches: Iterable[T], judge: Callable[[T], R], *, even: bool = True) -> list[R]:
        """The result of every batch, in their order, on every process. `batches`: told in few words, since each process
        passes over those of the others. `even`: a judgement is one forward pass; if it may be any number of them, then
        in lockstep every process judges every batch.
        """
        if self.world == 1 or (self.lockstep and not even):
            return [judge(batch) for batch in batches]
        mine, coming = [], iter(batches)
        while batch_each := list(islice(coming, self.world)):
            if self.rank < len(batch_each):
                mine.append(judge(batch_each[self.rank]))
            elif self.lockstep:
                judge(batch_each[0])  # for the company alone: another process gives this result
        by_rank: list[list[R]] = [[]] * self.world
        dist.all_gather_object(by_rank, mine)
        return [by_rank[number % self.world][number // self.world] for number in range(sum(map(len, by_rank)))]


ALONE = Among()
