"""Files that one process at a time writes or holds: parts named after their process, and locks."""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
"""This machine, in the names of what its processes write aside."""
PART = re.compile(r"\..+?\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)\.part")
"""The name of a file or folder that is written aside."""
FORGOTTEN = 24 * 3600
"""Seconds after which nobody still writes to a part that another machine has begun."""
_writing: set[str] = set()
"""The parts that this process writes to."""


def part_name(path: Path) -> Path:
    """A name beside `path` to write to, which says whose it is."""
    return path.with_name(f".{path.name.lstrip('.')}.{HOST}-{os.getpid()}.part")


@contextlib.contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to, a file or a folder; gone at the end, and so is what others left under it."""
    temporary = part_name(path)
    sweep(path.parent, path.name.lstrip("."))
    _writing.add(os.path.abspath(temporary))
    try:
        yield temporary
    finally:
        _writing.discard(os.path.abspath(temporary))
        remove(temporary)


def sweep(folder: Path, name: str | None = None) -> None:
    """Throw away what processes that were killed left half written in a folder (default: of any name)."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = PART.fullmatch(entry.name) if entry.name.endswith(".part") else None
            if match and (name is None or entry.name.startswith(f".{name}.")) and _is_left(entry, match):
                remove(Path(entry.path))


def _is_left(entry: "os.DirEntry[str]", match: "re.Match[str]") -> bool:
    """Whether nobody writes to a part any more. Of another machine's processes only time tells."""
    if match["host"] != HOST:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > FORGOTTEN
    process = int(match["process"])  # in a container, those before may have had our number
    return os.path.abspath(entry.path) not in _writing if process == os.getpid() else not is_alive(process)


def remove(path: Path) -> None:
    """A file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


# --- locks that the system frees when their holder dies ---

WINDOWS_BYTE = 1 << 30
"""The place that is locked on Windows, where what is locked cannot be read: far behind what the file says."""


def lock_file(file: IO[Any], *, wait: bool = False) -> bool:
    """Whether an open file is locked by this process now, until it is closed; on a disk without locks, an error."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(WINDOWS_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_there(file: IO[Any], path: Path) -> bool:
    """Whether an open file is the one that has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


@contextlib.contextmanager
def claimed(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process alone does now what the file stands for: it is there as long as somebody does. On a disk
    without locks everybody does.
    """
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(path.open("a"))
            claim = lock_file(file, wait=wait)
            while claim and not is_there(file, path):  # who held it has taken it away
                file = held.enter_context(path.open("a"))
                claim = lock_file(file, wait=wait)
        except OSError:
            yield True
            return
        if claim:
            held.callback(path.unlink, missing_ok=True)  # while it is held: who comes next makes a new one
        yield claim


def sweep_claims(folder: Path, pattern: str) -> None:
    """Take away the files of claims whose holders were killed."""
    for path in folder.glob(pattern):
        with claimed(path):
            pass
