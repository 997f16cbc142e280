"""The loss of a step as one module, compiled where that is asked for, and as it stands where compiling fails."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.config.errors import Say
from glassformer.tasks.base import Task


class StepLoss(nn.Module):
    """Task and model as one module, so that several processes can share its gradients."""

    def __init__(self, model: nn.Module, task: Task, how: str) -> None:
        """`how`: off, on, or tuned."""
        super().__init__()
        self.model = model
        self.task = task
        self.how = how
        self.ran = False
        self.compute: Callable[..., Tensor] = self.eager
        if how != "off":
            self.compute = torch.compile(
                self.eager, dynamic=not task.steady, options={"coordinate_descent_tuning": how == "tuned"}
            )

    def eager(self, *tensors: Tensor) -> Tensor:
        return self.task.loss(self.model, *tensors)

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.compute(*tensors)

    def through(self, stepper: nn.Module, tensors: tuple[Tensor, ...], say: Say) -> Tensor:
        """The loss by way of `stepper`, which holds this module. If compiling fails at the first step, without it."""
        try:
            loss: Tensor = stepper(*tensors)
        except Exception as error:
            if self.how == "off" or self.ran or isinstance(error, torch.OutOfMemoryError):
                raise
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            say(f"torch.compile failed ({why[:120]}); going on without it")
            self.how, self.compute = "off", self.eager
            loss = stepper(*tensors)
        self.ran = True
        return loss
