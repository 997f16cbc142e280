"""One training of a comparison, in a process of its own, wherever that runs: `python -m … FOLDER` reads job.json,
adds what happens to events.jsonl (a JSON object a line), and leaves outcome.json.

When the comparison on the same machine is gone, it saves where it stands and stops; so it does on SIGTERM.
"""

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.config.errors import GlassformerError, MissingPackage, out_of_memory
from glassformer.config.parts import lock_file
from glassformer.config.plugins import load_plugins
from glassformer.runs.files import read_json
from glassformer.trials.backends.base import STOPPED, when_parent_is_gone
from glassformer.trials.jobs import Job, Outcome
from glassformer.trials.running.folder import EVENTS, JOB, LOG, OUTCOME

LEFT_ALONE = 30.0
"""Seconds that a training has to save where it stands once the comparison is gone."""
PATIENCE = 3 * LEFT_ALONE
"""Seconds to wait for a process that does the same: who started it is gone, and it saves where it stands."""
BUSY = 3
"""The exit code where another process still did the same after that."""
TOO_LARGE = (
    "out of memory: lower --batch-size (for translation --batch-tokens), --model.context or --size, or train fewer at "
    "once (--jobs)"
)


def main(folder: Path) -> int:
    when_parent_is_gone(_save_and_stop)
    with _alone(folder) as alone:
        if not alone:
            print("another process is at work here", file=sys.stderr)
            return BUSY
        if (folder / OUTCOME).exists():  # it has done it all
            return 0
        return _work(folder)


def _work(folder: Path) -> int:
    job_file = read_json(folder / JOB)
    job = Job(**job_file["job"])
    tell = _teller(folder / EVENTS)
    tell(event="begun")
    try:
        load_plugins()
        from glassformer.trials.running.execution import run_job  # torch: what cannot even be imported is a row, too

        outcome = run_job(job, folder, str(job_file["part"]), tell)
    except GlassformerError as error:
        outcome = Outcome(job=job, error=str(error), skipped=isinstance(error, MissingPackage))
    except KeyboardInterrupt:
        outcome = None
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(job=job, error=_why_failed(error, folder))
    if outcome is None:  # stopped on the way; its run can go on
        return STOPPED
    if not outcome.threads:  # of a training run, they are known
        threads = os.environ.get("OMP_NUM_THREADS", "")
        outcome = replace(outcome, threads=int(threads) if threads.isdecimal() else 0)
    outcome.write(folder / OUTCOME)
    return 0


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether this process has the job for itself: a job may be started again before its end was seen."""
    give_up = time.monotonic() + PATIENCE
    with (folder / LOG).open("ab") as file:
        with contextlib.suppress(OSError):  # a disk without locks
            while not lock_file(file):
                if time.monotonic() > give_up:
                    yield False
                    return
                time.sleep(0.1)
        yield True


def _teller(path: Path) -> Callable[..., None]:
    def tell(**event: Any) -> None:
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    return tell


def _why_failed(error: Exception, folder: Path) -> str:
    """Why a job failed, in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    if out_of_memory(error):
        return TOO_LARGE
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or text}"
    return f"it crashed with {type(error).__name__}{f': {text[:200]}' if text else ''} (see {folder / LOG})"


def _save_and_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)  # the training loop finishes its step and saves
    time.sleep(LEFT_ALONE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
