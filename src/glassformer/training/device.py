"""Choice of the device, the precision and compilation."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bricks.kernels.gpu import kernels_work
from glassformer.config.errors import SettingError, first_line
from glassformer.config.messages import say
from glassformer.config.sections import TrainingSettings
from glassformer.data.wording import counted
from glassformer.tasks.base import Task

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device with this name; `auto`: a CUDA GPU if there is one, then Apple's, else the CPU."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    available = {"cuda": gpus > 0, "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, is_there in available.items() if is_there)
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingError(f"'{name}' is no device; one of auto, cpu, cuda, cuda:1, mps") from None
    if device.type == "cuda" and gpus:  # Slurm may show each task only its own GPU
        device = torch.device("cuda", local_rank % gpus if device.index is None else device.index)
    if not available.get(device.type) or (device.index or 0) >= max(1, gpus):
        raise SettingError(f"device '{name}' is not available: torch finds {counted(gpus, 'CUDA GPU')} here")
    return device


def is_cpu(name: str) -> bool:
    """Return whether a value of `training.device` means the CPU; a missing GPU is not an error here."""
    return name == "cpu" or (name == "auto" and choose_device(name).type == "cpu")


@dataclass(frozen=True)
class Precision:
    """Precision of matrix products; weights, sums and the softmax use float32."""

    name: str
    device: torch.device

    def autocast(self) -> AbstractContextManager[object]:
        if self.name == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, PRECISIONS[self.name])


def cpu_has_bf16() -> bool:
    """Return whether torch can compute in bf16 on this CPU at all, natively or emulated with AVX-512."""
    mkldnn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def choose_precision(name: str, device: torch.device) -> Precision:
    """Return the precision of `training.precision` on a device; raise `SettingError` for fp16 on a CPU."""
    if name == "auto":
        name = "fp32"
        if device.type == "cuda":
            name = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if name == "fp16" and device.type == "cpu":
        raise SettingError("training.precision fp16 is for GPUs; on a CPU use fp32 or bf16")
    return Precision(name, device)


COMPILE_PAYS_AFTER, TUNING_PAYS_AFTER = 1_000, 20_000
"""Numbers of updates after which compiling, and tuning every kernel, usually have saved the minutes they cost."""


def choose_compile(settings: TrainingSettings, device: torch.device, steps: int | None, *, steady: bool = True) -> str:
    """Return off, on or tuned for `training.compile`.

    `auto` compiles only on CUDA, if the run is long enough (a minute counts as 200 updates) and the shapes of batches
    are `steady`.
    """
    if settings.compile != "auto":
        return settings.compile
    updates = steps if steps is not None else 200 * (settings.minutes or 0)
    if device.type != "cuda" or updates < COMPILE_PAYS_AFTER or not steady:
        return "off"
    return "tuned" if updates >= TUNING_PAYS_AFTER else "on"


SUMS_OVER_TOKENS = "triton.mix_order_reduction"
"""Inductor option that sums a norm's gradient in the kernel that computes it. It costs 2 % of a small model's step and
0.6 % of GPT-2's, because partial sums are then added one by one.
"""


class StepLoss(nn.Module):
    """Task and model as one module, so that several processes can share the gradients of its loss.

    It is compiled on request, and runs uncompiled if compiling fails.
    """

    def __init__(self, model: nn.Module, task: Task, how: str) -> None:
        """Combine the model and the task, and compile the loss unless `how` is off; `how`: see `choose_compile`."""
        super().__init__()
        self.model = model
        self.task = task
        self.how = how
        self.ran = False
        self.compute: Callable[..., Tensor] = self.eager
        if how != "off":
            if torch.cuda.is_available():
                kernels_work()  # this test cannot run during compilation
            options: dict[str, Any] = {"coordinate_descent_tuning": how == "tuned"}
            if SUMS_OVER_TOKENS in torch._inductor.list_options():
                options[SUMS_OVER_TOKENS] = False
            self.compute = torch.compile(self.eager, dynamic=not task.steady, options=options)

    def eager(self, *tensors: Tensor) -> Tensor:
        return self.task.loss(self.model, *tensors)

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.compute(*tensors)

    def through(self, stepper: nn.Module, tensors: tuple[Tensor, ...]) -> Tensor:
        """Return the loss computed by `stepper`, which contains this module; retry uncompiled if compiling fails."""
        try:
            loss: Tensor = stepper(*tensors)
        except Exception as error:
            if self.how == "off" or self.ran or isinstance(error, torch.OutOfMemoryError):
                raise
            say(f"torch.compile failed ({first_line(error)[:120]}); going on without it")
            self.how, self.compute = "off", self.eager
            loss = stepper(*tensors)
        self.ran = True
        return loss
