"""Several processes that train one model, as `torchrun` starts them. One process is the same with a world of one."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


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
        return Processes(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))

    def join(self, device: torch.device) -> None:
        if self.world > 1 and not dist.is_initialized():
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            dist.barrier()

    def word_of_first(self, word: str) -> str:
        """What the first process says, for all."""
        if self.world == 1:
            return word
        holder = [word]
        dist.broadcast_object_list(holder, 0)
        return holder[0]

    def from_first(self, value: float) -> float:
        """What the first process thinks, for all: clocks differ, decisions must not."""
        if self.world == 1:
            return value
        holder = torch.tensor([value], dtype=torch.float64)
        if dist.get_backend() == "nccl":
            holder = holder.float().cuda()
        dist.broadcast(holder, 0)
        return float(holder)
