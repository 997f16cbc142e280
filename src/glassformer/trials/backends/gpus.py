"""Assignment of GPUs to processes by their planned memory.

Run as a module, this prints the free memory of each GPU, so that the process that starts others holds none of it.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from glassformer.config.errors import Misuse, RunError
from glassformer.config.units import size

Needs = Mapping[str, int | None]
"""Planned bytes on a GPU by the name of the process; None without a plan."""
PlanNeeds = Callable[[], Needs]
"""Plans all processes, which takes a while; called only if there are GPUs."""
CONTEXT_BYTES = 2**29
"""Bytes that torch and CUDA hold in each process. `Gpu.usable` allows for one process."""
VARIABLE = "CUDA_VISIBLE_DEVICES"
RAY_UNITS = 10_000
"""Ray counts GPUs in units of 1/10,000."""


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine."""

    name: str
    """Name in CUDA_VISIBLE_DEVICES."""
    usable: int | None = None
    """Usable bytes; None: any number of processes may share it."""

    def has_room(self, need: int | None, held: Sequence[int | None]) -> bool:
        """Return whether a process fits next to others; a process without a plan (None) needs its own GPU."""
        if self.usable is None or not held:
            return self.usable is None or need is None or need <= self.usable
        needs = [need, *held]
        known = [bytes for bytes in needs if bytes is not None]
        return len(known) == len(needs) and sum(known) + CONTEXT_BYTES * len(held) <= self.usable


def assign_gpus(needs: Needs, gpus: Sequence[Gpu], running: Iterable[tuple[str, int | None]] = ()) -> dict[str, str]:
    """Return the GPU of each process that fits one now, the one with the fewest processes; the others wait.

    `needs`: in the order of their start. `running`: GPU and planned bytes of each running process.
    """
    held: dict[str, list[int | None]] = {gpu.name: [] for gpu in gpus}
    for name, need in running:
        held[name].append(need)
    assigned = {}
    for process, need in needs.items():
        if able := [gpu.name for gpu in gpus if gpu.has_room(need, held[gpu.name])]:
            assigned[process] = name = min(able, key=lambda name: len(held[name]))
            held[name].append(need)
    return assigned


def refuse_too_large(needs: Needs, usable: int) -> None:
    """Refuse a process that does not fit the largest GPU, which has `usable` bytes."""
    for process, need in needs.items():
        if need is not None and need > usable:
            raise Misuse(
                f"{process} will hold {size(need)} by its plan, and no GPU has more than {size(usable)} for it: lower "
                "--batch-size, --model.context or --size, raise --training.accumulation_steps, or give --jobs a "
                "number, which starts it nevertheless"
            )


def gpu_share(need: int | None, usable: int) -> float:
    """Return the share of a GPU for Ray, such that the shares of processes that fit together add up to at most 1."""
    if need is None:
        return 1.0
    return min(1.0, math.ceil(RAY_UNITS * (need + CONTEXT_BYTES) / (usable + CONTEXT_BYTES)) / RAY_UNITS)


# --- GPUs of this machine ---


def visible_gpus(*, measured: bool = False) -> list[Gpu]:
    """Return the GPUs of this machine; `measured`: with their usable memory."""
    import torch

    count = torch.cuda.device_count()
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    names = (names or [str(number) for number in range(count)])[:count]
    usable = _measure() if measured and names else [None] * len(names)
    return [Gpu(name, bytes) for name, bytes in zip(names, usable, strict=True)]


def _measure() -> list[int]:
    """Return the usable bytes of each GPU, measured by another process: CUDA would keep half a GiB in this one."""
    measured = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=False)
    try:
        return [int(usable) for usable in json.loads(measured.stdout)]
    except ValueError:
        why = next(iter(measured.stderr.strip().splitlines()[-1:]), f"code {measured.returncode}")
        raise RunError(f"--jobs auto: the GPUs' memory cannot be read ({why}): give a number") from None


def main() -> None:
    import torch

    from glassformer.planning.capacity import available_memory

    devices = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    print(json.dumps([available_memory(device).usable for device in devices]))


if __name__ == "__main__":
    main()
