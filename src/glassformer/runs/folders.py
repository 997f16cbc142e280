"""Folders that are filled completely or not at all, even if their writer is killed.

New files are written to a temporary folder inside the folder. Once they are complete, it is renamed to
`.glassformer-new`, and from then on they count as written. Its files are then moved up one by one, by the same writer
or by the next one.

Only one writer works in a folder at a time (`locked`). The system releases the lock when its holder dies; readers take
no lock. It works between the processes of one machine, and between machines if their shared disk supports locks. NFS
does, unless it is mounted with `nolock` or `local_lock`. On a disk without locks, a message reports that.
"""

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from safetensors import SafetensorError

from glassformer.config.errors import Misuse, NotARun, RunError, first_line
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.config.parts import PART, is_alive, is_there, lock_file, part_of, remove, sweep

LOCK = ".lock"
NEW, INSTEAD = ".glassformer-new", ".glassformer-instead"
"""Complete folders whose files are still to be moved up: in addition to the present files, or replacing them."""


def reason(error: Exception) -> str:
    """Return an error as one line: the system's message if there is one."""
    return getattr(error, "strerror", None) or first_line(error)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of writing into a `RunError` of one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot write {path}: {reason(error)}; what was there before is kept") from None


def check_writable(path: "str | os.PathLike[str]") -> None:
    """Raise `RunError` unless a file or folder can be made here."""
    above = next(parent for parent in Path(os.path.abspath(path)).parents if parent.exists())
    place = Path(path) if os.path.isdir(path) else above
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from None


def flush(path: Path) -> None:
    """Flush a file or folder to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows flushes no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- contents ---


def contents(folder: Path) -> list[Path]:
    """List a folder, without locks and unfinished files."""
    hidden = (LOCK, NEW, INSTEAD)
    return [path for path in sorted(folder.iterdir()) if path.name not in hidden and not PART.fullmatch(path.name)]


# --- atomic filling ---


@contextlib.contextmanager
def fill(folder: Path, last: str, *, instead: bool = False) -> Iterator[Path]:
    """Yield a folder whose files are moved into `folder` at the end; after an error, none are.

    `last`: the file without which the others are not valid. `instead`: replace all present files.
    """
    target = folder / (INSTEAD if instead else NEW)
    with writing(folder):
        made = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            complete(folder, last)
            with part_of(target) as place:
                place.mkdir()
                yield place
                for path in sorted(place.rglob("*"), reverse=True):
                    flush(path)
                flush(place)
                os.rename(place, target)  # the next writer moves it up if this one is killed
                flush(folder)
        except BaseException:
            if made:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise
        complete(folder, last)


def complete(folder: Path, last: str) -> None:
    """Move up the files that a killed process left complete."""
    new, instead = folder / NEW, folder / INSTEAD
    if instead.is_dir():
        for path in sorted(contents(folder), key=lambda path: path.name != last):
            remove(path)
        os.rename(instead, new)
    if new.is_dir():
        for path in sorted(new.iterdir(), key=lambda path: path.name == last):
            if (folder / path.name).is_dir():
                shutil.rmtree(folder / path.name)
            os.replace(path, folder / path.name)
        new.rmdir()
        flush(folder)


def is_unfinished(folder: Path) -> bool:
    """Return whether new files still have to be moved up."""
    return (folder / INSTEAD).is_dir() or (folder / NEW).is_dir()  # in this order, because INSTEAD is renamed to NEW


# --- one writer at a time ---

MAX_WAIT_SECONDS = 90.0
"""Maximum seconds to wait for worker processes of a killed holder, which save their progress."""
_held: dict[tuple[int, str], IO[str]] = {}
"""The locks of this process, by thread and folder."""


@contextlib.contextmanager
def locked(folder: Path, work: str) -> Iterator[IO[str]]:
    """Lock a folder for this thread within the context, and yield the lock file; raise `Misuse` if it is in use.

    A missing folder is created, and removed at the end if it is empty. `work`: name of the work, for messages.
    """
    key = threading.get_ident(), os.path.realpath(folder)
    if key in _held:  # this thread already holds the lock
        yield _held[key]
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _held[key] = _lock(folder, work)
    sweep(folder)
    try:
        yield lock
    finally:
        del _held[key]
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()  # before the lock is released: the next process creates a new file
        lock.close()
        with contextlib.suppress(OSError):
            for path in missing:
                path.rmdir()


def _lock(folder: Path, work: str) -> IO[str]:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a+", encoding="utf-8")
    began = time.monotonic()

    def has_lock() -> bool:
        try:
            return lock_file(file)
        except OSError as error:
            say(f"this disk knows no locks ({error.strerror}): nothing keeps a second process out of {folder}")
        return True

    while not has_lock():
        holder = _read_holder(file)
        process = holder.get("process", 0)
        elsewhere = holder.get("host") != socket.gethostname()
        if elsewhere or is_alive(process) or time.monotonic() - began > MAX_WAIT_SECONDS:
            file.close()
            raise Misuse(
                f"another {holder.get('work', 'process')} is at work in {folder} (process {process} on "
                f"{holder.get('host')}, since {holder.get('since')}): wait for it, or name another --out"
            )
        if time.monotonic() - began < 0.1:
            say(f"waiting for what the {holder.get('work')} that was stopped left running: it saves where it stands")
        time.sleep(0.1)
    if not is_there(file, folder / LOCK):  # its holder has deleted it
        file.close()
        return _lock(folder, work)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = {"work": work, "process": os.getpid(), "host": socket.gethostname(), "since": since}
    with contextlib.suppress(OSError):  # a full disk may refuse this
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), json.dumps(holder).encode())
    return file


def _read_holder(file: IO[str]) -> JsonObject:
    """Return the note of the lock's holder; empty if there is none yet."""
    for _ in range(20):
        file.seek(0)
        with contextlib.suppress(ValueError):
            holder = json.loads(file.read())
            return holder if isinstance(holder, dict) else {}
        time.sleep(0.05)
    return {}


# --- folders of runs, found without torch ---

RUNS = Path("runs")
CARD = "glassformer.json"
"""File that every run folder contains."""
MAX_RECENT = 5
"""Number of recent runs that a message lists."""


def find_run(where: "str | os.PathLike[str]") -> Path:
    """Return the folder of a run; `last` is the newest under runs/. Raise `NotARun` for any other path."""
    if not os.fspath(where).strip():
        raise NotARun("a run is named by its folder, and this name is empty")
    path = Path(where)
    if where == "last" and not path.exists():
        return last_run()
    if not path.exists():
        recent = ", ".join(map(str, runs_by_date()[:MAX_RECENT]))
        raise NotARun(f"no run at {path}" + (f"; the most recent runs are {recent}" if recent else ""))
    if not (path / CARD).is_file():
        if path.suffix == ".gguf" or (path / "config.json").is_file() or any(path.glob("*.gguf")):
            raise NotARun(f"{path} is a model of others and no run yet: `glassformer import` makes one of it")
        what = "a file" if path.is_file() else "a folder"
        raise NotARun(f"{path} is {what}, but not a run: there is no {CARD} in it")
    return path


def runs_by_date() -> list[Path]:
    """Return the folders of the runs under runs/, the newest first."""
    cards = [] if not RUNS.is_dir() else [path / CARD for path in RUNS.iterdir() if (path / CARD).is_file()]
    return [card.parent for card in sorted(cards, key=lambda card: card.stat().st_mtime, reverse=True)]


def last_run() -> Path:
    """Return the folder of the newest run under runs/."""
    runs = runs_by_date()
    if not runs:
        raise NotARun(f"no run under {RUNS}/ yet: train one with `glassformer train DATA`")
    return runs[0]
