"""Commands that are killed at a file operation of theirs, by the hundred.

Importing everything takes seconds, so it is done once: run as a script, this is a process that has imported all and
forks a child for each command. A child is killed by its own hand (SIGKILL) right before its k-th operation that changes
the disk, as Python's audit events tell them; or by `strace`, at the k-th system call of a name, which also sees what
goes past Python (safetensors' writes, buffers that are flushed).
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

ALSO = [
    "glassformer.trials.compare", "glassformer.trials.running.job_process",
    "glassformer.trials.running.execution", "glassformer.trials.tuning.result",
    "glassformer.trials.tuning.worker", "glassformer.verbs.exchange",
    "glassformer.verbs.files", "glassformer.cli.terminal.progress",
    "glassformer.reporting.papers", "torch._dynamo", "sklearn.linear_model", "sklearn.feature_extraction.text",
]  # fmt: skip
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CALLS = ("write", "openat", "rename", "unlink", "fsync")
"""What `strace` kills at."""


class Ended(NamedTuple):
    code: int
    """Below 0: the signal that ended it."""
    operations: int
    """How many there were; 0, if it was killed."""
    said: str


class Forker:
    """The process that forks, and what is asked of it."""

    def __init__(self, environment: dict[str, str]) -> None:
        alone = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **alone, **environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.process:  # its pipes are closed, and it ends
            pass

    def run(
        self,
        *argv: str,
        folder: Path,
        at: int | None = None,
        call: str | None = None,
        patches: dict[str, Any] | None = None,
    ) -> Ended:
        """One command in a folder, killed at its so-manieth operation in it, or (`call`) system call of this name."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"argv": argv, "folder": str(folder), "at": at, "call": call, "patches": patches or {}}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the process that forks is gone"
        return Ended(**json.loads(answer))


# --- the process that forks ---


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in ALSO:
        importlib.import_module(name)
    from glassformer.cli.main import main

    for line in sys.stdin:
        job = json.loads(line)
        read, write = os.pipe()
        log = Path(f"{job['folder']}.log")
        child = os.fork()
        if child == 0:
            os.close(read)
            _work(job, main, write, log)
        os.close(write)
        tracer = _trace(child, job) if job["call"] else None
        _, status = os.waitpid(child, 0)
        if tracer is not None:
            tracer.wait()
        with os.fdopen(read) as counts:
            counted = counts.read()
        code = os.waitstatus_to_exitcode(status)
        answers.write(json.dumps({"code": code, "operations": int(counted or 0), "said": log.read_text()}) + "\n")


def _work(job: dict[str, Any], main: Callable[[list[str]], int], counts: int, log: Path) -> None:
    code = 99
    try:
        os.chdir(job["folder"])
        os.environ["GLASSFORMER_CACHE"] = f"{job['folder']}/cache"
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        for name, value in job["patches"].items():
            module, attribute = name.rsplit(".", 1)
            setattr(importlib.import_module(module), attribute, value)
        _work_quickly()
        if job["call"]:
            os.kill(os.getpid(), signal.SIGSTOP)  # until strace is there
        counter = _count(job["folder"], None if job["call"] else job["at"])
        code = main(job["argv"])
        os.write(counts, str(counter["operations"]).encode())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _count(folder: str, last: int | None) -> dict[str, int]:
    """Count what changes this folder from now on, and die before the last."""
    counter = {"operations": 0}

    def is_inside(path: Any, handle: Any = -1) -> bool:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return (isinstance(handle, int) and handle != -1) or os.path.abspath(name).startswith(folder)

    def hear(event: str, values: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = values
            changes = bool((flags or 0) & WRITES) or any(letter in (mode or "") for letter in "wax+")
            if not changes or not is_inside(path):
                return
        elif event not in CHANGES or not is_inside(values[0], values[-1]):
            return
        counter["operations"] += 1
        if counter["operations"] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return counter


def _trace(child: int, job: dict[str, Any]) -> "subprocess.Popen[str]":
    """`strace` on a child that waits for it."""
    os.waitpid(child, os.WUNTRACED)
    call, at = job["call"], job["at"]
    kill = [] if at is None else ["-e", f"inject={call}:signal=KILL:when={at}"]
    counts = Path(f"{job['folder']}.calls")
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(child), "-o", str(counts), "-e", f"trace={call}", *kill],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    tracer.stderr.readline()  # it says that it is there
    os.kill(child, signal.SIGCONT)
    return tracer


def _work_quickly() -> None:
    """The processes of a comparison are forks, too; and pictures, which take longer than a training, are blank."""
    importlib.import_module("glassformer.trials.backends.local").subprocess = _Subprocess
    papers = importlib.import_module("glassformer.reporting.papers")
    for name in ("draw_curves", "draw_confusion"):
        setattr(papers, name, _blank)


def _blank(*values: Any, **more: Any) -> None:
    from glassformer.runs.files import aside

    path = next(value for value in (*values, *more.values()) if isinstance(value, Path))
    with aside(path) as temporary:
        temporary.write_bytes(b"a picture")


class _Subprocess:
    """What `backends.local` takes of subprocess."""

    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired

    class Popen:
        def __init__(self, command: list[str], *, stderr: Any, **more: Any) -> None:
            ours = os.pipe()
            self.returncode: int | None = None
            self.pid = os.fork()
            if self.pid == 0:
                code = 1
                try:
                    os.close(ours[1])
                    os.dup2(ours[0], 0)
                    os.dup2(stderr.fileno(), 1)
                    os.dup2(stderr.fileno(), 2)
                    sys.stdin = os.fdopen(0, closefd=False)
                    code = importlib.import_module("glassformer.trials.running.job_process").main(Path(command[-1]))
                finally:
                    os._exit(code)
            os.close(ours[0])
            self.stdin = os.fdopen(ours[1], "w")

        def wait(self, timeout: float | None = None) -> int | None:
            return self._wait(0)

        def poll(self) -> int | None:
            return self._wait(os.WNOHANG)

        def _wait(self, how: int) -> int | None:
            if self.returncode is None:
                ended, status = os.waitpid(self.pid, how)
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
            return self.returncode

        def terminate(self) -> None:
            os.kill(self.pid, signal.SIGTERM)

        def kill(self) -> None:
            os.kill(self.pid, signal.SIGKILL)


if __name__ == "__main__":
    serve()


# --- what a command leaves ---

CLOCK = {
    "seconds", "elapsed", "validating", "memory", "per_example", "digests", "curve", "changed", "digest", "since",
    "environment", "command", "seconds_per_example", "preparing", "between", "spent", "evaluating",
    "growing", "improved",
}  # fmt: skip
"""Keys of what depends on the clock, or on what does."""
PAPERS = (".png", ".md", ".html", ".txt", ".log")
"""Files for people, which tell the time too: they only have to be there."""


def state_of(folder: Path) -> dict[str, Any]:
    """Every file by its path: its bytes, or what it says but for the time it took."""
    state: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            state[name] = "a folder"
        elif path.name == ".lock":  # its holder is dead, and so it is free
            continue
        elif path.suffix in PAPERS or path.name == "comparison.csv":
            state[name] = "there" if path.stat().st_size else "empty"
        elif path.suffix == ".json":
            state[name] = _timeless(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            state[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        else:
            state[name] = path.read_bytes()
    return state


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in CLOCK}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def fresh_copy(template: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(template, folder, symlinks=True))
