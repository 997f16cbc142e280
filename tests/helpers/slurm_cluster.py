"""A real Slurm of one node, in a folder of its own and on free ports: munged, slurmctld, slurmd."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
PATIENCE = 60.0
"""Seconds that it has to come up."""
CGROUPS = ("cgroup/v1", "disabled")
"""Ways to do without control groups: the first in older versions, the second in newer ones."""


class NoSlurm(Exception):
    """It is not installed, or does not start here."""


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[Path]:
    """While it is open, Slurm's commands work with the configuration that this gives (SLURM_CONF)."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        raise NoSlurm(f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)")
    folder.chmod(0o700)
    config = folder / "slurm.conf"
    environment = {**os.environ, "PATH": path, "SLURM_CONF": str(config)}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> "subprocess.Popen[bytes]":
        with (folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, env=environment, start_new_session=True)
        started.append(process)
        return process

    try:
        _configure(folder, config)
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid", "log-file": "munge.log",
                 "seed-file": "munge.seed"}  # fmt: skip
        start("munged", "--foreground", "--force", *(f"--{name}={folder / file}" for name, file in files.items()))
        _wait(lambda: (folder / "munge.socket").exists(), "munged", folder)
        start("slurmctld", "-D", "-i", "-f", str(config))
        for cgroup in CGROUPS:
            (folder / "cgroup.conf").write_text(f"CgroupPlugin={cgroup}\n")
            node = start("slurmd", "-D", "-f", str(config))
            time.sleep(1)
            if node.poll() is None:
                break
        _wait(lambda: _says("sinfo", "--noheader", "--format=%T", environment=environment) == "idle", "slurmd", folder)
        yield config
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def slurm_commands(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """While it is open, Slurm's commands work here. Without Slurm a test is skipped, or fails where it is required."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            with slurm_cluster(folder) as config:
                patch.setenv("SLURM_CONF", str(config))
                yield patch
        except NoSlurm as why:
            unavailable(str(why))


def unavailable(why: str) -> None:
    if os.environ.get("GLASSFORMER_CLUSTERS") == "required":
        pytest.fail(why)
    pytest.skip(why)


def slurm_says(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _configure(folder: Path, config: Path) -> None:
    user, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname().partition(".")[0]
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    config.write_text(f"""
ClusterName=small
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")


def _says(*words: str, environment: dict[str, str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False).stdout.strip()


def _wait(true: Callable[[], bool], what: str, folder: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > give_up:
            lines = [line for log in sorted(folder.glob("*.log")) for line in log.read_text().splitlines()[-3:]]
            raise NoSlurm(f"{what} does not start here: {' | '.join(lines)}")
        time.sleep(0.1)
