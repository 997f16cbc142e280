"""Processes that train one model, as `torchrun` or Slurm's `srun` starts them. A single process is a world of one.

Each process computes its share of a batch with its own random numbers.

torchrun gives its workers a store that survives restarts, but no restart number on which all machines agree: only the
machine whose worker died counts a restart. `meet` finds the processes of the same start in that store.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from uuid import uuid4

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.constants import default_pg_timeout

from glassformer.config.errors import GlassformerError, RunError, SettingError, TrainingFailed, error_line
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch

FIRST_PORT = 20_000
"""First of as many ports at which processes started by srun meet, one per job."""
FIRST_NODE = re.compile(r"([^,\[]+)(?:\[(\d+))?")
"""First node of a Slurm list such as node[03-07,9],other2."""


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    @staticmethod
    def from_environment() -> "Processes":
        """Return the processes that the variables of torchrun or srun describe."""
        if "WORLD_SIZE" not in os.environ and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
            os.environ.update(_from_srun())
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world == 1:
            return Processes()
        if "RANK" not in os.environ:
            raise SettingError(f"WORLD_SIZE is {world}, but RANK is not set: start several processes with torchrun")
        return Processes(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))

    def join(self, device: torch.device, *, alone: bool = False) -> bool:
        """Join the process group; return whether to `leave` it later. `alone`: join also in a world of one."""
        if (self.world == 1 and not alone) or dist.is_initialized():
            return False
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=self._store(), rank=self.rank, world_size=self.world)
        return True

    def _store(self) -> Store | None:
        """Return the store of the process group; None for torch's default.

        torchrun's store survives restarts. A prefix hides what processes of earlier starts left in it.
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
        """Wait for all processes."""
        if self.world > 1:
            dist.barrier()

    def all_reduce(self, values: tuple[float, ...], device: torch.device) -> tuple[float, ...]:
        """Return the sum of each number over all processes."""
        if self.world == 1:
            return values
        holder = torch.tensor(values, device=device)
        dist.all_reduce(holder)
        return tuple(holder.tolist())

    def minimum(self, value: float) -> float:
        """Return the smallest number of all processes."""
        if self.world == 1:
            return value
        holder = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(holder, dist.ReduceOp.MIN)
        return float(holder)

    def from_first(self, value: float) -> float:
        """Return the number of the first process."""
        return float(self.broadcast(repr(value)))

    def first_does(self, work: Callable[[], object]) -> str:
        """Run `work` on the first process only; return its result as text, or raise its error, on all processes."""
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

    def broadcast(self, text: str) -> str:
        """Return the text of the first process."""
        if self.world == 1:
            return text
        holder = [text]
        dist.broadcast_object_list(holder, 0)
        return holder[0]


def _from_srun() -> dict[str, str]:
    """Return torch's variables for processes that srun started; they meet on the first node."""
    variables = {"WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID"}
    values = {name: os.environ[slurm] for name, slurm in variables.items()}
    job, step = (int(os.environ.get(name, "0")) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    nodes = FIRST_NODE.match(os.environ.get("SLURM_STEP_NODELIST", "localhost"))
    assert nodes is not None
    meeting = {
        "MASTER_ADDR": "".join(filter(None, nodes.groups())),
        "MASTER_PORT": str(FIRST_PORT + (job + step) % FIRST_PORT),
    }
    return {**values, **{name: os.environ.get(name, value) for name, value in meeting.items()}}


def allowed_restarts() -> int:
    """Return the number of times that torchrun may restart its workers."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))


PEER_LOST = re.compile(
    r"gloo/transport|Gloo connect|[Cc]onnection (?:closed|reset|refused)|Broken pipe|ncclRemoteError"
)


def is_peer_lost(error: RuntimeError) -> bool:
    """Return whether an error means that another process ended during an exchange."""
    return PEER_LOST.search(str(error)) is not None


# --- a step ---


def check_shares(settings: TrainingSettings, processes: Processes) -> None:
    """Refuse a batch size that would leave some processes without examples."""
    if settings.batch_tokens is not None:  # the number of rows then varies anyway
        return
    needed = processes.world * settings.accumulation_steps
    if settings.batch_size < needed:
        what = f"{processes.world} processes with training.accumulation_steps {settings.accumulation_steps}"
        raise SettingError(f"training.batch_size {settings.batch_size} is too small for {what}: {needed} or more")


def check_device(settings: TrainingSettings, processes: Processes, device: torch.device) -> None:
    """Refuse several processes on a device without torch communication."""
    if device.type != "mps" or (processes.world == 1 and settings.parallel != "fsdp"):
        return
    what = "training.parallel fsdp" if settings.parallel == "fsdp" else f"a training by {processes.world} processes"
    raise SettingError(f"{what} cannot be on Apple's mps, where torch exchanges nothing: add --training.device cpu")


def share_of(batch: Batch, accumulation_steps: int, processes: Processes) -> list[Batch]:
    """Return this process's share of a batch in at most `accumulation_steps` pieces, none of them empty."""
    parts = processes.world * accumulation_steps
    borders = [batch.size * part // parts for part in range(parts + 1)]
    mine = list(pairwise(borders))[processes.rank * accumulation_steps :][:accumulation_steps]
    return [batch.rows(first, last) for first, last in mine if first < last]


def reseed(seed: int, step: int, processes: Processes, device: torch.device) -> None:
    """Seed the random numbers of a step with the seed, the step and the rank."""
    numbers = np.random.SeedSequence((seed, step, processes.rank))
    drawn = int(numbers.generate_state(1, np.uint64)[0]) >> 1
    torch.default_generator.manual_seed(drawn)  # torch.manual_seed visits every kind of device, 1 ms per step
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
