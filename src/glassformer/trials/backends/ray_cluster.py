"""Tasks of a Ray cluster: that of RAY_ADDRESS, one started on this machine, or one that lives as long as this command.

A task starts the same process as other backends, on a machine that Ray chooses, and returns its exit code. Ray
therefore pickles only a few strings. Processes communicate through the folder, which all machines must see.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.config.errors import MissingPackage, Misuse, RunError, first_line
from glassformer.config.messages import say
from glassformer.trials.backends.base import GRACE_SECONDS, Backend, ProcessEnd, ProcessSpec
from glassformer.trials.backends.gpus import PlanNeeds, gpu_share, refuse_too_large
from glassformer.trials.backends.local import start_process, thread_variables

VARIABLE_PREFIX = "GLASSFORMER_"
"""Environment variables with this prefix are passed to processes on other machines."""
GPU_TIMEOUT = 60.0
"""Seconds in which the GPUs of a cluster must report their memory; busy ones do not."""
CONNECT_TIMEOUT = 10.0
"""Seconds in which a cluster must answer."""
POLL_SECONDS = 0.2
"""Seconds between two checks of a worker's process."""


class _RayTask(NamedTuple):
    spec: ProcessSpec
    reference: Any
    """Ray's reference to the result of the task."""


@dataclass(kw_only=True)
class RayCluster(Backend[_RayTask]):
    """Backend with a Ray task per process, which has a core per thread, and a GPU or its planned share of one."""

    plan: PlanNeeds | None = None
    """Plans the GPU memory of processes that may share a GPU."""
    gpu_shares: dict[str, float] | None = None
    """Share of a GPU by the name of the process; None before they are planned."""
    connected: bool = False
    """Whether this command connected to the cluster, and disconnects at the end."""

    @property
    def summary(self) -> str:
        return "as tasks of Ray" + (f", {self.jobs} at once" if self.jobs else "")

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        import ray

        self._connect()
        gpu_shares = {spec.name: self._gpu_share(spec) for spec in specs}
        variables = {key: value for key, value in os.environ.items() if key.startswith(VARIABLE_PREFIX)}
        for spec in specs:
            cores = spec.threads or 1
            remote = ray.remote(
                num_cpus=cores,
                num_gpus=gpu_shares[spec.name],
                max_retries=0,  # lost processes are restarted by `Backend.run`
            )(run_here)
            environment = {**variables, **thread_variables(cores)}
            reference = remote.remote(spec.module, spec.arguments, str(spec.log), environment)
            self.running[spec.name] = _RayTask(spec, reference)

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
        self.connected = True
        resources = ray.cluster_resources()
        where = os.environ.get("RAY_ADDRESS", "this machine")
        say(f"Ray at {where}: {resources.get('CPU', 0):g} cores, {resources.get('GPU', 0):g} GPUs")

    def ended(self) -> list[ProcessEnd]:
        import ray

        if not self.running:
            return []
        names = {task.reference: name for name, task in self.running.items()}
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
        """Cancel the tasks, which lets their processes save; a second Ctrl-C does not wait."""
        if "ray" not in sys.modules:  # nothing was started
            return
        import ray

        references = [task.reference for task in self.running.values()]
        with contextlib.suppress(KeyboardInterrupt):
            for reference in references:
                ray.cancel(reference)
            if references:
                ray.wait(references, num_returns=len(references), timeout=GRACE_SECONDS)
        self.running.clear()
        if self.connected:
            ray.shutdown()
            self.connected = False


def check_ray() -> None:
    """Raise an error if Ray is missing, or if nothing answers at RAY_ADDRESS: Ray itself would try for minutes."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingPackage.needed("--on ray", "Ray", "ray") from None
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():  # unset, or a word of Ray: auto, local
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise Misuse(f"--on ray: nobody answers at RAY_ADDRESS {address} ({first_line(error)})") from None


def _usable_gpu_bytes() -> list[int]:
    """Return the usable bytes of a GPU of each node; Ray chooses the node, and counts the shares itself."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    ask = ray.remote(num_cpus=0, num_gpus=0.01)(usable_gpu_bytes)
    strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    try:
        asked = [ask.options(scheduling_strategy=strategy).remote() for strategy in strategies]
        return [int(usable) for usable in ray.get(asked, timeout=GPU_TIMEOUT)]
    except ray.exceptions.RayError as error:
        raise RunError(
            f"--jobs auto: the GPUs' memory cannot be read ({first_line(error)[:160]}): give a number"
        ) from None


def usable_gpu_bytes() -> int:
    """Return the usable bytes of this worker's GPU if no other process uses it."""
    import torch

    from glassformer.planning.capacity import AvailableMemory

    return AvailableMemory(torch.cuda.get_device_properties(0).total_memory, "").usable


def run_here(module: str, arguments: Sequence[str], log: str, environment: dict[str, str]) -> int:
    """Run a process in a worker of Ray and return its exit code; a cancelled task lets it save and stop."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    process = start_process([sys.executable, "-m", module, *arguments], Path(log), environment)
    try:
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
    finally:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode
