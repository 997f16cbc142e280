"""Files that one process at a time writes or holds: partial files named after their process, and locks."""

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
"""Identifier of this machine in the names of partial files."""
PART = re.compile(r"\..+?\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)\.part")
"""Name of a partial file or folder."""
FORGOTTEN = 24 * 3600
"""Seconds after which a partial file of another machine is considered abandoned."""
_writing: set[str] = set()
"""Partial files that this process is writing."""


def part_name(path: Path) -> Path:
    """Return a name beside `path` for a partial file of this process."""
    return path.with_name(f".{path.name.lstrip('.')}.{HOST}-{os.getpid()}.part")


@contextlib.contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Yield a name beside `path` for a partial file or folder; remove it, and abandoned ones, at the end."""
    temporary = part_name(path)
    sweep(path.parent, path.name.lstrip("."))
    _writing.add(os.path.abspath(temporary))
    try:
        yield temporary
    finally:
        _writing.discard(os.path.abspath(temporary))
        remove(temporary)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove partial files that killed processes left in a folder; `name` restricts them to one file."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = PART.fullmatch(entry.name) if entry.name.endswith(".part") else None
            if match and (name is None or entry.name.startswith(f".{name}.")) and _is_left(entry, match):
                remove(Path(entry.path))


def _is_left(entry: "os.DirEntry[str]", match: "re.Match[str]") -> bool:
    """Return whether a partial file is abandoned; of other machines, only the age of the file is known."""
    if match["host"] != HOST:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > FORGOTTEN
    process = int(match["process"])  # in a container, an earlier process may have had our id
    return os.path.abspath(entry.path) not in _writing if process == os.getpid() else not is_alive(process)


def remove(path: Path) -> None:
    """Remove a file or a folder if it exists and can be removed."""
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
    except PermissionError:  # owned by another user
        pass
    return True


# --- locks that the system frees when their holder dies ---

WINDOWS_BYTE = 1 << 30
"""Position of the locked byte on Windows, far behind the content because a locked byte cannot be read."""


def lock_file(file: IO[Any], *, wait: bool = False) -> bool:
    """Lock an open file until it is closed and return whether this succeeded; raise OSError without lock support."""
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
    """Return whether an open file is still the file with this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


@contextlib.contextmanager
def claimed(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Yield whether this process holds the claim `path`, a file that exists while the claim is held.

    On a disk without locks, every process gets the claim.
    """
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(path.open("a"))
            claim = lock_file(file, wait=wait)
            while claim and not is_there(file, path):  # the previous holder deleted it
                file = held.enter_context(path.open("a"))
                claim = lock_file(file, wait=wait)
        except OSError:
            yield True
            return
        if claim:
            held.callback(
                path.unlink, missing_ok=True
            )  # before the lock is released: the next process creates a new file
        yield claim


def sweep_claims(folder: Path, pattern: str) -> None:
    """Remove the files of claims whose holders were killed."""
    for path in folder.glob(pattern):
        with claimed(path):
            pass
