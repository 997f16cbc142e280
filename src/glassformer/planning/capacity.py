"""Memory available to a training run, the minimum that its model needs, and the part of a batch that fits."""

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
"""Share of the memory that tensors may fill. The rest is for other data and for fragmentation."""


@dataclass(frozen=True)
class AvailableMemory:
    """Memory for a training run."""

    bytes: int
    words: str
    """Description, such as `free on this machine`."""

    @property
    def usable(self) -> int:
        return int(SHARE * self.bytes)

    @property
    def limit(self) -> float:
        """Return the number of bytes above which a model is refused."""
        return limits().memory_share * self.bytes


def available_memory(device: torch.device, memory: float | None = None) -> AvailableMemory:
    """Return the memory of a device, or `memory` GiB if that is given."""
    if memory is not None:
        return AvailableMemory(int(memory * 2**30), "given with --device-memory")
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return AvailableMemory(free, f"free on {torch.cuda.get_device_name(device)}")
    if device.type == "mps":
        return AvailableMemory(torch.mps.recommended_max_memory(), "of this Mac, for its GPU")
    return AvailableMemory(min(_free(), _allowed()), "free on this machine")


def _free() -> int:
    """Return the bytes that Linux reports as available; on other systems, all memory."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _allowed(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that a container's limit leaves; 2^62 without a limit."""
    try:
        most = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        pages = (line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        page_cache = sum(int(value) for name, value in pages if name in ("inactive_file", "active_file"))
        return 2**62 if most == "max" else max(0, int(most) - used + page_cache)
    except (OSError, ValueError):
        return 2**62


@dataclass(frozen=True)
class BatchFit:
    """Division of a batch into pieces that fit into memory."""

    accumulation_steps: int
    """Number of pieces; 0 if not even one example fits."""
    needs: StepMemory
    rows: int
    """Examples per piece."""


def fit(
    asked: StepMemory,
    rows: int,
    accumulation_steps: int,
    pieces: Sequence[int],
    room: AvailableMemory,
    at: Callable[[int, int], StepMemory],
) -> BatchFit:
    """Return the smallest number of pieces that fits, among `pieces`.

    `asked`: memory with the configured `accumulation_steps` pieces of `rows` examples each.
    `at(rows, pieces)`: memory of another division. If no division fits, the result has 0 pieces.
    """
    if asked.peak <= room.usable:
        return BatchFit(accumulation_steps, asked, rows)
    if asked.peaks[UPDATE] - asked.batch <= room.usable:  # more pieces do not make an update smaller
        for many in pieces:
            smaller = -(-rows * accumulation_steps // many)
            if many > accumulation_steps and (needs := at(smaller, many)).peak <= room.usable:
                return BatchFit(many, needs, smaller)
    return BatchFit(0, at(1, 2) if rows > 1 else asked, 1)


# --- size of the model, from the shapes of its weights ---

MAX_BUILT_LAYERS = 24
"""Number of layers above which the size of a model is extrapolated from models with a few layers."""
FEW_LAYERS = 3
BYTES_PER_NUMBER = 4
"""Bytes of a weight, of its gradient, and of each moment of an optimiser."""
MOMENTS = {"sgd": 0, "momentum": 1, "muon": 1}
"""Minimum number of moments per weight, by optimiser; all others have 2."""


class ModelSize(NamedTuple):
    """Number of weights of a model."""

    parameters: int
    learned: int


def choose_sharding(config: Config, build: Callable[[Config], nn.Module], room: AvailableMemory, world: int) -> bool:
    """Return whether each process holds a shard of the model.

    It does if FSDP is configured, or if weights, gradients and optimiser do not fit into one process. Raise
    `SettingError` if shards do not fit either.
    """
    sharded = config.training.parallel == "fsdp"
    needed, model = model_bytes(config, build)
    if config.training.parallel == "auto" and world > 1 and needed > room.limit:
        say(f"weights, gradients and optimiser take {size(needed)}, of {size(room.bytes)} {room.words}: sharded (FSDP)")
        sharded = True
    refuse_too_large(config, needed, model, room, world if sharded else 1)
    return sharded


def refuse_too_large(config: Config, needed: int, model: ModelSize, room: AvailableMemory, shards: int = 1) -> None:
    """Raise `SettingError` if weights, gradients and optimiser of a shard do not fit. `needed`: bytes of all shards."""
    if needed / shards <= room.limit:
        return
    each = "" if shards == 1 else f"{size(needed // shards)} on each of {shards} processes, "
    sgd = "" if config.training.optimizer == "sgd" else ", or take --optimizer sgd"
    raise SettingError(
        f"a model of {count(model.parameters)} parameters does not fit: weights, gradients and optimiser alone take "
        f"{size(needed)}, {each}of {size(room.bytes)} {room.words}; lower --size, --model.width or --model.layers{sgd} "
        "(a smaller batch is no help; --limit memory_share=2 tries it nevertheless)"
    )


def model_bytes(config: Config, build: Callable[[Config], nn.Module]) -> tuple[int, ModelSize]:
    """Return the minimum bytes of weights, gradients and optimiser, and the size of the model."""
    model = model_size(config, build)
    training = config.training
    learned = model.learned if training.last_blocks is None else 0  # the trained weights are not known yet
    each = 1 + MOMENTS.get(training.optimizer, 2)
    return BYTES_PER_NUMBER * (model.parameters + each * learned), model


def model_size(config: Config, build: Callable[[Config], nn.Module]) -> ModelSize:
    """Return the size of a model without allocating its weights. Deep models are extrapolated from a few layers."""
    layers, decoder_layers = config.model.layers, config.model.decoder_layers
    if max(layers, decoder_layers) <= MAX_BUILT_LAYERS:
        return _size(config, build)

    def of(layers: int, decoder_layers: int) -> ModelSize:
        model = config.model.with_values(layers=layers, decoder_layers=decoder_layers)
        return _size(replace(config, model=model), build)

    first, second = min(layers, FEW_LAYERS), min(decoder_layers, FEW_LAYERS)
    sizes = zip(of(first, second), of(first + 1, second), of(first, second + 1), strict=True)
    return ModelSize(
        *(few + (layers - first) * (one - few) + (decoder_layers - second) * (other - few) for few, one, other in sizes)
    )


def _size(config: Config, build: Callable[[Config], nn.Module]) -> ModelSize:
    try:
        with shapes_alone():
            model = build(config)
    except GlassformerError:
        raise
    except (RuntimeError, OverflowError, TypeError) as error:
        if not is_overflow(error):
            return ModelSize(0, 0)  # a user's model that cannot be built on the meta device: its size is unknown
        raise SettingError("the model would have sizes that no model has: lower --model.width and the like") from None
    return ModelSize(parameter_count(model), learned_count(model))
