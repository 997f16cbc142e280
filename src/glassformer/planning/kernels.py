"""Stand-ins for operations that fake tensors do not support, and for kernels of a GPU.

Each stand-in returns tensors of the right shape, keeps as much for the backward pass as the real kernel, and counts
products.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

KEPT: dict[Any, int] = {torch.lstm: 6, torch.gru: 5, torch.rnn_tanh: 1, torch.rnn_relu: 1}
"""Numbers that a GPU's recurrent kernel keeps for the backward pass, per token, layer and element of the state."""


class _Kernel(torch.autograd.Function):
    """Stand-in that returns tensors of given shapes. It keeps inputs, `beside` more numbers and maybe its outputs."""

    @staticmethod
    def forward(
        ctx: Any, shapes: Sequence[Sequence[int]], beside: tuple[int, torch.dtype], outputs: bool, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        outs = tuple(inputs[0].new_empty(tuple(shape)) for shape in shapes)
        size, dtype = beside
        ctx.save_for_backward(*inputs, inputs[0].new_empty(size, dtype=dtype), *(outs if outputs else ()))
        ctx.count = len(inputs)
        return outs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, needed = ctx.saved_tensors[: ctx.count], ctx.needs_input_grad[3:]
        by_inputs = (torch.empty_like(x) if need else None for x, need in zip(inputs, needed, strict=True))
        return None, None, None, *by_inputs


def _kernel(
    inputs: Sequence[Tensor], shapes: Sequence[Sequence[int]], beside: tuple[int, torch.dtype], *, outputs: bool = True
) -> tuple[Tensor, ...]:
    outs: tuple[Tensor, ...] = _Kernel.apply(shapes, beside, outputs, *inputs)  # type: ignore[no-untyped-call]
    return outs


class Kernels(TorchFunctionMode):
    """Redirect calls to the stand-ins while active. `gpu`: also use stand-ins for the kernels of a GPU."""

    def __init__(self, *, gpu: bool = False, precision: torch.dtype | None = None) -> None:
        super().__init__()
        self.precision = precision
        """Precision of matrix products under autocast; None: precision of the tensors."""
        self.products = 0
        """Number of multiplications in the stand-ins."""
        self._stand_ins: dict[Any, Callable[..., Any]] = {
            **{kernel: partial(self._recurrent, kernel) for kernel in KEPT},
            torch._pack_padded_sequence: _packed,
            torch._pad_packed_sequence: _padded,
            Tensor.numpy: lambda x: np.zeros(x.shape, np.int64),
        }
        if gpu:
            self._stand_ins |= {F.scaled_dot_product_attention: self._attend, F.rms_norm: self._rms_norm}
        if gpu and precision is not None:
            self._stand_ins[F.layer_norm] = lambda x, *args, **more: F.layer_norm(x.float(), *args, **more)

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _is_mask(args[1]):
            return _by_mask(*args)
        if func is Tensor.__getitem__ and hasattr(args[0], "texts"):  # RNN and GRU read the first batch size
            return torch.tensor(args[0].texts, device="cpu")
        return self._stand_ins.get(func, func)(*args, **(kwargs or {}))

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, **more: Any) -> Tensor:
        """Replace fused attention, which keeps one number per query instead of T×T weights."""
        inputs = [self._cast(tensor) for tensor in (queries, keys, values)]
        batch, heads, tokens, width = queries.shape
        self.products += batch * heads * tokens * keys.shape[2] * (width + values.shape[3])
        shape = (batch, tokens, heads, values.shape[3])  # the heads of a token are adjacent in memory
        return _kernel(inputs, [shape], (batch * heads * tokens, torch.float32))[0].transpose(1, 2)

    def _rms_norm(self, x: Tensor, shape: Sequence[int], weight: Tensor, eps: float | None = None) -> Tensor:
        """Replace RMS norm, which keeps its inputs and one number per vector."""
        if self.precision is not None:  # autocast computes norms in float32
            x, weight = x.float(), weight.float()
        return _kernel([x, weight], [x.shape], (x.numel() // x.shape[-1], torch.float32), outputs=False)[0]

    def _recurrent(self, func: Any, x: Tensor, *args: Any) -> tuple[Tensor, ...]:
        """Replace a recurrent kernel for all layers and tokens. For packed texts, batch sizes follow the data."""
        hidden, weights = args[1:3] if isinstance(args[2], list) else args[:2]
        _, _, both_ways, *_ = (arg for arg in args if isinstance(arg, bool))  # has_biases, train, bidirectional
        states = [hidden] if isinstance(hidden, Tensor) else list(hidden)
        layers, out = states[0].shape[0], states[0].shape[-1]
        tokens = x.numel() // x.shape[-1]
        self.products += tokens * sum(weight.numel() for weight in weights if weight.dim() == 2)
        inputs = [self._cast(tensor) for tensor in (x, *states, *weights)]
        shapes = [(*x.shape[:-1], out * (1 + both_ways)), *(state.shape for state in states)]
        return _kernel(inputs, shapes, (tokens * layers * states[-1].shape[-1] * KEPT[func], inputs[0].dtype))

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor if self.precision is None else tensor.to(self.precision)


def _packed(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """Pack texts as if all were as long as the longest. The sizes have the batch size as their attribute `texts`."""
    steps = x.transpose(0, 1) if batch_first else x
    sizes = torch.tensor([steps.shape[1]] * steps.shape[0], device="cpu")
    sizes.texts = steps.shape[1]  # type: ignore[attr-defined]
    return steps.flatten(0, 1).contiguous(), sizes


def _padded(data: Tensor, sizes: Tensor, batch_first: bool, *more: Any) -> tuple[Tensor, Tensor]:
    steps = data.view(len(sizes), -1, data.shape[-1])
    lengths = torch.tensor([len(sizes)] * steps.shape[1], device="cpu")
    return steps.transpose(0, 1).contiguous() if batch_first else steps, lengths


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype == torch.bool and index.dim() > 1


def _by_mask(x: Tensor, mask: Tensor, value: Tensor | None = None) -> Tensor | None:
    """Compute x[mask] or x[mask] = value as if the mask were all True."""
    if value is None:
        return x.flatten(0, mask.dim() - 1).clone()
    x.copy_(value.view_as(x))
    return None
