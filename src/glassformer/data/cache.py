"""Folders in which results computed from data are cached."""

import os
import shutil
import tempfile
from pathlib import Path


def cache_folders() -> list[Path]:
    """Return the folders in $GLASSFORMER_CACHE (separated as in $PATH), else the user's cache folder.

    A user without a home folder has none.
    """
    own, caches = os.environ.get("GLASSFORMER_CACHE", ""), os.environ.get("XDG_CACHE_HOME")
    try:
        if folders := [Path(folder).expanduser() for folder in own.split(os.pathsep) if folder]:
            return folders
        return [Path(caches or Path.home() / ".cache") / "glassformer"]
    except RuntimeError:  # in a container, the user may not be in /etc/passwd
        return []


def why_unwritable(folder: Path) -> str:
    """Return why a folder cannot be written to; empty if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def free_bytes(folder: Path) -> int:
    """Return the free space on a folder's disk; 0 if the disk is gone."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
