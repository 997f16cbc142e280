"""The backend that `--on` names, and how many processes it runs at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import torch

from glassformer.config.errors import unknown
from glassformer.trials.backends.base import LOCAL, RAY, SLURM, Backend
from glassformer.trials.backends.gpus import Needs, PlanNeeds, assign_gpus, refuse_too_large, visible_gpus
from glassformer.trials.backends.local import Local
from glassformer.trials.backends.ray_cluster import RayCluster, check_ray
from glassformer.trials.backends.slurm import Slurm, check_slurm
from glassformer.trials.settings import AUTO, count_of, refuse

CHECKS: dict[str, Callable[[], None]] = {LOCAL: lambda: None, SLURM: check_slurm, RAY: check_ray}


@dataclass(frozen=True)
class BackendOptions:
    """The backend of processes, and how many of them run at once."""

    on: str = LOCAL
    jobs: int | None = None
    """Number of processes at once; None: one on this machine, elsewhere as many as there is room for."""
    sbatch: str = ""
    share_gpus: bool = False
    """Whether only as many processes share a GPU as fit by their plans; if False, all running processes share them."""

    @classmethod
    def parse(cls, on: str, jobs: int | str | None, sbatch: str) -> Self:
        """Read the flags; raise an error if the backend cannot be used here."""
        number = None if jobs in (None, AUTO) else count_of("jobs", jobs, instead=AUTO)
        refuse(on not in CHECKS, f"--on: {unknown('backend', on, CHECKS)}")
        refuse(sbatch and on != SLURM, f"--sbatch is for jobs of Slurm: give --on slurm with it, not --on {on}")
        CHECKS[on]()
        return cls(on, number, sbatch, share_gpus=jobs == AUTO)

    def make(self, out: Path, name: str, *, lock: IO[str] | None = None, plan: PlanNeeds | None = None) -> Backend[Any]:
        """Return the backend for the work `name` in the folder `out`.

        `plan`: function that plans the memory of the processes, called only if they share GPUs by their plans.
        """
        if self.on == SLURM:
            return Slurm(folder=(out / SLURM).resolve(), name=name, options=self.sbatch, jobs=self.jobs)
        plan = plan if self.share_gpus else None
        if self.on == RAY:
            return RayCluster(jobs=self.jobs, plan=plan)
        cores, room, gpus = torch.get_num_threads(), self.jobs or 1, visible_gpus(measured=plan is not None)
        needs: Needs = {}
        if plan is not None and gpus:
            needs = plan()
            refuse_too_large(needs, max(gpu.usable or 0 for gpu in gpus))
            smallest_first = dict(sorted(needs.items(), key=lambda need: math.inf if need[1] is None else need[1]))
            room = max(1, min(len(assign_gpus(smallest_first, gpus)), max(len(gpus), cores)))
        threads = None if room == 1 else max(1, cores // room)
        return Local(jobs=room, threads=threads, lock=lock, gpus=gpus, gpu_needs=needs)
