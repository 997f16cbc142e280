"""A real disk with little room."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """In memory, at this new folder; where none can be mounted, the test is skipped."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root may mount a disk")
    folder.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        if folder.is_mount():
            subprocess.run(["umount", folder], check=True)
