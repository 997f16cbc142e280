"""Jobs of Slurm: an array of them for all that is started at once. The folder, which all machines see, is the only
meeting place: a script, which job does what, and what Slurm itself says of a job.

Jobs outlive the command that submitted them, unless it is stopped (Ctrl-C, SIGTERM): then they are cancelled, which
lets them save. The same command finds those that still wait or run.
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
from glassformer.trials.backends.base import GRACE, STOPPED, Backend, ProcessEnd, ProcessSpec

SCRIPT, JOBS = "array.sh", "jobs.json"
MOST = 1000
"""Jobs of an array: more are submitted as the first are done. Slurm's own limit, unless a site changed it."""
ASK_EVERY = 10.0
"""Seconds between two questions to Slurm, which serves everyone."""
SETTLE = 30.0
"""Seconds after the end of a job in which its result may still come in sight: network disks are late."""
OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)
"""The states of jobs that will not run again."""
FORGOTTEN = "forgotten"
"""The state of a job of which Slurm knows nothing any more."""


@dataclass
class _SlurmJob:
    spec: ProcessSpec
    number: str
    """As Slurm writes it: 4711_3."""
    ended: float | None = None
    """When it was first known to be over, on the clock that nobody sets."""
    state: str = "PENDING"


@dataclass(kw_only=True)
class Slurm(Backend):
    """Each spec a job. `jobs`: how many run at once, if that is limited; `options`: what `sbatch` is told, as people
    type it.
    """

    folder: Path
    name: str
    options: str = ""
    pause: float = 0.5
    running: dict[str, _SlurmJob] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    """Jobs of an earlier command that did more than is asked for now: they are let be."""
    asked: float = -1e9
    """When Slurm was asked last."""

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
        return specs[: max(0, MOST - len(self.running))]

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / SCRIPT, _script(specs, self.name, self.options))
        array = f"0-{len(specs) - 1}" + (f"%{self.jobs}" if self.jobs else "")
        output = f"{self.folder}/".replace("%", "%%") + "%A_%a.txt"
        words = ["sbatch", "--parsable", f"--array={array}", f"--output={output}", str(self.folder / SCRIPT)]
        number = self._submit(words).split(";")[0]  # behind it, a cluster's name
        for index, spec in enumerate(specs):
            self.running[spec.name] = _SlurmJob(spec, f"{number}_{index}")
        self._note()
        say(f"{counted(len(specs), 'job')} submitted to Slurm: {number} ({self.folder / SCRIPT})")

    def _submit(self, words: Sequence[str]) -> str:
        said = subprocess.run(words, capture_output=True, text=True, env=_environment(), check=False)
        if said.returncode:
            first = next(iter(said.stderr.strip().splitlines()), f"code {said.returncode}")
            line = first.removeprefix("sbatch: ").removeprefix("error: ")
            if self.options:
                raise Misuse(f"--sbatch {shlex.quote(self.options)}: {line}")
            raise RunError(f"--on slurm: sbatch cannot submit jobs here ({line})")
        return said.stdout.strip()

    def _note(self) -> None:
        """Which job does what, for the same command later."""
        write_json(self.folder / JOBS, {**self.others, **{name: job.number for name, job in self.running.items()}})

    def ended(self) -> list[ProcessEnd]:
        self._ask()
        ends = []
        for name, job in list(self.running.items()):
            if _is_there(job.spec.result):
                ends.append(ProcessEnd(name, 0, ""))
            elif job.ended is not None and (job.spec.result is None or time.monotonic() - job.ended > SETTLE):
                ends.append(ProcessEnd(name, {"COMPLETED": 0, "FAILED": 1}.get(job.state), self._why(job)))
        for end in ends:
            del self.running[end.name]
        if ends:
            self._note()
        return ends

    def _ask(self) -> None:
        """What Slurm says of each job, now and then."""
        if time.monotonic() - self.asked < ASK_EVERY or not self.running:
            return
        self.asked = time.monotonic()
        if (states := _states()) is None:  # it does not answer just now
            return
        for job in self.running.values():
            job.state = states.get(job.number, FORGOTTEN)
            job.ended = None if _is_alive(job.number, states) else job.ended or time.monotonic()

    def _why(self, job: _SlurmJob) -> str:
        said = f"Slurm's job {job.number} ended without a result ({job.state}"
        if not job.spec.log.exists():
            return f"{said}): it never began; do the nodes see {job.spec.log.parent} and this Python?"
        return f"{said}; see {job.spec.log} and {self.folder / job.number}.txt)"

    def stop(self) -> None:
        """Cancel them, and wait until they have saved; a second Ctrl-C does not wait."""
        if self.running:
            say(f"{counted(len(self.running), 'job')} of Slurm cancelled: what runs saves where it stands")
            _scancel(job.number for job in self.running.values())
        give_up = time.monotonic() + GRACE
        with contextlib.suppress(KeyboardInterrupt):
            while self.running and time.monotonic() < give_up:
                states = _states() or {}
                self.running = {name: job for name, job in self.running.items() if _is_alive(job.number, states)}
                time.sleep(self.pause if self.running else 0)
        self.running.clear()
        with contextlib.suppress(OSError):
            if self.others:
                self._note()
            else:
                (self.folder / JOBS).unlink(missing_ok=True)
            for path in self.folder.glob("*_*.txt"):
                if not path.stat().st_size:  # Slurm had nothing to say
                    path.unlink()


def check_slurm() -> None:
    if shutil.which("sbatch") is None:
        raise Misuse(
            "--on slurm: there is no sbatch here; run it where jobs are submitted (a login node), or leave --on away"
        )


def live_jobs(folder: Path) -> dict[str, str]:
    """The jobs that an earlier command submitted, and that wait or run: their numbers by the spec's name."""
    try:
        numbers = read_json(folder / JOBS)
    except GlassformerError:  # none, or it is damaged
        return {}
    if not numbers or (states := _states()) is None:
        return {}
    return {name: str(number) for name, number in numbers.items() if _is_alive(str(number), states)}


def refuse_live_jobs(folder: Path, remedy: str) -> None:
    """Nobody else works where jobs of Slurm still do. `remedy`: what to do instead."""
    if numbers := sorted({number.partition("_")[0] for number in live_jobs(folder).values()}):
        raise Misuse(
            f"jobs of Slurm are still at work in {folder.parent}: {remedy}, or cancel them first "
            f"(scancel {' '.join(numbers)})"
        )


def _is_there(result: Path | None) -> bool:
    """Whether a file is there; its folder is listed, since network disks remember for long what was not there."""
    try:
        return result is not None and result.name in os.listdir(result.parent)
    except OSError:
        return False


# --- what Slurm is told and says ---


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
    """Whether a job waits or runs: it may be one that was requeued."""
    return number in states and states[number] not in OVER


def _environment() -> Mapping[str, str]:
    """This process's, without what is said there of a job that it may itself be part of."""
    return {
        key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"
    }  # fmt: skip


def _states() -> dict[str, str] | None:
    """The states of a person's jobs by their numbers; None: Slurm does not answer."""
    words = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i %T"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, env=_environment(), check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(line.split()[:2] for line in said.stdout.splitlines() if len(line.split()) > 1)


def _scancel(numbers: Iterable[str]) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", *numbers], capture_output=True, env=_environment(), check=False, timeout=60)
