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

    def spread(self, batches: Iterable[T], judge: Callable[[T], R]) -> list[R]:
        """The result of every batch, in their order, on every process. `batches`: told in few words, since each process
        passes over those of the others.
        """
        if self.world == 1:
            return [judge(batch) for batch in batches]
        mine, coming = [], iter(batches)
        while batch_each := list(islice(coming, self.world)):
            if self.rank < len(batch_each):
                mine.append(judge(batch_each[self.rank]))
        by_rank: list[list[R]] = [[]] * self.world
        dist.all_gather_object(by_rank, mine)
        return [by_rank[number % self.world][number // self.world] for number in range(sum(map(len, by_rank)))]


ALONE = Among()
