"""Several processes on one search. Run as a module, this is one of them: its orders are a file."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from glassformer.config.errors import GlassformerError, RunError
from glassformer.config.say import Say, silent
from glassformer.runs.files import read_json, write_json
from glassformer.trials.tuning.kept import open_study
from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.tried import line_of
from glassformer.trials.tuning.work import GAVE_UP, work

LOOK = 0.5
"""Seconds between two looks at what the processes have done."""


def work_in_processes(
    jobs: int, study: "optuna.Study", search: Search, orders: dict[str, Any], folder: Path, say: Say
) -> None:
    """So many processes, and a line for each trial that any of them finishes; all end before this does."""
    told = {trial.number for trial in study.trials if trial.state.is_finished()}
    with tempfile.TemporaryDirectory() as scratch:  # others may work on the same search, in the same folder
        path = Path(scratch) / "orders.json"
        write_json(path, {**orders, "search": search.to_dict(), "folder": str(folder)})
        logs = [Path(scratch) / f"{job}.log" for job in range(jobs)]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for job, log in enumerate(logs):
                processes.append(_begin(path, job, jobs, log, search))
            while any(process.poll() is None for process in processes):
                time.sleep(LOOK)
                _tell(study, search, told, say)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()  # it finishes its step, and gives its trial back
            for process in processes:
                process.wait()
        _tell(study, search, told, say)
        for process, log in zip(processes, logs, strict=True):
            if process.returncode:
                lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                why = lines[-1] if lines else f"a process of the search ended with code {process.returncode}"
                raise RunError(why.removeprefix("glassformer: "))


def _begin(orders: Path, job: int, jobs: int, log: Path, search: Search) -> "subprocess.Popen[bytes]":
    with log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(orders), str(job), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, **_share(job, jobs, search)},
        )


def _share(job: int, jobs: int, search: Search) -> dict[str, str]:
    """Of the machine's cores, and of its GPUs one each, in turn, unless someone decided that."""
    out = {}
    if "OMP_NUM_THREADS" not in os.environ and "training.threads" not in search.settings:
        out["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    if search.settings.get("training.device", "auto") == "auto":
        import torch

        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]
        if len(gpus) > 1:
            out["CUDA_VISIBLE_DEVICES"] = gpus[job % len(gpus)]
    return out


def _tell(study: "optuna.Study", search: Search, told: set[int], say: Say) -> None:
    for trial in study.get_trials(deepcopy=False):
        if trial.state.is_finished() and trial.number not in told:
            told.add(trial.number)
            if not trial.user_attrs.get(GAVE_UP):
                say(line_of(trial, study, search))


def main(words: list[str]) -> int:
    """ORDERS JOB PARENT: works until there is no more to do, or its parent is no more."""
    orders, job, parent = read_json(Path(words[0])), int(words[1]), int(words[2])
    search = Search.from_dict(orders["search"])
    try:
        with open_study(orders["where"], orders["name"], search) as study:
            work(
                study,
                search,
                trials=orders["trials"],
                until=orders["until"],
                folder=Path(orders["folder"]),
                say=silent,
                job=job,
                stop=lambda: os.getppid() != parent,
            )
    except GlassformerError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0  # the parent says that it was stopped
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
