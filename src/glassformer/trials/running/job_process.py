"""The process of a job, on any backend: `python -m … FOLDER`.

It reads job.json, appends events to events.jsonl (one JSON object per line), and writes outcome.json. It saves a
checkpoint and stops on SIGTERM, or when the comparison on the same machine ends.
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

SAVE_SECONDS = 30.0
"""Seconds that training has to save a checkpoint after the comparison has ended."""
PATIENCE = 3 * SAVE_SECONDS
"""Seconds to wait for another process of the same job, which saves a checkpoint since its parent has ended."""
BUSY_CODE = 3
"""Exit code if another process still works on the job after that."""
OUT_OF_MEMORY = (
    "out of memory: lower --batch-size (for translation --batch-tokens), --model.context or --size, or train fewer at "
    "once (--jobs)"
)


def main(folder: Path) -> int:
    when_parent_is_gone(_save_and_stop)
    with _alone(folder) as alone:
        if not alone:
            print("another process is at work here", file=sys.stderr)
            return BUSY_CODE
        if (folder / OUTCOME).exists():  # another process has done the job
            return 0
        return _work(folder)


def _work(folder: Path) -> int:
    job_file = read_json(folder / JOB)
    job = Job(**job_file["job"])
    tell = _teller(folder / EVENTS)
    tell(event="begun")
    try:
        load_plugins()
        from glassformer.trials.running.execution import run_job  # imports torch: failing imports are reported too

        outcome = run_job(job, folder, str(job_file["part"]), tell)
    except GlassformerError as error:
        outcome = Outcome(job=job, error=str(error), skipped=isinstance(error, MissingPackage))
    except KeyboardInterrupt:
        outcome = None
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(job=job, error=_why_failed(error, folder))
    if outcome is None:  # the job was stopped; its run can be resumed
        return STOPPED
    if not outcome.threads:  # training runs record the number themselves
        threads = os.environ.get("OMP_NUM_THREADS", "")
        outcome = replace(outcome, threads=int(threads) if threads.isdecimal() else 0)
    outcome.write(folder / OUTCOME)
    return 0


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Yield whether no other process works on the job; one may, if the job was restarted before its end was seen."""
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
    """Return why a job failed, in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    if out_of_memory(error):
        return OUT_OF_MEMORY
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or text}"
    return f"it crashed with {type(error).__name__}{f': {text[:200]}' if text else ''} (see {folder / LOG})"


def _save_and_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)  # the training loop finishes its step and saves
    time.sleep(SAVE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
