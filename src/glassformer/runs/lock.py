"""One writer in a folder at a time: a lock that the system frees when its holder dies. Who reads takes none.

It holds between the processes of one machine, and between machines where the disk they share passes locks on (NFS does,
unless it is mounted with `nolock` or `local_lock`). Where a disk knows no locks at all, there is none, and it is said.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.parts import is_alive, is_there, lock_file, sweep
from glassformer.runs.folders import LOCK, writing

PATIENCE = 90.0
"""Seconds to wait for processes of a holder that was killed: they save where they stand."""
_held: dict[tuple[int, str], IO[str]] = {}
"""The locks of this process, by thread and folder."""


@contextlib.contextmanager
def locked(folder: Path, work: str, say: Say = silent) -> Iterator[IO[str]]:
    """The folder for this thread alone; made if it is not there, and removed again if nothing came into it. `work`:
    what is done here, in a word.
    """
    key = threading.get_ident(), os.path.realpath(folder)
    if key in _held:  # a part of the same work
        yield _held[key]
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _held[key] = _lock(folder, work, say)
    sweep(folder)
    try:
        yield lock
    finally:
        del _held[key]
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()  # while it is held: who comes next makes a new one
        lock.close()
        with contextlib.suppress(OSError):
            for path in missing:
                path.rmdir()


def _lock(folder: Path, work: str, say: Say) -> IO[str]:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a+", encoding="utf-8")
    began = time.monotonic()
    while not _try_lock(file, say):
        holder = _read_holder(file)
        process = holder.get("process", 0)
        elsewhere = holder.get("host") != socket.gethostname()
        if elsewhere or is_alive(process) or time.monotonic() - began > PATIENCE:
            file.close()
            raise Misuse(
                f"another {holder.get('work', 'process')} is at work in {folder} (process {process} on "
                f"{holder.get('host')}, since {holder.get('since')}): wait for it, or name another --out"
            )
        if time.monotonic() - began < 0.1:
            say(f"waiting for what the {holder.get('work')} that was stopped left running: it saves where it stands")
        time.sleep(0.1)
    if not is_there(file, folder / LOCK):  # who held it has taken it away
        file.close()
        return _lock(folder, work, say)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = {"work": work, "process": os.getpid(), "host": socket.gethostname(), "since": since}
    with contextlib.suppress(OSError):  # on a full disk nobody is told who it is
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), json.dumps(holder).encode())
    return file


def _read_holder(file: IO[str]) -> dict[str, Any]:
    """Who says that they hold it; a moment after they took it, nobody may have said so yet."""
    for _ in range(20):
        file.seek(0)
        with contextlib.suppress(ValueError):
            holder = json.loads(file.read())
            return holder if isinstance(holder, dict) else {}
        time.sleep(0.05)
    return {}


def _try_lock(file: IO[str], say: Say) -> bool:
    try:
        return lock_file(file)
    except OSError as error:
        say(f"this disk knows no locks ({error.strerror}): nothing keeps a second process out of {file.name}'s folder")
    return True
