"""Several processes that train one model, as `torchrun` starts them, and what each does of a step: its share of the
batch, with random numbers of its own. One process is the same with a world of one.
"""

import os
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from glassformer.config.errors import SettingError
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    @staticmethod
    def from_environment() -> "Processes":
        """What torchrun says in the environment."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world == 1:
            return Processes()
        if "RANK" not in os.environ:
            raise SettingError(f"WORLD_SIZE is {world}, but RANK is not set: start several processes with torchrun")
        return Processes(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))

    def join(self, device: torch.device, *, alone: bool = False) -> bool:
        """Meet the others; gives whether there is something to leave afterwards. `alone`: also where there are none."""
        if (self.world == 1 and not alone) or dist.is_initialized():
            return False
        if device.type == "cuda":
            torch.cuda.set_device(device)
        store = HashStore() if self.world == 1 else None
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world)
        return True

    def leave(self) -> None:
        dist.destroy_process_group()

    def wait(self) -> None:
        """Wait until all are here."""
        if self.world > 1:
            dist.barrier()

    def sums(self, values: tuple[float, ...], device: torch.device) -> tuple[float, ...]:
        """Each number, summed over all processes."""
        if self.world == 1:
            return values
        holder = torch.tensor(values, device=device)
        dist.all_reduce(holder)
        return tuple(holder.tolist())

    def from_first(self, value: float) -> float:
        """The number of the first process, for all."""
        return float(self.word_of_first(repr(value)))

    def word_of_first(self, word: str) -> str:
        """What the first process says, for all."""
        if self.world == 1:
            return word
        holder = [word]
        dist.broadcast_object_list(holder, 0)
        return holder[0]


# --- a step ---


def check_shares(settings: TrainingSettings, processes: Processes) -> None:
    """Refuse a batch of which some would have nothing."""
    if settings.batch_tokens is not None:  # batches are of any number of rows anyway
        return
    if settings.batch_size < processes.world * settings.accumulation_steps:
        raise SettingError(
            f"training.batch_size {settings.batch_size} is too small for {processes.world} processes "
            f"with training.accumulation_steps {settings.accumulation_steps}"
        )


def share_of(batch: Batch, accumulation_steps: int, processes: Processes) -> list[Batch]:
    """This process's share of the batch, in as many pieces as asked for; none of them empty."""
    parts = processes.world * accumulation_steps
    borders = [batch.size * part // parts for part in range(parts + 1)]
    mine = list(pairwise(borders))[processes.rank * accumulation_steps :][:accumulation_steps]
    return [batch.rows(first, last) for first, last in mine if first < last]


def reseed(seed: int, step: int, processes: Processes, device: torch.device) -> None:
    """The random numbers of a step follow from the seed, the step and the process."""
    numbers = np.random.SeedSequence((seed, step, processes.rank))
    drawn = int(numbers.generate_state(1, np.uint64)[0]) >> 1
    torch.default_generator.manual_seed(drawn)  # torch.manual_seed would ask every kind of device, 1 ms a step
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(drawn)
    elif device.type == "mps":
        torch.mps.manual_seed(drawn)
