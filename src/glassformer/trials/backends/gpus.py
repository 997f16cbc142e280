"""GPUs for processes: which of them each gets, by the memory that its plan says it needs. Run as a module, this tells
what is free on each; so who starts processes takes no memory of a GPU.
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
"""Bytes that processes hold on a GPU, by their names; None: nobody knows."""
PlanNeeds = Callable[[], Needs]
"""Plans them all, which takes a while: only where there are GPUs."""
CONTEXT = 2**29
"""Bytes that torch and CUDA take for themselves in a process. A plan's room allows for one process of them."""
VARIABLE = "CUDA_VISIBLE_DEVICES"
SHARES = 10_000
"""Parts of a GPU that Ray counts in."""


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine."""

    name: str
    """As CUDA_VISIBLE_DEVICES names it."""
    usable: int | None = None
    """Bytes that may be filled, as a plan has it; None: any number of processes may share it."""

    def has_room(self, need: int | None, held: Sequence[int | None]) -> bool:
        """Whether a process fits beside others. None: nobody knows what it needs, so that it wants a GPU of its own."""
        if self.usable is None or not held:
            return self.usable is None or need is None or need <= self.usable
        needs = [need, *held]
        known = [bytes for bytes in needs if bytes is not None]
        return len(known) == len(needs) and sum(known) + CONTEXT * len(held) <= self.usable


def assign_gpus(needs: Needs, gpus: Sequence[Gpu], running: Iterable[tuple[str, int | None]] = ()) -> dict[str, str]:
    """The GPU of each process that fits one now, by the process's name: the one with the fewest. Others wait.

    `needs`: in the order in which they want to begin. `running`: the GPU and the
    bytes of those that are at work.
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
    """Refuse what fits no GPU by itself. `usable`: the bytes of the largest."""
    for process, need in needs.items():
        if need is not None and need > usable:
            raise Misuse(
                f"{process} will hold {size(need)} by its plan, and no GPU has more than {size(usable)} for it: lower "
                "--batch-size, --model.context or --size, raise --training.accumulation_steps, or give --jobs a "
                "number, which starts it nevertheless"
            )


def gpu_share(need: int | None, usable: int) -> float:
    """The part of a GPU that a process takes, as Ray counts it: those that fit together make 1 at most."""
    if need is None:
        return 1.0
    return min(1.0, math.ceil(SHARES * (need + CONTEXT) / (usable + CONTEXT)) / SHARES)


# --- the GPUs that there are ---


def visible_gpus(*, measured: bool = False) -> list[Gpu]:
    """This machine's GPUs; `measured`: with the memory that may be filled now."""
    import torch

    count = torch.cuda.device_count()
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    names = (names or [str(number) for number in range(count)])[:count]
    usable = _measure() if measured and names else [None] * len(names)
    return [Gpu(name, bytes) for name, bytes in zip(names, usable, strict=True)]


def _measure() -> list[int]:
    """What may be filled of each GPU, asked by a process of its own: CUDA keeps half a GiB in whoever asks."""
    asked = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=False)
    try:
        return [int(usable) for usable in json.loads(asked.stdout)]
    except ValueError:
        why = next(iter(asked.stderr.strip().splitlines()[-1:]), f"code {asked.returncode}")
        raise RunError(f"--jobs auto: the GPUs' memory cannot be read ({why}): give a number") from None


def main() -> None:
    import torch

    from glassformer.planning.capacity import available_memory

    devices = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    print(json.dumps([available_memory(device).usable for device in devices]))


if __name__ == "__main__":
    main()
