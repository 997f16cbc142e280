"""When a number stops being finite: which tensor was first."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def first_not_finite(model: nn.Module, compute: Callable[[], Tensor]) -> str | None:
    """The first tensor that is not finite, by name: a parameter, a module's output, the loss, or a gradient."""
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            return f"parameter {name}"
    found: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if not found and isinstance(output, Tensor) and not torch.isfinite(output).all():
                found.append(f"output of {name}")

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        loss = compute()
        if not found and not torch.isfinite(loss):
            found.append("the loss")
        if not found:
            model.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            found += [
                f"gradient of {name}"
                for name, weight in model.named_parameters()
                if weight.grad is not None and not torch.isfinite(weight.grad).all()
            ]
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None
