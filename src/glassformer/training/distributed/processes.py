"""Several processes that train one model, as `torchrun` starts them, and what each does of a step: its share of the
batch, with random numbers of its own. One process is the same with a world of one.

torchrun gives its workers a store that it keeps over restarts, and no number that all machines count alike: one that
saw its worker die counts a restart, one that follows it does not. `meet` finds the processes of one start there.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.constants import default_pg_timeout

from glassformer.config.errors import GlassformerError, RunError, SettingError, TrainingFailed, error_line
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch

PORTS = 20_000
"""Where processes that srun started meet: from this port on, one for each job."""
FIRST_NODE = re.compile(r"([^,\[]+)(?:\[(\d+))?")
"""Of a list as Slurm writes it: node[03-07,9],other2."""


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
        """What torchrun says in the environment, or Slurm's srun."""
        if "WORLD_SIZE" not in os.environ and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
            os.environ.update(_from_srun())
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
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=self._store(), rank=self.rank, world_size=self.world)
        return True

    def _store(self) -> Any:
        """Where processes find each other; None: where torch says. What torchrun has for it outlives restarts, and
        what those who are gone left there must not be found.
        """
        from torch._C._distributed_c10d import HashStore, PrefixStore, TCPStore

        if self.world == 1:
            return HashStore()
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return None
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), self.world, is_master=False)
        return PrefixStore(meet(store, self.rank, self.world), store)

    def leave(self) -> None:
        dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait until all are here."""
        if self.world > 1:
            dist.barrier()

    def all_reduce(self, values: tuple[float, ...], device: torch.device) -> tuple[float, ...]:
        """Each number, summed over all processes."""
        if self.world == 1:
            return values
        holder = torch.tensor(values, device=device)
        dist.all_reduce(holder)
        return tuple(holder.tolist())

    def least(self, value: float) -> float:
        """The smallest number of all processes."""
        if self.world == 1:
            return value
        holder = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(holder, dist.ReduceOp.MIN)
        return float(holder)

    def from_first(self, value: float) -> float:
        """The number of the first process, for all."""
        return float(self.broadcast(repr(value)))

    def first_does(self, work: Callable[[], object]) -> str:
        """What the first process does alone, and what it comes to; if it fails, all do."""
        result, line, failure = "", "", None
        if self.first:
            try:
                result = str(work())
            except Exception as error:
                failure, line = error, str(error) if isinstance(error, GlassformerError) else error_line(error)
        result, line = json.loads(self.broadcast(json.dumps((result, line))))
        if line:
            raise failure or RunError(line)
        return result

    def broadcast(self, word: str) -> str:
        """What the first process says, for all."""
        if self.world == 1:
            return word
        holder = [word]
        dist.broadcast_object_list(holder, 0)
        return holder[0]


def _from_srun() -> dict[str, str]:
    """What torch wants to know, where srun started the processes: they meet on the first node."""
    names = {"WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID"}
    told = {name: os.environ[theirs] for name, theirs in names.items()}
    job, step = (int(os.environ.get(name, "0")) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    nodes = FIRST_NODE.match(os.environ.get("SLURM_STEP_NODELIST", "localhost"))
    assert nodes is not None
    meeting = {"MASTER_ADDR": "".join(filter(None, nodes.groups())), "MASTER_PORT": str(PORTS + (job + step) % PORTS)}
    return {**told, **{name: os.environ.get(name, value) for name, value in meeting.items()}}


def allowed_restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))


LOST = re.compile(r"gloo/transport|Gloo connect|[Cc]onnection (?:closed|reset|refused)|Broken pipe|ncclRemoteError")


def is_peer_lost(error: RuntimeError) -> bool:
    """Whether an error is that another process ended in the middle of an exchange."""
    return LOST.search(str(error)) is not None


# --- a step ---


def check_shares(settings: TrainingSettings, processes: Processes) -> None:
    """Refuse a batch of which some would have nothing."""
    if settings.batch_tokens is not None:  # batches are of any number of rows anyway
        return
    needed = processes.world * settings.accumulation_steps
    if settings.batch_size < needed:
        what = f"{processes.world} processes with training.accumulation_steps {settings.accumulation_steps}"
        raise SettingError(f"training.batch_size {settings.batch_size} is too small for {what}: {needed} or more")


def check_device(settings: TrainingSettings, processes: Processes, device: torch.device) -> None:
    """Refuse a device between whose processes torch exchanges nothing."""
    if device.type != "mps" or (processes.world == 1 and settings.parallel != "fsdp"):
        return
    what = "training.parallel fsdp" if settings.parallel == "fsdp" else f"a training by {processes.world} processes"
    raise SettingError(f"{what} cannot be on Apple's mps, where torch exchanges nothing: add --training.device cpu")


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


# --- rendezvous ---


POLL_SECONDS = 0.05


def meet(store: Store, rank: int, world: int) -> str:
    """Return the name of a meeting of all ranks of this start, a prefix for their keys in the store.

    The first process names a new meeting, which begins when every rank has joined it. The others join the newest one.
    A meeting that their rank joined before, or whose first process is dead, is an old one: they wait for the next.
    """
    newest = _newest(world)
    if rank == 0:
        name = f"glassformer/{uuid4()}"
        store.set(newest, name)
        seats = [f"{name}/{other}" for other in range(1, world)]
        _wait_until(lambda: store.check(seats), "not all processes of this training have come")
        store.set(f"{name}/begun", "")
        return name
    joined = ""

    def has_begun() -> bool:
        nonlocal joined
        if not store.check([newest]):
            return False
        name = store.get(newest).decode()
        if name != joined and store.add(f"{name}/{rank}", 1) == 1:
            joined = name
        return name == joined and store.check([f"{name}/begun"])

    _wait_until(has_begun, "the first process of this training has not come")
    return joined


def _newest(world: int) -> str:
    """Return the key of the newest meeting's name. If one of as many processes has begun, all its seats are taken."""
    return f"glassformer/meeting of {world}"


def _wait_until(condition: Callable[[], bool], failure: str) -> None:
    """Poll a condition for as long as torch waits for processes, then raise `TrainingFailed`."""
    give_up = time.monotonic() + default_pg_timeout.total_seconds()
    while not condition():
        if time.monotonic() >= give_up:
            raise TrainingFailed(f"{failure} within {default_pg_timeout}")
        time.sleep(POLL_SECONDS)
