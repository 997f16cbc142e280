"""Checkpoints of shards, written while the training goes on: each process copies its shards and writes them from a
thread; when all have, the first makes a checkpoint of them.
"""

import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer.config.errors import GlassformerError, RunError, error_line
from glassformer.config.parts import remove
from glassformer.runs.checkpoints import begin_shards, commit_shards, prune_checkpoints, save_shard
from glassformer.runs.stored_tensors import Rows
from glassformer.training.checkpointer import Progress
from glassformer.training.distributed.processes import Processes


class ShardWriter:
    """One process's part in the checkpoints of several. `notes`: see `Checkpointer`."""

    def __init__(self, folder: Path, processes: Processes, keep: int, notes: Mapping[str, Any]) -> None:
        self.folder, self.processes, self.keep, self.notes = folder, processes, keep, notes
        self._staged: dict[str, Tensor] = {}
        """Pinned memory that shards of a GPU are copied to, the same each time."""
        self._thread: threading.Thread | None = None
        self._pruning: threading.Thread | None = None
        self._failure: str | None = None
        self._progress = Progress()
        self._temporary = Path()

    @property
    def at_work(self) -> bool:
        """Whether a checkpoint has been begun that is none yet; all processes agree."""
        return self._thread is not None

    @property
    def has_written(self) -> bool:
        """Whether this process has written its shards, or failed to."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self, progress: Progress, rows: Mapping[str, Rows]) -> None:
        """Copy this process's rows of all tensors, and begin to write them."""
        self._temporary = Path(self.processes.first_does(lambda: begin_shards(self.folder, progress.step)))
        self._progress = replace(progress)
        copied = {name: Rows(self._copied(name, tensor), first) for name, (tensor, first) in rows.items()}
        ready = None
        if self._staged:
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        self._thread = threading.Thread(target=self._write, args=(copied, ready), name="checkpoint")
        self._thread.start()

    def _copied(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor as it is now. From a GPU it comes while that goes on: who reads it waits for the event."""
        if not tensor.is_cuda:
            return tensor.clone()
        if name not in self._staged:
            self._staged[name] = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return self._staged[name].copy_(tensor, non_blocking=True)

    def _write(self, rows: Mapping[str, Rows], ready: "torch.cuda.Event | None") -> None:
        try:
            if ready is not None:
                ready.synchronize()
            save_shard(self._temporary, self.processes.rank, self.processes.world, rows)
        except GlassformerError as error:
            self._failure = str(error)
        except Exception as error:  # it is said by the training, which waits for it
            self._failure = error_line(error)

    def finish(self) -> Path | None:
        """Wait for all, and make a checkpoint of what they wrote; the first gives where it is."""
        if self._thread is None:
            return None
        self._thread.join()
        self._thread = None
        if self._pruning is not None:
            self._pruning.join()
        failures: list[str | None] = [self._failure] * self.processes.world
        if self.processes.world > 1:
            dist.all_gather_object(failures, self._failure)
        if any(failures):
            raise RunError(next(filter(None, failures)))
        world, state = self.processes.world, {**asdict(self._progress), **self.notes}
        step = self._progress.step
        path = self.processes.first_does(lambda: commit_shards(self._temporary, step, world, state))
        if not self.processes.first:
            return None
        self._pruning = threading.Thread(target=prune_checkpoints, args=(self.folder, step, self.keep))
        self._pruning.start()  # large files take a while to go
        return Path(path)

    def close(self) -> None:
        """Wait for the threads; what they wrote and nobody made a checkpoint of goes."""
        for thread in (self._thread, self._pruning):
            if thread is not None:
                thread.join()
        if self.processes.first and self._temporary != Path():
            remove(self._temporary)
