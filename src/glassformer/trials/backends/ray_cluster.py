"""Tasks of a Ray cluster: RAY_ADDRESS, one that was started on this machine, or else one that lives as long as this
command. A spec starts the same process as elsewhere, on the machine that Ray chooses, and gives its exit code: what Ray
pickles on the way is a few words. The folder, which all machines see, is the only meeting place.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.config.errors import MissingPackage, Misuse, RunError, first_line
from glassformer.config.messages import say
from glassformer.trials.backends.base import GRACE, Backend, ProcessEnd, ProcessSpec
from glassformer.trials.backends.gpus import PlanNeeds, gpu_share, refuse_too_large
from glassformer.trials.backends.local import start_process

OURS = "GLASSFORMER_"
"""How the variables begin that a process of ours is told, wherever it runs."""
ANSWERED = 60.0
"""Seconds in which GPUs of a cluster must tell of themselves; those that are busy do not."""
REACHED = 10.0
"""Seconds in which a cluster must answer."""
WATCH = 0.2
"""Seconds between two looks of a worker at its process."""


@dataclass(kw_only=True)
class RayCluster(Backend):
    """Each spec one of Ray's, as many cores as it has threads, and where there are GPUs, one of them, or the part of
    one that it was planned to need.
    """

    plan: PlanNeeds | None = None
    """Where specs may share a GPU."""
    gpu_shares: dict[str, float] | None = None
    """The parts of a GPU that specs take, by their names, once they were planned."""
    running: dict[str, tuple[ProcessSpec, Any]] = field(default_factory=dict)
    """By name, with what Ray calls a reference."""
    ours: bool = False
    """Whether it was this command that went to the cluster, and leaves it."""

    @property
    def summary(self) -> str:
        return "as tasks of Ray" + (f", {self.jobs} at once" if self.jobs else "")

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        import ray

        self._connect()
        gpu_shares = {spec.name: self._gpu_share(spec) for spec in specs}
        variables = {key: value for key, value in os.environ.items() if key.startswith(OURS)}
        for spec in specs:
            cores = spec.threads or 1
            remote = ray.remote(
                num_cpus=cores,
                num_gpus=gpu_shares[spec.name],
                max_retries=0,  # what is lost is started again as anywhere
            )(run_here)
            environment = {**variables, "OMP_NUM_THREADS": str(cores), "MKL_NUM_THREADS": str(cores)}
            reference = remote.remote(spec.module, spec.arguments, str(spec.log), environment)
            self.running[spec.name] = spec, reference

    def _gpu_share(self, spec: ProcessSpec) -> float:
        import ray

        if not spec.takes_gpu or not ray.cluster_resources().get("GPU", 0):
            return 0
        if self.plan is not None and self.gpu_shares is None:
            needs, usable = self.plan(), _usable_gpu_bytes()
            refuse_too_large(needs, max(usable))
            self.gpu_shares = {name: gpu_share(need, min(usable)) for name, need in needs.items()}
        return (self.gpu_shares or {}).get(spec.name, 1)

    def _connect(self) -> None:
        import ray

        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(log_to_driver=False, configure_logging=False)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            where = os.environ.get("RAY_ADDRESS", "a cluster of this machine")
            raise RunError(f"--on ray: {where} cannot be used: {first_line(error)[:160]}") from None
        self.ours = True
        found = ray.cluster_resources()
        where = os.environ.get("RAY_ADDRESS", "this machine")
        say(f"Ray at {where}: {found.get('CPU', 0):g} cores, {found.get('GPU', 0):g} GPUs")

    def ended(self) -> list[ProcessEnd]:
        import ray

        if not self.running:
            return []
        names = {reference: name for name, (_, reference) in self.running.items()}
        done, _ = ray.wait(list(names), num_returns=len(names), timeout=0)
        return [self._end(names[reference]) for reference in done]

    def _end(self, name: str) -> ProcessEnd:
        import ray

        spec, reference = self.running.pop(name)
        try:
            code = int(ray.get(reference))
        except ray.exceptions.RayError as error:
            return ProcessEnd(name, None, f"Ray lost its worker: {first_line(error)[:160]} (see {spec.log})")
        return ProcessEnd.of(spec, code)

    def stop(self) -> None:
        """Cancel the specs, which lets them save; a second Ctrl-C does not wait."""
        if "ray" not in sys.modules:  # nothing was ever started
            return
        import ray

        references = [reference for _, reference in self.running.values()]
        with contextlib.suppress(KeyboardInterrupt):
            for reference in references:
                ray.cancel(reference)
            if references:
                ray.wait(references, num_returns=len(references), timeout=GRACE)
        self.running.clear()
        if self.ours:
            ray.shutdown()
            self.ours = False


def check_ray() -> None:
    """Whether there is Ray, and somebody at RAY_ADDRESS: Ray itself would try for minutes."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingPackage.needed("--on ray", "Ray", "ray") from None
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():  # none, or a word of Ray's own: auto, local
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACHED).close()
    except (OSError, OverflowError) as error:
        raise Misuse(f"--on ray: nobody answers at RAY_ADDRESS {address} ({first_line(error)})") from None


def _usable_gpu_bytes() -> list[int]:
    """Bytes that may be filled of a GPU of each node: Ray may choose any, and counts itself who shares it."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    ask = ray.remote(num_cpus=0, num_gpus=0.01)(usable_gpu_bytes)
    strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    try:
        asked = [ask.options(scheduling_strategy=strategy).remote() for strategy in strategies]
        return [int(usable) for usable in ray.get(asked, timeout=ANSWERED)]
    except ray.exceptions.RayError as error:
        raise RunError(
            f"--jobs auto: the GPUs' memory cannot be read ({first_line(error)[:160]}): give a number"
        ) from None


def usable_gpu_bytes() -> int:
    """In a worker of Ray: what may be filled of its GPU when nobody else is there."""
    import torch

    from glassformer.planning.capacity import AvailableMemory

    return AvailableMemory(torch.cuda.get_device_properties(0).total_memory, "").usable


def run_here(module: str, arguments: Sequence[str], log: str, environment: dict[str, str]) -> int:
    """In a worker of Ray: run the process of a spec. If it is cancelled, the process saves and stops."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    process = start_process([sys.executable, "-m", module, *arguments], Path(log), environment)
    try:
        while process.poll() is None:
            time.sleep(WATCH)
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode
