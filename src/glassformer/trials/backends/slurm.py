"""Slurm jobs: a job array for the processes that start at once.

Processes communicate through a folder that all machines see. It holds the script of the array, the number of each job,
and Slurm's output. Jobs outlive the command that submitted them, unless it is stopped (Ctrl-C, SIGTERM): it then
cancels them, which lets them save. The same command finds the jobs that still wait or run.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.config.errors import GlassformerError, Misuse, RunError
from glassformer.config.messages import say
from glassformer.data.wording import counted
from glassformer.runs.files import read_json, write_json, write_text
from glassformer.runs.folders import writing
from glassformer.trials.backends.base import GRACE_SECONDS, STOPPED, Backend, ProcessEnd, ProcessSpec

SCRIPT, JOBS = "array.sh", "jobs.json"
MAX_JOBS = 1000
"""Maximum number of jobs at once; more are submitted as the first end. Slurm's default limit."""
ASK_EVERY = 10.0
"""Seconds between two queries to Slurm, which other users need too."""
SETTLE_SECONDS = 30.0
"""Seconds after the end of a job in which its result may still appear: network disks are slow."""
END_STATES = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)
"""States of jobs that will not run again."""
UNKNOWN_STATE = "forgotten"
"""State of a job that Slurm no longer lists."""


@dataclass
class _SlurmJob:
    spec: ProcessSpec
    number: str
    """Array job and index, such as 4711_3."""
    ended: float | None = None
    """Monotonic time at which its end was first seen."""
    state: str = "PENDING"


@dataclass(kw_only=True)
class Slurm(Backend[_SlurmJob]):
    """Backend with a Slurm job per process."""

    folder: Path
    name: str
    options: str = ""
    """Options of `sbatch`, as on its command line."""
    pause: float = 0.5
    others: dict[str, str] = field(default_factory=dict)
    """Numbers of jobs of an earlier command that this command does not need, by name; they keep running."""
    asked: float = -1e9
    """Monotonic time of the last query."""

    @property
    def summary(self) -> str:
        return "as jobs of Slurm" + (f", {self.jobs} at once" if self.jobs else "")

    def adopt(self, specs: Sequence[ProcessSpec]) -> set[str]:
        alive = live_jobs(self.folder)
        for spec in specs:
            if spec.name in alive:
                self.running[spec.name] = _SlurmJob(spec, alive.pop(spec.name))
        self.others = alive
        if self.running:
            say(f"{counted(len(self.running), 'job')} of an earlier command found in Slurm's queue")
        return set(self.running)

    def startable(self, specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
        return specs[: max(0, MAX_JOBS - len(self.running))]

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / SCRIPT, _script(specs, self.name, self.options))
        array = f"0-{len(specs) - 1}" + (f"%{self.jobs}" if self.jobs else "")
        output = f"{self.folder}/".replace("%", "%%") + "%A_%a.txt"
        words = ["sbatch", "--parsable", f"--array={array}", f"--output={output}", str(self.folder / SCRIPT)]
        number = self._submit(words).split(";")[0]  # the name of a cluster may follow
        for index, spec in enumerate(specs):
            self.running[spec.name] = _SlurmJob(spec, f"{number}_{index}")
        self._write_numbers()
        say(f"{counted(len(specs), 'job')} submitted to Slurm: {number} ({self.folder / SCRIPT})")

    def _submit(self, words: Sequence[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True, env=_environment(), check=False)
        if done.returncode:
            first = next(iter(done.stderr.strip().splitlines()), f"code {done.returncode}")
            line = first.removeprefix("sbatch: ").removeprefix("error: ")
            if self.options:
                raise Misuse(f"--sbatch {shlex.quote(self.options)}: {line}")
            raise RunError(f"--on slurm: sbatch cannot submit jobs here ({line})")
        return done.stdout.strip()

    def _write_numbers(self) -> None:
        """Store the number of each job, for the same command later."""
        write_json(self.folder / JOBS, {**self.others, **{name: job.number for name, job in self.running.items()}})

    def ended(self) -> list[ProcessEnd]:
        self._ask()
        ends = []
        for name, job in list(self.running.items()):
            if _exists(job.spec.result):
                ends.append(ProcessEnd(name, 0, ""))
            elif job.ended is not None and (job.spec.result is None or time.monotonic() - job.ended > SETTLE_SECONDS):
                ends.append(ProcessEnd(name, {"COMPLETED": 0, "FAILED": 1}.get(job.state), self._why(job)))
        for end in ends:
            del self.running[end.name]
        if ends:
            self._write_numbers()
        return ends

    def _ask(self) -> None:
        """Query the states of the jobs if the last query was long enough ago."""
        if time.monotonic() - self.asked < ASK_EVERY or not self.running:
            return
        self.asked = time.monotonic()
        if (states := _states()) is None:  # no answer
            return
        for job in self.running.values():
            job.state = states.get(job.number, UNKNOWN_STATE)
            job.ended = None if _is_alive(job.number, states) else job.ended or time.monotonic()

    def _why(self, job: _SlurmJob) -> str:
        end = f"Slurm's job {job.number} ended without a result ({job.state}"
        if not job.spec.log.exists():
            return f"{end}): it never began; do the nodes see {job.spec.log.parent} and this Python?"
        return f"{end}; see {job.spec.log} and {self.folder / job.number}.txt)"

    def stop(self) -> None:
        """Cancel the jobs, and wait until they have saved; a second Ctrl-C does not wait."""
        if self.running:
            say(f"{counted(len(self.running), 'job')} of Slurm cancelled: those that run save a checkpoint")
            _scancel(job.number for job in self.running.values())
        give_up = time.monotonic() + GRACE_SECONDS
        with contextlib.suppress(KeyboardInterrupt):
            while self.running and time.monotonic() < give_up:
                states = _states() or {}
                self.running = {name: job for name, job in self.running.items() if _is_alive(job.number, states)}
                time.sleep(self.pause if self.running else 0)
        self.running.clear()
        with contextlib.suppress(OSError):
            if self.others:
                self._write_numbers()
            else:
                (self.folder / JOBS).unlink(missing_ok=True)
            for path in self.folder.glob("*_*.txt"):
                if not path.stat().st_size:  # Slurm printed nothing
                    path.unlink()


def check_slurm() -> None:
    if shutil.which("sbatch") is None:
        raise Misuse(
            "--on slurm: there is no sbatch here; run it where jobs are submitted (a login node), or remove --on"
        )


def live_jobs(folder: Path) -> dict[str, str]:
    """Return the numbers of jobs of an earlier command that wait or run, by the name of the process."""
    try:
        numbers = read_json(folder / JOBS)
    except GlassformerError:  # missing or damaged
        return {}
    if not numbers or (states := _states()) is None:
        return {}
    return {name: str(number) for name, number in numbers.items() if _is_alive(str(number), states)}


def refuse_live_jobs(folder: Path, remedy: str) -> None:
    """Refuse a folder in which jobs of Slurm still work. `remedy`: what to do instead."""
    if numbers := sorted({number.partition("_")[0] for number in live_jobs(folder).values()}):
        raise Misuse(
            f"jobs of Slurm are still at work in {folder.parent}: {remedy}, or cancel them first "
            f"(scancel {' '.join(numbers)})"
        )


def _exists(result: Path | None) -> bool:
    """Return whether a file exists; lists its folder, because network disks cache that a file is missing."""
    try:
        return result is not None and result.name in os.listdir(result.parent)
    except OSError:
        return False


# --- commands of Slurm ---


def _script(specs: Sequence[ProcessSpec], name: str, options: str) -> str:
    own = f"#SBATCH {' '.join(options.splitlines())}\n" if options.strip() else ""
    commands = "\n".join(
        "  " + shlex.quote(f"{shlex.join(spec.command())} >> {shlex.quote(str(spec.log))} 2>&1") for spec in specs
    )
    return f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:USR1@60
{own}
commands=(
{commands}
)
export OMP_NUM_THREADS=${{SLURM_CPUS_PER_TASK:-1}} MKL_NUM_THREADS=${{SLURM_CPUS_PER_TASK:-1}}
eval "exec ${{commands[$SLURM_ARRAY_TASK_ID]}}" < /dev/null &
process=$!
# Cancelled or preempted: save and end. The time is almost up: save, and come back to the queue.
trap 'told=yes; kill -TERM $process' TERM
trap 'told=yes; late=yes; kill -TERM $process' USR1
while true; do
  wait $process # which a signal cuts short
  code=$?
  kill -0 $process 2> /dev/null || break
done
if [ -n "$told" ]; then # the process may have ended while its wait was cut short
  wait $process 2> /dev/null
  again=$?
  [ $again = 127 ] || code=$again
fi
if [ $code = {STOPPED} ] && [ -n "$late" ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
"""


def _is_alive(number: str, states: Mapping[str, str]) -> bool:
    """Return whether a job waits or runs; it may have been requeued."""
    return number in states and states[number] not in END_STATES


def _environment() -> Mapping[str, str]:
    """Return the environment without the variables of a Slurm job that this process may be part of."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"}


def _states() -> dict[str, str] | None:
    """Return the states of the user's jobs by number; None if Slurm does not answer."""
    words = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i %T"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=_environment(), check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(line.split()[:2] for line in done.stdout.splitlines() if len(line.split()) > 1)


def _scancel(numbers: Iterable[str]) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", *numbers], capture_output=True, env=_environment(), check=False, timeout=60)
