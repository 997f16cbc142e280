"""How much memory there is for a training, and which part of the batch fits into it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.planning.training_step import BACKWARD, FORWARD, UPDATE, StepMemory

SHARE = 0.9
"""The share of the memory that may be filled: the rest goes to what is no tensor, and to holes between them."""


@dataclass(frozen=True)
class AvailableMemory:
    """Memory for a training."""

    bytes: int
    words: str
    """Whose memory that is."""

    @property
    def usable(self) -> int:
        return int(SHARE * self.bytes)


def available_memory(device: torch.device, memory: float | None = None) -> AvailableMemory:
    """`memory`: so many GiB, whatever this machine has."""
    if memory is not None:
        return AvailableMemory(int(memory * 2**30), "given with --memory")
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return AvailableMemory(free, f"free on {torch.cuda.get_device_name(device)}")
    if device.type == "mps":
        return AvailableMemory(torch.mps.recommended_max_memory(), "of this Mac, for its GPU")
    return AvailableMemory(min(_free(), _allowed()), "free on this machine")


def _free() -> int:
    """What Linux says is available; elsewhere all there is."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _allowed(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """What a container may still take; without one, any amount."""
    try:
        most = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        pages = (line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        given_back = sum(int(value) for name, value in pages if name in ("inactive_file", "active_file"))
        return 2**62 if most == "max" else max(0, int(most) - used + given_back)
    except (OSError, ValueError):
        return 2**62


@dataclass(frozen=True)
class BatchFit:
    """The number of pieces that a batch has to be computed in."""

    accumulation_steps: int
    """How many pieces; 0: not even one example at a time fits."""
    needs: StepMemory
    rows: int
    """Examples in a piece."""
    most_rows: int
    """About so many would fit."""


def fit(
    asked: StepMemory,
    rows: int,
    accumulation_steps: int,
    pieces: Sequence[int],
    room: AvailableMemory,
    at: Callable[[int, int], StepMemory],
) -> BatchFit:
    """The fewest pieces that fit, of `pieces` that may be.

    `asked`: what the batch needs with as many pieces as asked for, `rows` in each. `at`: what so many rows need, as one
    of so many pieces.
    """
    held = asked.lasting + asked.gradients
    each = max(1, max(asked.peaks[FORWARD], asked.peaks[BACKWARD]) - held) / rows
    most = max(0, int((room.usable - held) / each))
    if asked.peak <= room.usable:
        return BatchFit(accumulation_steps, asked, rows, max(rows, most))
    if asked.peaks[UPDATE] - asked.batch > room.usable:  # which pieces of a batch make no smaller
        pieces = ()
    for count in (count for count in pieces if count > accumulation_steps):
        smaller = -(-rows * accumulation_steps // count)
        if smaller > 1 and smaller > 2 * most:  # far from it: not worth a look
            continue
        needs = at(smaller, count)
        if needs.peak <= room.usable:
            return BatchFit(count, needs, smaller, smaller)
    return BatchFit(0, at(1, 2) if rows > 1 else asked, 1, 0)
