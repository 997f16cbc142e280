"""Sharded checkpoints, written while training continues.

Each process copies its shards and writes them in a thread. When all have finished, the first process completes the
checkpoint.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer.config.errors import GlassformerError, RunError, error_line
from glassformer.config.parts import remove
from glassformer.runs.checkpoints import begin_shards, commit_shards, prune_checkpoints, save_shard
from glassformer.runs.stored_tensors import Rows
from glassformer.training.checkpointer import Checkpointer, Progress
from glassformer.training.distributed.processes import Processes


class ShardWriter:
    """Writer of the shards of one process; on the first process, it also completes the checkpoint."""

    def __init__(
        self,
        folder: Path,
        checkpointer: Checkpointer,
        processes: Processes,
        rows: Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], dict[str, Rows]],
    ) -> None:
        """Prepare to write to `folder`.

        `rows`: function that returns the tensors to write, given the states of the optimiser and of the average.
        """
        self.folder, self.checkpointer, self.processes, self.rows = folder, checkpointer, processes, rows
        self._staged: dict[str, Tensor] = {}
        """Pinned memory for copies of a GPU's shards, reused by each checkpoint."""
        self._thread: threading.Thread | None = None
        self._pruning: threading.Thread | None = None
        self._digest = self._failure = ""
        self._progress = Progress()
        self._temporary = Path()

    @property
    def has_written(self) -> bool:
        """Whether this process has written its shards, or failed to."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self, progress: Progress, optimiser: Mapping[str, Tensor], average: Mapping[str, Tensor]) -> None:
        """Copy this process's rows of all tensors and start the thread that writes them."""
        self.processes.first_does(self.checkpointer.before_checkpoint)
        self._temporary = Path(self.processes.first_does(lambda: begin_shards(self.folder, progress.step)))
        self._progress = replace(progress)
        rows = self.rows(optimiser, average).items()
        copied = {name: Rows(self._copied(name, tensor), first) for name, (tensor, first) in rows}
        ready = None
        if self._staged:
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        self._thread = threading.Thread(target=self._write, args=(copied, ready), name="checkpoint")
        self._thread.start()

    def _copied(self, name: str, tensor: Tensor) -> Tensor:
        """Return a copy of a tensor. A copy from a GPU is asynchronous: wait for the event before reading it."""
        if not tensor.is_cuda:
            return tensor.clone()
        if name not in self._staged:
            self._staged[name] = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return self._staged[name].copy_(tensor, non_blocking=True)

    def _write(self, rows: Mapping[str, Rows], ready: "torch.cuda.Event | None") -> None:
        try:
            if ready is not None:
                ready.synchronize()
            self._digest = save_shard(self._temporary, self.processes.rank, self.processes.world, rows)
        except Exception as error:  # `finish` raises it in the main thread
            self._failure = str(error) if isinstance(error, GlassformerError) else error_line(error)

    def finish(self) -> Path | None:
        """Wait for all shards and complete the checkpoint; return its path on the first process, if one was begun."""
        if self._thread is None:
            return None
        self._thread.join()
        self._thread = None
        if self._pruning is not None:
            self._pruning.join()
        shards = [(self._digest, self._failure)] * self.processes.world
        if self.processes.world > 1:
            dist.all_gather_object(shards, shards[0])
        for _, failure in shards:
            if failure:
                raise RunError(failure)
        step, state = self._progress.step, {**asdict(self._progress), **self.checkpointer.notes}
        digests = [digest for digest, _ in shards]
        path = self.processes.first_does(lambda: commit_shards(self._temporary, step, digests, state))
        if not self.processes.first:
            return None
        self._pruning = threading.Thread(target=prune_checkpoints, args=(self.folder, step, self.checkpointer.keep))
        self._pruning.start()  # deleting large files takes a while
        return Path(path)

    def close(self) -> None:
        """Wait for the threads and delete shards that are not part of a checkpoint."""
        for thread in (self._thread, self._pruning):
            if thread is not None:
                thread.join()
        if self.processes.first and self._temporary != Path():
            remove(self._temporary)
