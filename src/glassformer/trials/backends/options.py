"""The backends by their names, as `--on` takes them, with what else people say of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch

from glassformer.config.errors import Misuse, unknown
from glassformer.trials.backends.base import LOCAL, RAY, SLURM, Backend
from glassformer.trials.backends.gpus import Needs, PlanNeeds, assign_gpus, refuse_too_large, visible_gpus
from glassformer.trials.backends.local import Local
from glassformer.trials.backends.ray_cluster import RayCluster, check_ray
from glassformer.trials.backends.slurm import Slurm, check_slurm

CHECKS: dict[str, Callable[[], None]] = {LOCAL: lambda: None, SLURM: check_slurm, RAY: check_ray}


@dataclass(frozen=True)
class BackendOptions:
    """Where processes run, and how many at once."""

    on: str = LOCAL
    jobs: int | None = None
    """None: here one, elsewhere as many as there is room for."""
    sbatch: str = ""

    def check(self) -> None:
        """Refuse what cannot be before anything is made."""
        if self.on not in CHECKS:
            raise Misuse(f"--on: {unknown('backend', self.on, CHECKS)}")
        if self.sbatch and self.on != SLURM:
            raise Misuse(f"--sbatch is for jobs of Slurm: give --on slurm with it, not --on {self.on}")
        CHECKS[self.on]()

    def make(
        self,
        out: Path,
        name: str,
        *,
        lock: IO[str] | None = None,
        plan: PlanNeeds | None = None,
    ) -> Backend:
        """The backend for the work `name` in the folder `out`.

        `plan`: so that as many share a GPU as fit by their plans; without, all that are at work at once share them.
        """
        if self.on == SLURM:
            return Slurm(folder=(out / SLURM).resolve(), name=name, options=self.sbatch, jobs=self.jobs)
        if self.on == RAY:
            return RayCluster(jobs=self.jobs, plan=plan)
        cores, room, gpus = torch.get_num_threads(), self.jobs or 1, visible_gpus(measured=plan is not None)
        needs: Needs = {}
        if plan is not None and gpus:
            needs = plan()
            refuse_too_large(needs, max(gpu.usable or 0 for gpu in gpus))
            smallest_first = dict(sorted(needs.items(), key=lambda one: math.inf if one[1] is None else one[1]))
            room = max(1, min(len(assign_gpus(smallest_first, gpus)), max(len(gpus), cores)))
        threads = None if room == 1 else max(1, cores // room)
        return Local(jobs=room, threads=threads, lock=lock, gpus=gpus, gpu_needs=needs)
