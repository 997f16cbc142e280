"""The folders in which is kept what was made of data once, so that it is there the next time."""

import os
import shutil
import tempfile
from pathlib import Path


def cache_folders() -> list[Path]:
    """Those of $GLASSFORMER_CACHE, several on disks of their own as in $PATH, or where the system keeps caches; none,
    where a user has no home.
    """
    own, caches = os.environ.get("GLASSFORMER_CACHE", ""), os.environ.get("XDG_CACHE_HOME")
    try:
        if folders := [Path(folder).expanduser() for folder in own.split(os.pathsep) if folder]:
            return folders
        return [Path(caches or Path.home() / ".cache") / "glassformer"]
    except RuntimeError:  # containers run as users whom no file knows
        return []


def why_unwritable(folder: Path) -> str:
    """Why a folder cannot be written to; empty, if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def free_bytes(folder: Path) -> int:
    """The room on a folder's disk; on one that is gone, none."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
