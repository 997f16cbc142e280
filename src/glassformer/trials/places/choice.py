"""The places by their names, as `--on` takes them."""

from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch

from glassformer.config.errors import Misuse, Say, unknown
from glassformer.trials.places.base import LOCAL, RAY, SLURM, Place
from glassformer.trials.places.local import Local, visible_gpus
from glassformer.trials.places.ray_cluster import RayCluster, check_ray
from glassformer.trials.places.slurm import Slurm, check_slurm

CHECKS: dict[str, Callable[[], None]] = {LOCAL: lambda: None, SLURM: check_slurm, RAY: check_ray}


def check_place(on: str, sbatch: str) -> None:
    """Refuse what cannot be before anything is made."""
    if on not in CHECKS:
        raise Misuse(f"--on: {unknown('place', on, CHECKS)}")
    if sbatch and on != SLURM:
        raise Misuse(f"--sbatch is for jobs of Slurm: give --on slurm with it, not --on {on}")
    CHECKS[on]()


def place_of(
    on: str, out: Path, *, name: str, jobs: int | None, sbatch: str, lock: IO[str] | None = None, say: Say
) -> Place:
    """The place of this name for work in the folder `out`; `name`: of the work."""
    if on == SLURM:
        return Slurm(folder=(out / SLURM).resolve(), name=name, options=sbatch, jobs=jobs, say=say)
    if on == RAY:
        return RayCluster(room=jobs, say=say)
    room = jobs or 1
    threads = max(1, torch.get_num_threads() // room)
    return Local(room=room, threads=threads, lock=lock, devices=visible_gpus())
