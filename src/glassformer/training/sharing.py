"""What each process does of a step: its share of the batch, with random numbers of its own."""

import contextlib
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.config.errors import SettingError
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Batch
from glassformer.training.processes import Processes


def check_shares(settings: TrainingSettings, processes: Processes) -> None:
    """Refuse a batch that cannot be shared evenly."""
    if settings.batch_tokens is not None:  # batches are of any number of rows anyway
        return
    if settings.batch_size % (processes.world * settings.accumulation_steps):
        raise SettingError(
            f"training.batch_size {settings.batch_size} cannot be shared evenly by "
            f"{processes.world} processes with training.accumulation_steps {settings.accumulation_steps}"
        )


def share_of(batch: Batch, accumulation_steps: int, processes: Processes) -> list[Batch]:
    """This process's share of the batch, in as many pieces as asked for; none of them empty."""
    parts = processes.world * accumulation_steps
    borders = [batch.size * part // parts for part in range(parts + 1)]
    mine = list(pairwise(borders))[processes.rank * accumulation_steps :][:accumulation_steps]
    return [batch.rows(first, last) for first, last in mine if first < last]


def exchanging(stepper: nn.Module, *, last: bool) -> contextlib.AbstractContextManager[object]:
    """Processes exchange gradients once a step: with the last piece."""
    if last or not isinstance(stepper, DistributedDataParallel):
        return contextlib.nullcontext()
    return stepper.no_sync()


def reseed(seed: int, step: int, processes: Processes, device: torch.device) -> None:
    """The random numbers of a step follow from the seed, the step and the process."""
    numbers = np.random.SeedSequence((seed, step, processes.rank))
    drawn = int(numbers.generate_state(1, np.uint64)[0]) >> 1
    torch.default_generator.manual_seed(drawn)  # torch.manual_seed would ask every kind of device, 1 ms a step
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(drawn)
    elif device.type == "mps":
        torch.mps.manual_seed(drawn)
