"""What torchrun starts: real updates of language models, of which each process notes what they exchange and hold.

Its argument is a file of JSON, a list of {"vocab": …, "settings": {…}}. The first process prints its notes, a line for
each of them.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model
from glassformer.models.weights import shapes_alone
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.context import TrainerOptions
from glassformer.training.distributed.processes import Processes
from glassformer.training.loop import Trainer
from glassformer.training.update_rules import gradients_of
from helpers.running import finish

UPDATES = 3
"""After the first one DDP puts gradients into other buckets."""
COLLECTIVES = {
    "allreduce_": (0, 2),
    "_allgather_base_": (0, 1),
    "_reduce_scatter_base_": (1, 1),
    "alltoall_base_": (0, 1),
    "broadcast_": (0, 1),
}
"""Which argument of a collective is the whole, and how often it comes around a ring, but for a process's own part."""


@dataclass(frozen=True)
class Notes:
    """Of one process and its last update, in bytes."""

    exchanged: int
    """What came from other processes."""
    weights: int
    gradients: int
    optimiser: int
    most: int
    """All tensors at the fullest moment."""
    resident: int
    """The most memory that the process ever had."""


class StepMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what collectives bring to this process, and at each operation the memory of all tensors that are there.

    Not as it is taken and given back: FSDP empties tensors that it keeps, and gloo gives back in threads of its own.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        """`tensors`: those that an update may not touch."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.exchanged = self.most = 0
        self._there = weakref.WeakValueDictionary[int, torch.UntypedStorage]()
        self._look(tensors)

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "c10d":
            place, times = COLLECTIVES[func._schema.name.removeprefix("c10d::")]
            world, whole = dist.get_world_size(), size_of(tree_leaves(args[place]))
            self.exchanged += times * whole * (world - 1) // world
        out = func(*args, **(kwargs or {}))
        self._look(tree_leaves((args, kwargs, out)))
        self.most = max(self.most, sum(storage.nbytes() for storage in self._there.values()))
        return out

    def _look(self, things: Iterable[Any]) -> None:
        for thing in things:
            if type(thing) in (Tensor, nn.Parameter):
                storage = thing.untyped_storage()
                self._there[storage._cdata] = storage


def size_of(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


class MeteredTrainer(Trainer):
    """A trainer that judges nothing, and whose updates are metered."""

    notes: dict[str, int]

    def _step(self, asked: bool = False) -> bool:
        with StepMeter([*self.step.weights, *self.context.optimiser.state().values()]) as meter:
            stop = super()._step(asked)
        self.notes |= {"exchanged": meter.exchanged, "most": meter.most}
        return stop

    def note_sizes(self) -> None:
        """When gradients are there, and what the optimiser remembers since the first update."""
        self.notes = {
            "weights": size_of(self.step.weights),
            "gradients": size_of(gradients_of(self.step.weights)),
            "optimiser": size_of(self.context.optimiser.state().values()),
        }

    def _validate(self) -> None:
        pass


def random_tokens(count: int, vocab: int) -> Any:
    ids = np.random.default_rng(0).integers(4, vocab, count, dtype=np.uint16)
    return SimpleNamespace(ids=ids, bytes=count, unknown=0)


def train_metered(vocab: int, settings: dict[str, Any], processes: Processes) -> Notes:
    config = resolve({}, {"training.steps": UPDATES, "training.compile": "off", **settings})
    training, context = config.training, config.model.context
    part = random_tokens(UPDATES * training.batch_size * (context + 1) + 1, vocab)
    task = LanguageModelling({"train": part}, context=context, batch_size=training.batch_size, start=1, seed=0)
    with shapes_alone() if training.parallel == "fsdp" and not processes.first else contextlib.nullcontext():
        model = build_language_model(config.model, vocab=vocab)
    trainer = MeteredTrainer(
        model,
        task,
        training,
        TrainerOptions(torch.device("cpu"), processes=processes),
    )
    update = trainer.context.optimiser.step

    def noted_update(factor: float) -> None:
        trainer.note_sizes()
        update(factor)

    trainer.context.optimiser.step = noted_update  # type: ignore[method-assign]
    trainer.step.layer_stats = None  # what some steps measure of layers takes a copy of all weights
    trainer.run()
    (exchanged,) = processes.all_reduce((trainer.notes["exchanged"] / processes.world,), torch.device("cpu"))
    trainer.notes["exchanged"] = round(exchanged)  # of matrices, some processes have one more than others
    return Notes(**trainer.notes, resident=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def meter_together(world: int, trainings: Sequence[dict[str, Any]], folder: Path) -> list[Notes]:
    """What the first of so many processes notes of each training."""
    file = folder / f"{world}-processes.json"
    file.write_text(json.dumps(trainings))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    process = subprocess.Popen(
        [*torchrun, __file__, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    code, out, err = finish(process)
    assert code == 0, err[-3000:]
    return [Notes(**json.loads(line)) for line in out.splitlines()]


def main() -> None:
    torch.set_num_threads(1)
    processes = Processes.from_environment()
    processes.join(torch.device("cpu"), alone=True)
    for training in json.loads(Path(sys.argv[1]).read_text()):
        notes = train_metered(training["vocab"], training["settings"], processes)
        if processes.first:
            print(json.dumps(asdict(notes)), flush=True)
    processes.leave()


if __name__ == "__main__":
    main()
