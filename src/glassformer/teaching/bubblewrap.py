"""The command that starts a program in bubblewrap: own namespaces, and a file system that holds a `View` alone."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from glassformer.teaching.isolation import PRIVATE_FOLDER
from glassformer.teaching.view import View

NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
"""No user namespace for root, which then changes to another user; bubblewrap adds one for everybody else."""
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_ADMIN")
"""For the nursery alone: it mounts a private folder for each submission, and root changes to another user."""


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
    yield from ("--tmpfs", PRIVATE_FOLDER, "--remount-ro", "/")  # the nursery writes there, each submission in its own


def _parents(path: str, made: set[str]) -> Iterator[str]:
    """Make the folders above a path; bubblewrap's own would be closed to other users."""
    for parent in reversed(Path(path).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            yield from ("--dir", str(parent))
