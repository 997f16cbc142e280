"""Files that one process at a time holds: a lock that the system frees when its holder dies."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

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
