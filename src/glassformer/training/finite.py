"""The loss of a step as it is read; and where a number stops being finite, which tensor was first."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

MOST_ROWS = 64
"""Examples of a batch that are tried one by one."""


class LossWatch:
    """Sums the losses of a step's pieces.

    On a GPU the sum is copied out as soon as the last forward pass is done, while the backward pass runs: reading it
    costs nothing, and a loss that is not finite is known before the weights are touched.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._total = torch.zeros((), device=device)
        if self._cuda:
            self._copy = torch.zeros((), pin_memory=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def add(self, loss: Tensor, *, first: bool, last: bool) -> None:
        detached = loss.detach().float()
        self._total = detached if first else self._total + detached
        if last and self._cuda:
            self._copy.copy_(self._total, non_blocking=True)
            self._copied.record()

    def read(self) -> float:
        if not self._cuda:
            return float(self._total)
        self._copied.synchronize()
        return float(self._copy)


def first_not_finite(model: nn.Module, compute: Callable[[], Tensor]) -> str | None:
    """The first tensor that is not finite, by name: a parameter, a module's output, the loss, or a gradient.

    Gradients are made from the loss back: the first of them is that of the last module.
    """
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            return f"parameter {name}"
    culprits: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if not culprits and isinstance(output, Tensor) and not torch.isfinite(output).all():
                culprits.append(f"output of {name}")

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        loss = compute()
        if not culprits and not torch.isfinite(loss):
            culprits.append("the loss")
        if not culprits:
            model.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            spoiled = [
                name
                for name, weight in model.named_parameters()
                if weight.grad is not None and not torch.isfinite(weight.grad).all()
            ]
            last = [name for name in spoiled if name.rpartition(".")[0] == spoiled[-1].rpartition(".")[0]]
            culprits += [f"gradient of {name}" for name in last]
    finally:
        for hook in hooks:
            hook.remove()
    return culprits[0] if culprits else None


def rows_not_finite(model: nn.Module, size: int, compute: Callable[[int], Tensor]) -> tuple[int, ...]:
    """The examples that lead to a loss or a gradient that is not finite, each alone and without dropout.

    `compute` gives the loss of one. The gradients that were there are lost.
    """
    rows = []
    model.eval()
    for row in range(min(size, MOST_ROWS)):
        model.zero_grad(set_to_none=True)
        with torch.backends.cudnn.flags(enabled=False):  # its recurrent layers have gradients in training alone
            loss = compute(row)
            if torch.isfinite(loss) and loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        if not torch.isfinite(loss) or not all(torch.isfinite(gradient).all() for gradient in gradients):
            rows.append(row)
    model.zero_grad(set_to_none=True)
    return tuple(rows)
