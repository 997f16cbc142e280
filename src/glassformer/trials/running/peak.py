"""How much memory a training takes at the most."""

import contextlib
import resource
import sys
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """The most that this process held since the start of a training, beyond what it held then; on a GPU, CUDA's."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        with contextlib.suppress(OSError):  # the peak so far may be that of reading the data
            RESET.write_text("5")
        self.before = _held("VmRSS")

    def bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.cuda else max(0, _held("VmHWM") - self.before)


def _held(name: str) -> int:
    """Bytes of this process: now (VmRSS), or at the most (VmHWM)."""
    if STATUS.is_file():
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of macOS in bytes
    return most if sys.platform == "darwin" else most * 1024
