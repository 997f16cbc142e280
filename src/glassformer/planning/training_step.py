"""One update as the loop makes it, to see what it needs: on real tensors, or on ones that only have a shape."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.utils.flop_counter import FlopCounterMode

from glassformer.bricks.losses import l2_penalty
from glassformer.config.sections import TrainingSettings
from glassformer.planning.kernels import Kernels
from glassformer.planning.memory_meter import AllocationMeter, TensorMeter
from glassformer.tasks.base import Task
from glassformer.training.average import Average
from glassformer.training.device import PRECISIONS, Precision
from glassformer.training.optimiser import Optimiser, decayed

Build = Callable[[], nn.Module]
Piece = Sequence[Tensor]
"""What the loss of some examples needs."""

FEW = 8
"""Examples that real steps are tried on first, and then twice as many."""

CANNOT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
"""What torch says where shapes depend on numbers that are not there."""

FORWARD, BACKWARD, UPDATE = "forward pass", "backward pass", "update"


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a training step holds."""

    weights: int
    gradients: int
    optimiser: int
    """What it remembers between updates."""
    average: int
    """The running average of the weights."""
    kept: int
    """Activations: what the forward pass of one piece of the batch keeps for the backward pass."""
    batch: int
    peaks: dict[str, int]
    """The most that is held at once in each phase, everything counted."""

    @property
    def peak(self) -> int:
        return max(self.peaks.values())

    @property
    def when(self) -> str:
        """The phase that needs most."""
        return max(self.peaks, key=lambda phase: self.peaks[phase])

    @property
    def lasting(self) -> int:
        """What is held all the time."""
        return self.weights + self.optimiser + self.average


@dataclass(frozen=True)
class StepDevice:
    """The device that a step is made on."""

    device: torch.device
    precision: str
    """The precision of matrix products: fp32, bf16 or fp16."""
    stand_in: bool = False
    """A GPU is meant that torch does not find here: its kernels are stood in for."""

    @property
    def fake_device(self) -> torch.device:
        """Where tensors without numbers pretend to be."""
        return torch.device("cpu") if self.stand_in or self.device.type != "cuda" else self.device

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        return Precision(self.precision, self.fake_device).autocast()

    def kernels(self) -> Kernels:
        on_gpu = self.device.type == "cuda"
        return Kernels(gpu=self.stand_in, precision=PRECISIONS.get(self.precision) if on_gpu else None)


@contextlib.contextmanager
def fake_tensors(where: StepDevice) -> Iterator[Kernels]:
    """Tensors made in here have a shape, a type and a device, but no numbers: they cost next to nothing."""
    without_cudnn = torch.backends.cudnn.flags(enabled=False)  # it would ask where in memory recurrent weights lie
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with without_cudnn, mode, where.kernels() as kernels, torch.device(where.fake_device):
        yield kernels


def step_memory(
    build: Build, task: Task, piece: Piece, settings: TrainingSettings, where: StepDevice, *, pieces: int = 1
) -> StepMemory:
    """What a step needs whose batch is computed in so many pieces like this one."""
    with fake_tensors(where):
        return _metered_step(build(), task, as_fake(piece, where), settings, where, pieces, TensorMeter)


def measure_step_memory(
    build: Build, task: Task, piece: Piece, settings: TrainingSettings, where: StepDevice, *, pieces: int = 1
) -> StepMemory:
    """What a step needs, from real steps on some of the examples, for layers whose kernels do not say what they keep.

    What the others need beside these is taken to grow in proportion.
    """
    count = len(piece[0])
    sizes = [count] if count <= 2 * FEW else [FEW, 2 * FEW]
    with torch.random.fork_rng(devices=[]):
        model = build()
        spread = [torch.linspace(0, count - 1, size).round().long() for size in sizes]
        needs = [
            _metered_step(model, task, [tensor[rows] for tensor in piece], settings, where, pieces, AllocationMeter)
            for rows in spread
        ]
    return beyond(needs[0], needs[-1], count / FEW - 1)


def beyond(one: StepMemory, other: StepMemory, steps: float) -> StepMemory:
    """What is as far beyond `one` as so many steps from it to `other`."""

    def at(first: int, second: int) -> int:
        return round(first + steps * (second - first))

    names = [field.name for field in fields(StepMemory) if field.name != "peaks"]
    bytes_held = {name: at(getattr(one, name), getattr(other, name)) for name in names}
    return StepMemory(**bytes_held, peaks={phase: at(one.peaks[phase], other.peaks[phase]) for phase in one.peaks})


def _metered_step(
    model: nn.Module,
    task: Task,
    piece: Piece,
    settings: TrainingSettings,
    where: StepDevice,
    pieces: int,
    meter: type[TensorMeter | AllocationMeter],
) -> StepMemory:
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    with meter() as held:
        held.add([*model.parameters(), *model.buffers()])
        weights = held.now
        average = Average(model, settings.average)
        averages = held.now - weights
        optimiser = Optimiser(model, settings)
        for weight in trained:
            weight.grad = torch.zeros_like(weight)
        optimiser.step(0.0)
        optimiser.zero()
        remembered = held.now - weights - averages
        held.add(piece)
        before = held.now
        held.peaks.clear()
        for _ in range(min(2, pieces)):  # from the second on, all find gradients already there
            held.begin(FORWARD)
            gradients_before = held.now - before
            with where.autocast():
                loss = task.loss(model.train(), *piece) / len(piece[0])
            if settings.l2:
                loss = loss + l2_penalty(list(decayed(model).values()), settings.l2)
            kept = held.now - before - gradients_before
            held.begin(BACKWARD)
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
        gradients = held.now - before
        held.begin(UPDATE)
        _update(trained, settings, optimiser, average)
        peaks = {phase: held.peaks[phase] for phase in (FORWARD, BACKWARD, UPDATE)}
    return StepMemory(weights, gradients, remembered, averages, kept, before - weights - averages - remembered, peaks)


def _update(trained: list[nn.Parameter], settings: TrainingSettings, optimiser: Optimiser, average: Average) -> None:
    gradients = [weight.grad for weight in trained if weight.grad is not None]
    before = [weight.detach().clone() for weight in trained]  # some updates are measured
    if settings.grad_clip is not None:
        norm = nn.utils.get_total_norm(gradients)
        nn.utils.clip_grads_with_norm_(trained, settings.grad_clip, norm)
    del gradients
    optimiser.step(0.0)
    average.update(0)
    optimiser.zero()
    torch._foreach_sub(before, [weight.detach() for weight in trained])


def count_products(build: Build, task: Task, piece: Piece) -> int | None:
    """Multiplications of matrix products in one forward pass, attention with all its pairs; None: not to be counted."""
    where = StepDevice(torch.device("cuda"), "fp32", stand_in=True)
    with fake_tensors(where) as kernels, FlopCounterMode(display=False) as counter, torch.no_grad():
        model = build().eval().requires_grad_(False)  # the vocabulary's loss would make its gradient on the way
        try:
            task.loss(model, *as_fake(piece, where))
        except CANNOT:
            return None
    return counter.get_total_flops() // 2 + kernels.products


def as_fake(piece: Piece, where: StepDevice) -> list[Tensor]:
    """Tensors of the same shapes, inside `fake_tensors`."""
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=where.fake_device) for tensor in piece]


def resized(piece: Piece, rows: int) -> list[Tensor]:
    """Tensors of so many examples, of the piece's shape and without numbers."""
    return [torch.empty(rows, *tensor.shape[1:], dtype=tensor.dtype, device="meta") for tensor in piece]


def has_recurrent_layers(model: nn.Module) -> bool:
    return any(isinstance(module, nn.RNNBase) for module in model.modules())
