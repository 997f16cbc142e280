"""Memory of a training step, measured on real tensors or simulated with fake tensors."""

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from glassformer.bricks.losses import l2_penalty
from glassformer.config.sections import TrainingSettings
from glassformer.models.weights import trained_weights
from glassformer.planning.kernels import Kernels
from glassformer.tasks.base import Task
from glassformer.training.device import PRECISIONS, Precision
from glassformer.training.optimiser import Average, Optimiser, decayed

Build = Callable[[], nn.Module]
Piece = Sequence[Tensor]
"""Input tensors of the loss for some examples."""

FEW_EXAMPLES = 8
"""Number of examples in the first real step; the second step has twice as many."""

LAYERS = 2
"""Number of layers of the smaller of the two models from which a deeper model is extrapolated."""

CANNOT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
"""Errors that PyTorch raises if a shape depends on values that fake tensors do not have."""

FORWARD, BACKWARD, UPDATE = "forward pass", "backward pass", "update"

# --- meters of memory ---


class Phase(NamedTuple):
    """Part of a step, with the bytes held at each moment."""

    name: str
    moments: list[int]


class Meter:
    """Record of the bytes held in each phase."""

    def __init__(self) -> None:
        self._bytes = 0
        self.phases = [Phase("start", [0])]

    @property
    def now(self) -> int:
        return self._bytes

    @property
    def peaks(self) -> dict[str, int]:
        """Return the peak of each phase; phases of the same name count as one."""
        return peaks_of(self.phases)

    def begin(self, name: str) -> None:
        self.phases.append(Phase(name, [self.now]))

    def _change(self, more: int) -> None:
        """Add bytes, or remove them if `more` is below 0."""
        self._bytes += more
        self.phases[-1].moments.append(self._bytes)


def peaks_of(phases: Iterable[Phase]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for name, moments in phases:
        peaks[name] = max(peaks.get(name, 0), *moments)
    return peaks


class TensorMeter(TorchDispatchMode, Meter):  # type: ignore[no-untyped-call]
    """Meter of all tensors that are created while it is active; shared memory counts once.

    The workspace of a kernel is not a tensor, and does not count.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]
        Meter.__init__(self)
        self._there: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.add(leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that were created before."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata  # identifies the memory, however many tensors share it
            if key not in self._there:
                self._there[key] = storage.nbytes()
                self._change(storage.nbytes())
                weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self._bytes -= self._there.pop(key)


class AllocationMeter(Meter):
    """Meter of all memory that PyTorch allocates and frees on a CPU.

    It does not change the computation, whereas an active dispatch mode makes some operations use other kernels.
    """

    def __enter__(self) -> "AllocationMeter":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def now(self) -> int:
        self._stop()
        self._start()
        return self._bytes

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that were created before."""
        sizes = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
        self._bytes += sum(sizes.values())

    def _start(self) -> None:
        kinds: Any = torch.autograd
        only_memory = (False, True, False, False, False)
        settings = torch._C._profiler._ExperimentalConfig()
        kinds._enable_profiler_legacy(kinds.ProfilerConfig(kinds.ProfilerState.CPU, *only_memory, settings))

    def _stop(self) -> None:
        kinds: Any = torch.autograd
        for events in kinds._disable_profiler_legacy():
            for event in events:
                if event.kind() == "memory_alloc":
                    self._change(event.cpu_memory_usage())


# --- a step ---


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a training step holds."""

    weights: int
    gradients: int
    optimiser: int
    """State of the optimiser between updates."""
    average: int
    """Running average of the weights."""
    kept: int
    """Activations that the forward pass of one piece of the batch keeps for the backward pass."""
    batch: int
    peaks: dict[str, int]
    """Peak of each phase, everything included."""

    @property
    def peak(self) -> int:
        return max(self.peaks.values())

    @property
    def when(self) -> str:
        """Return the phase with the highest peak."""
        return max(self.peaks, key=lambda phase: self.peaks[phase])

    @property
    def lasting(self) -> int:
        """Return the bytes that are held throughout the step."""
        return self.weights + self.optimiser + self.average


@dataclass(frozen=True)
class StepDevice:
    """Device and precision of a step."""

    device: torch.device
    precision: str
    """Precision of matrix products: fp32, bf16 or fp16."""
    stand_in: bool = False
    """Whether to plan for a GPU that this machine does not have, with stand-ins for its kernels."""

    @property
    def fake_device(self) -> torch.device:
        """Return the device of fake tensors."""
        return torch.device("cpu") if self.stand_in or self.device.type != "cuda" else self.device

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        return Precision(self.precision, self.fake_device).autocast()

    def kernels(self) -> Kernels:
        on_gpu = self.device.type == "cuda"
        return Kernels(gpu=self.stand_in, precision=PRECISIONS.get(self.precision) if on_gpu else None)


@dataclass(frozen=True)
class Step:
    """Training step: the model, its examples, the settings and the device."""

    build: Build
    task: Task
    piece: Piece
    settings: TrainingSettings
    where: StepDevice
    pieces: int = 1
    """Number of pieces of this size in a batch."""


@contextlib.contextmanager
def fake_tensors(where: StepDevice) -> Iterator[Kernels]:
    """Create tensors as fake tensors: they have a shape, a type and a device, but no values and almost no memory."""
    without_cudnn = torch.backends.cudnn.flags(enabled=False)  # cuDNN would ask for the addresses of recurrent weights
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with without_cudnn, mode, where.kernels() as kernels, torch.device(where.fake_device):
        yield kernels


def step_memory(step: Step) -> StepMemory:
    """Return the memory of a step, simulated with fake tensors."""
    return _fake_step(step)[0]


def layered_step_memory(step_of: Callable[[int], Step], layers: int) -> StepMemory:
    """Return the memory of a step of a model with equal layers, extrapolated from two models with few layers.

    The bytes held in a pass grow or shrink evenly from layer to layer. The peak is thus near the beginning or the end
    of the pass, where the bytes grow evenly with the number of layers. An update processes all layers at once.
    `step_of` returns the step of a model with the given number of layers.
    """
    (few, phases), (more, longer) = (_fake_step(step_of(count)) for count in (LAYERS, LAYERS + 1))
    steps = layers - LAYERS
    whole = beyond(few, more, steps)
    passes = [
        Phase(one.name, _grown(one.moments, other.moments, steps))
        for one, other in zip(phases, longer, strict=True)
        if one.name != UPDATE
    ]
    return replace(whole, peaks={**peaks_of(passes), UPDATE: whole.peaks[UPDATE]})


def _grown(few: list[int], more: list[int], steps: int) -> list[int]:
    """Extrapolate the first half of the moments from the beginning of a phase, and the second half from its end."""
    half = len(few) // 2
    pairs = [*zip(few[:half], more[:half], strict=True), *zip(few[half:], more[half - len(few) :], strict=True)]
    return [one + steps * (other - one) for one, other in pairs]


def _fake_step(step: Step) -> tuple[StepMemory, list[Phase]]:
    with fake_tensors(step.where):
        return _metered_step(step.build(), replace(step, piece=as_fake(step.piece, step.where)), TensorMeter)


def measure_step_memory(step: Step) -> StepMemory:
    """Return the memory of a step, extrapolated from real steps on a few examples.

    This is for kernels whose kept activations fake tensors do not show.
    """
    gc.collect()  # garbage that is freed during a measured step would count as memory that the step returned
    count = len(step.piece[0])
    sizes = [count] if count <= 2 * FEW_EXAMPLES else [FEW_EXAMPLES, 2 * FEW_EXAMPLES]
    with torch.random.fork_rng(devices=[]):
        model = step.build()
        spread = [torch.linspace(0, count - 1, size).round().long() for size in sizes]
        parts = [replace(step, piece=[tensor[rows] for tensor in step.piece]) for rows in spread]
        needs = [_metered_step(model, part, AllocationMeter)[0] for part in parts]
    return beyond(needs[0], needs[-1], count / FEW_EXAMPLES - 1)


def beyond(one: StepMemory, other: StepMemory, steps: float) -> StepMemory:
    """Return `one` plus `steps` times the difference to `other`."""

    def at(first: int, second: int) -> int:
        return round(first + steps * (second - first))

    names = [field.name for field in fields(StepMemory) if field.name != "peaks"]
    bytes_held = {name: at(getattr(one, name), getattr(other, name)) for name in names}
    return StepMemory(**bytes_held, peaks={phase: at(one.peaks[phase], other.peaks[phase]) for phase in one.peaks})


def _metered_step(
    model: nn.Module, step: Step, meter: type[TensorMeter | AllocationMeter]
) -> tuple[StepMemory, list[Phase]]:
    settings, piece = step.settings, step.piece
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    with meter() as held:
        held.add([*model.parameters(), *model.buffers()])
        weights = held.now
        average = Average(trained_weights(model), settings.average)
        averages = held.now - weights
        optimiser = Optimiser(model, settings)
        for weight in trained:
            weight.grad = torch.zeros_like(weight)
        optimiser.step(0.0)
        optimiser.zero()
        remembered = held.now - weights - averages
        held.add(piece)
        before = held.now
        held.phases.clear()
        for _ in range(min(2, step.pieces)):  # from the second piece on, gradients are already allocated
            held.begin(FORWARD)
            gradients_before = held.now - before
            with step.where.autocast():
                loss = step.task.loss(model.train(), *piece) / len(piece[0])
            if settings.l2:
                loss = loss + l2_penalty(list(decayed(model).values()), settings.l2)
            kept = held.now - before - gradients_before
            held.begin(BACKWARD)
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
        gradients = held.now - before
        held.begin(UPDATE)
        _update(trained, settings, optimiser, average)
    batch = before - weights - averages - remembered
    return StepMemory(weights, gradients, remembered, averages, kept, batch, held.peaks), held.phases


def _update(trained: list[nn.Parameter], settings: TrainingSettings, optimiser: Optimiser, average: Average) -> None:
    gradients = [weight.grad for weight in trained if weight.grad is not None]
    before = [weight.detach().clone() for weight in trained]  # some updates measure how far weights move
    if settings.grad_clip is not None:
        norm = nn.utils.get_total_norm(gradients)
        nn.utils.clip_grads_with_norm_(trained, settings.grad_clip, norm)
    del gradients
    optimiser.step(0.0)
    average.update(0)
    optimiser.zero()
    torch._foreach_sub(before, [weight.detach() for weight in trained])


def count_products(build: Build, task: Task, piece: Piece) -> int | None:
    """Return the multiplications in a forward pass, with attention over all pairs; None if they cannot be counted."""
    where = StepDevice(torch.device("cuda"), "fp32", stand_in=True)
    with fake_tensors(where) as kernels, FlopCounterMode(display=False) as counter, torch.no_grad():
        model = build().eval().requires_grad_(False)  # otherwise the vocabulary loss would also compute its gradient
        try:
            task.loss(model, *as_fake(piece, where))
        except CANNOT:
            return None
    return counter.get_total_flops() // 2 + kernels.products


def as_fake(piece: Piece, where: StepDevice) -> list[Tensor]:
    """Return fake tensors of the same shapes; call this inside `fake_tensors`."""
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=where.fake_device) for tensor in piece]


def resized(piece: Piece, rows: int) -> list[Tensor]:
    """Return meta tensors for `rows` examples of the same shapes."""
    return [torch.empty(rows, *tensor.shape[1:], dtype=tensor.dtype, device="meta") for tensor in piece]


def has_recurrent_layers(model: nn.Module) -> bool:
    return any(isinstance(module, nn.RNNBase) for module in model.modules())
