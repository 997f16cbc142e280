"""How much memory there is for a training run, how much its model needs at least, and what part of a batch fits."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from glassformer.config.errors import GlassformerError, SettingError, is_overflow
from glassformer.config.limits import limits
from glassformer.config.messages import say
from glassformer.config.resolve import Config
from glassformer.config.units import count, size
from glassformer.models.build import learned_count, parameter_count
from glassformer.models.weights import shapes_alone
from glassformer.planning.training_step import UPDATE, StepMemory

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
        return AvailableMemory(int(memory * 2**30), "given with --device-memory")
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
    if asked.peak <= room.usable:
        return BatchFit(accumulation_steps, asked, rows)
    if asked.peaks[UPDATE] - asked.batch <= room.usable:  # more pieces do not make an update smaller
        for many in pieces:
            smaller = -(-rows * accumulation_steps // many)
            if many > accumulation_steps and (needs := at(smaller, many)).peak <= room.usable:
                return BatchFit(many, needs, smaller)
    return BatchFit(0, at(1, 2) if rows > 1 else asked, 1)


# --- from the shapes of the weights, before any memory is taken ---

MANY = 24
"""Layers from which on some stand for all: they are alike."""
FEW = 3
NUMBER = 4
"""Bytes of a weight, of its gradient, and of each number that an optimiser remembers of it."""
MOMENTS = {"sgd": 0, "momentum": 1, "muon": 1}
"""Numbers that an optimiser remembers of a weight, at least; others: 2."""


class ModelSize(NamedTuple):
    """How many numbers a model holds."""

    parameters: int
    learned: int


def choose_sharding(config: Config, build: Callable[[Config], nn.Module], room: AvailableMemory, world: int) -> bool:
    """Whether each process holds a shard of the model: where it is asked for, or where weights, gradients and optimiser
    alone do not fit one. What fits in neither way is refused. `build`: makes the model.
    """
    sharded = config.training.parallel == "fsdp"
    needed, model = model_bytes(config, build)
    if config.training.parallel == "auto" and world > 1 and needed > _most(room):
        say(f"weights, gradients and optimiser take {size(needed)}, of {size(room.bytes)} {room.words}: sharded (FSDP)")
        sharded = True
    _refuse_too_large(config, needed, model, room, world if sharded else 1)
    return sharded


def refuse_too_large(config: Config, build: Callable[[Config], nn.Module], room: AvailableMemory) -> None:
    """Refuse a model whose weights, gradients and optimiser alone do not fit."""
    _refuse_too_large(config, *model_bytes(config, build), room)


def _refuse_too_large(config: Config, needed: int, model: ModelSize, room: AvailableMemory, shards: int = 1) -> None:
    if needed / shards <= _most(room):
        return
    each = "" if shards == 1 else f"{size(needed // shards)} on each of {shards} processes, "
    sgd = "" if config.training.optimizer == "sgd" else ", or take --optimizer sgd"
    raise SettingError(
        f"a model of {count(model.parameters)} parameters does not fit: weights, gradients and optimiser alone take "
        f"{size(needed)}, {each}of {size(room.bytes)} {room.words}; lower --size, --model.width or --model.layers{sgd} "
        "(a smaller batch is no help; --limit memory_share=2 tries it nevertheless)"
    )


def _most(room: AvailableMemory) -> float:
    return limits().memory_share * room.bytes


def model_bytes(config: Config, build: Callable[[Config], nn.Module]) -> tuple[int, ModelSize]:
    """What weights, gradients and optimiser take, at least."""
    model = model_size(config, build)
    training = config.training
    learned = model.learned if training.last_blocks is None else 0  # of those, nobody knows yet which
    each = 1 + MOMENTS.get(training.optimizer, 2)
    return NUMBER * (model.parameters + each * learned), model


def model_size(config: Config, build: Callable[[Config], nn.Module]) -> ModelSize:
    """The numbers of a model that is not built: of many layers, a few are, without numbers in them."""
    layers, decoder_layers = config.model.layers, config.model.decoder_layers
    if max(layers, decoder_layers) <= MANY:
        return _size(config, build)

    def of(layers: int, decoder_layers: int) -> ModelSize:
        model = config.model.with_values(layers=layers, decoder_layers=decoder_layers)
        return _size(replace(config, model=model), build)

    first, second = min(layers, FEW), min(decoder_layers, FEW)
    some = of(first, second)
    more = of(first + 1, second)
    most = of(first, second + 1)
    return ModelSize(
        *(
            few + (layers - first) * (one - few) + (decoder_layers - second) * (other - few)
            for few, one, other in zip(some, more, most, strict=True)
        )
    )


def _size(config: Config, build: Callable[[Config], nn.Module]) -> ModelSize:
    try:
        with shapes_alone():
            model = build(config)
    except GlassformerError:
        raise
    except (RuntimeError, OverflowError, TypeError) as error:
        if not is_overflow(error):
            return ModelSize(0, 0)  # a model of one's own that cannot be built without numbers: nobody knows its size
        raise SettingError("the model would have sizes that no model has: lower --model.width and the like") from None
    return ModelSize(parameter_count(model), learned_count(model))
