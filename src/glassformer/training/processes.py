"""Several processes that train one model, as `torchrun` starts them. One process is the same with a world of one."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

from glassformer.config.errors import SettingError


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

    def join(self, device: torch.device) -> bool:
        """Meet the others; gives whether there is something to leave afterwards."""
        if self.world == 1 or dist.is_initialized():
            return False
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return True

    def leave(self) -> None:
        dist.destroy_process_group()

    def wait(self) -> None:
        """Until all are here."""
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
