"""One training of a comparison, in a process of its own: `python -m glassformer.trials.running.cell FOLDER`.

It reads cell.json, says on stdout what happens (a JSON object a line), and leaves outcome.json. Whatever becomes of it,
the comparison goes on. When the comparison is gone, it saves where it stands and stops.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from glassformer.config.errors import GlassformerError, out_of_memory
from glassformer.config.plugins import load_plugins
from glassformer.runs.files import read_json
from glassformer.trials.outcome import Cell, Outcome
from glassformer.trials.running.folder import CELL, LOG, OUTCOME

LEFT_ALONE = 30.0
"""Seconds that a training has to save where it stands once the comparison is gone."""
TOO_LARGE = (
    "out of memory: lower --batch-size (for translation --batch-tokens), --model.context or --size, or train fewer at "
    "once (--jobs)"
)


def main(folder: Path) -> int:
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what anything else prints goes to the log
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), daemon=True).start()
    job = read_json(folder / CELL)
    cell = Cell(**job["cell"])
    try:
        load_plugins()
        from glassformer.trials.running.execution import run_cell  # torch: what cannot even be imported is a row, too

        outcome = run_cell(cell, folder, str(job["part"]), lambda **event: _tell(events, event))
    except GlassformerError as error:
        outcome = Outcome(cell=cell, error=str(error))
    except KeyboardInterrupt:
        outcome = None
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(cell=cell, error=_why(error, folder))
    if outcome is None:  # stopped on the way; its run can go on
        return 1
    replace(outcome, threads=int(job["threads"])).write(folder / OUTCOME)
    return 0


def _why(error: Exception, folder: Path) -> str:
    """Why a cell failed, in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    if out_of_memory(error):
        return TOO_LARGE
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or text}"
    return f"it crashed with {type(error).__name__}{f': {text[:200]}' if text else ''} (see {folder / LOG})"


def _tell(events: IO[str], event: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the comparison is gone, and `_watch` knows it
        events.write(json.dumps(event) + "\n")
        events.flush()


def _watch(stdin: int) -> None:
    """The comparison holds the other end of stdin, and says nothing: where it ends, so does this."""
    while os.read(stdin, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # the training loop finishes its step and saves
    time.sleep(LEFT_ALONE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
