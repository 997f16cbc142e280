"""Files that a submission can see: the interpreter, libraries and the data of its lesson, without solutions."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.teaching.isolation import PRIVATE_FOLDER

PACKAGE = Path(__file__).parents[1]
SYSTEM_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib",
                    "/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store")  # fmt: skip
PROTECTED_NAMES = ("lessons", "exercises")
"""Folders of this package that hold solutions."""


@dataclass(frozen=True)
class View:
    """Read-only files of a submission. All paths are absolute and free of symbolic links."""

    readable: Sequence[str]
    """Files and folders, none of them inside another."""
    covered: Sequence[str]
    """Files and folders inside the readable ones that stay hidden."""
    links: Sequence[tuple[str, str]]
    """Symbolic links outside the readable folders, as (path, target)."""
    python_path: Sequence[str]
    """`sys.path` of the submission."""
    runs: Sequence[str] = ()
    """Trained runs, available to the submission as `runs/NAME`."""


def view_for(runs: Iterable[str | Path], hidden: Iterable[str | Path]) -> View:
    """Return the view for a lesson that uses the given trained runs, without the hidden files."""
    run_paths = [os.path.realpath(run) for run in runs]
    python_path = [path for path in sys.path if _is_library(path)]
    libraries = [*_interpreter(), *SYSTEM_LIBRARIES, *_linker_path(), *python_path]
    package = str(PACKAGE.parent)
    if package not in python_path:  # an editable installation: the folder beside it stays closed
        python_path.append(package)
    links = dict[str, str]()
    named = [path for path in [*libraries, str(PACKAGE), *run_paths] if os.path.exists(path)]
    real = sorted({_resolve(os.path.abspath(path), links) for path in named})
    readable = [path for path in real if not any(is_within(path, other) for other in real if other != path)]
    closed = [*hidden, *(PACKAGE / "teaching" / name for name in PROTECTED_NAMES)]
    return View(
        readable,
        [path for path in sorted({os.path.realpath(path) for path in closed})
         if os.path.exists(path) and any(is_within(path, folder) for folder in readable)],
        [link for link in links.items() if not any(is_within(link[0], folder) for folder in readable)],
        python_path,
        run_paths,
    )  # fmt: skip


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is the folder or inside it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _interpreter() -> Iterator[str]:
    yield from (sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"))
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))


def _linker_path() -> list[str]:
    """Return the folders of LD_LIBRARY_PATH that contain libraries."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [path for path in folders if os.path.isabs(path) and any(Path(path).glob("*.so*"))]


def _is_library(path: str) -> bool:
    """Return whether an entry of `sys.path` belongs to Python or holds installed packages."""
    if path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) or path.endswith("/lib-dynload"):
        return True
    return os.path.isabs(path) and os.path.isdir(path) and any(Path(path).glob("*.dist-info"))


def _resolve(path: str, links: dict[str, str]) -> str:
    """Return the path without symbolic links, and add every link on the way to `links`."""
    current, rest = "/", path.split("/")
    for _ in range(10_000):
        if not rest:
            return current
        part = rest.pop(0)
        if part in ("", "."):
            continue
        step = os.path.dirname(current) if part == ".." else os.path.join(current, part)
        if os.path.islink(step):
            target = os.readlink(step)
            links[step] = target
            current, rest = ("/" if target.startswith("/") else current), [*target.split("/"), *rest]
        else:
            current = step
    return os.path.realpath(path)


NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
"""Namespaces for bubblewrap. It adds a user namespace except for root, which changes to another user instead."""
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_ADMIN")
"""Capabilities for the nursery alone: it mounts a private folder per submission, and root changes to another user."""


def find_bubblewrap() -> str | None:
    """Return the path of `bwrap`, looked for in absolute folders of PATH; None if it is not installed."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if os.path.isabs(folder)]
    return shutil.which("bwrap", path=":".join(folders))


def bubblewrap(bwrap: str, view: View, command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` in the view. Everything ends when the caller or `command` ends."""
    capabilities = [word for name in CAPABILITIES for word in ("--cap-add", name)]
    return [
        bwrap, *NAMESPACES, "--hostname", "submission", "--die-with-parent", "--new-session", "--as-pid-1",
        "--cap-drop", "ALL", *capabilities, *_mounts(view), "--chdir", "/", "--", *command,
    ]  # fmt: skip


def _mounts(view: View) -> Iterator[str]:
    folders = set[str]()
    for path in view.readable:
        yield from _parents(path, folders)
        yield from ("--ro-bind", path, path)
    for place, target in view.links:
        yield from _parents(place, folders)
        yield from ("--symlink", target, place)
    for path in view.covered:
        if os.path.isdir(path):
            yield from ("--tmpfs", path, "--remount-ro", path)
        else:
            yield from ("--ro-bind", "/dev/null", path)
    yield from ("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev")
    yield from ("--tmpfs", PRIVATE_FOLDER, "--remount-ro", "/")  # each submission mounts its own folder there


def _parents(path: str, made: set[str]) -> Iterator[str]:
    """Yield options that create the folders above a path; implicit folders would be closed to other users."""
    for parent in reversed(Path(path).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            yield from ("--dir", str(parent))
