"""Convolution: the same small window of weights slides along a text or over an image.

An image becomes a sequence: each patch is a token, or convolutions and max pooling make a small grid of tokens.
`Patches` and `ConvolutionStack` use the fast kernels; `convolve_written_out` and `max_pool_written_out` are the
formulas of the lectures for the same computations, on one image of W×H×n.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Mask, Vectors
from glassformer.bricks.tap import Brick, HiddenUnits, record_output


class Convolution(Brick, nn.Module):
    """Convolution over tokens: y_t = Σ_i W_i x_(t + i·dilation − offset) + b.

    The window ends at t if causal and is centred at t otherwise. Inputs beyond the ends and at padding are zeros.
    """

    def __init__(
        self, *, width: int, out: int, kernel: int, dilation: int = 1, causal: bool = True, bias: bool = True
    ) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        """Number of tokens besides its own that an output reads."""
        self.before = self.reach if causal else self.reach // 2
        self.slide = nn.Conv1d(width, out, kernel, dilation=dilation, bias=bias)

    def forward(self, x: Vectors, mask: Mask = None) -> Float[Tensor, "B T e"]:
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return self.inside(F.pad(x, (0, 0, self.before, self.reach - self.before)))

    def extend(
        self, x: Vectors, recent: Float[Tensor, "B reach d"], mask: Mask = None
    ) -> tuple[Float[Tensor, "B T e"], Float[Tensor, "B reach d"]]:
        """Return the outputs for further inputs, and the inputs that the next outputs will read."""
        joined = torch.cat([recent.to(x.dtype), x], 1)
        if mask is None:
            return self.inside(joined), joined[:, x.shape[1] :]
        places = mask.sum(1, keepdim=True) + torch.arange(self.reach, device=x.device)
        return self.inside(joined), joined.gather(1, places.unsqueeze(-1).expand(-1, -1, joined.shape[-1]))

    def inside(self, x: Float[Tensor, "B S d"]) -> Float[Tensor, "B T e"]:
        """Return the outputs whose whole window is inside: `reach` fewer than inputs."""
        return self.slide(x.transpose(1, 2)).transpose(1, 2)


# --- images ---


def convolve_written_out(
    x: Float[Tensor, "W H n"],
    weight: Float[Tensor, "K K n m"],
    bias: Float[Tensor, "m"] | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
) -> Float[Tensor, "V U m"]:
    """Return y_vu = Σ_ij W_ijᵀ x_(v·stride + i, u·stride + j) + b, with `padding` zeros on every side of x."""
    kernel = weight.shape[0]
    x = F.pad(x, (0, 0, padding, padding, padding, padding))
    across, down = ((length - kernel) // stride + 1 for length in x.shape[:2])
    y = x.new_zeros(across, down, weight.shape[3])
    for i, j in itertools.product(range(kernel), repeat=2):
        y = y + x[i : i + across * stride : stride, j : j + down * stride : stride] @ weight[i, j]
    return y if bias is None else y + bias


def max_pool_written_out(
    x: Float[Tensor, "W H n"], *, size: int = 2, stride: int | None = None
) -> Float[Tensor, "V U n"]:
    """Return y_vu = max_ij x_(v·stride + i, u·stride + j) per channel; `stride` defaults to `size`."""
    stride = stride or size
    across, down = ((length - size) // stride + 1 for length in x.shape[:2])
    y = x.new_full((across, down, x.shape[2]), -torch.inf)
    for i, j in itertools.product(range(size), repeat=2):
        y = torch.maximum(y, x[i : i + across * stride : stride, j : j + down * stride : stride])
    return y


class Patches(Brick, nn.Module):
    """Square patches of an image, row by row, each mapped to a vector by the same linear map.

    Patches that extend beyond the image are filled with zeros.
    """

    record = record_output

    def __init__(self, *, channels: int, size: tuple[int, int], patch: int, width: int) -> None:
        super().__init__()
        height, wide = size
        rows, columns = math.ceil(height / patch), math.ceil(wide / patch)
        self.grid = (rows, columns)
        self.cells = rows * columns
        """Number of tokens per image."""
        self.side, self.corner = patch, 0
        self.missing = (rows * patch - height, columns * patch - wide)
        """Rows and columns of zeros at the bottom and at the right."""
        self.map = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Vectors:
        below, right = self.missing
        return as_tokens(self.map(F.pad(x, (0, right, 0, below))))


class ConvolutionStack(Brick, nn.Module):
    """Layers of convolution, ReLU and 2×2 max pooling; each cell of the last grid is a token, row by row.

    With `padding` zeros on every side, n rows become (n + 2·padding − kernel) // stride + 1. Without `padding`, the
    zeros keep the grid's size at stride 1. Pooling halves the grid. It is omitted where fewer than 2 rows or columns
    would remain.
    """

    record = record_output

    def __init__(
        self,
        *,
        channels: int,
        size: tuple[int, int],
        widths: Sequence[int],
        kernel: int = 3,
        stride: int = 1,
        padding: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        around = (kernel - 1) // 2 if padding is None else padding
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, kernel, stride=stride, padding=around, bias=bias)
            for before, after in itertools.pairwise([channels, *widths])
        )
        self.more = (kernel - 1) % 2 if padding is None else 0
        """Extra zeros at the bottom and right that an even kernel needs to keep the size."""
        self.pooled: list[bool] = []
        """Whether each layer ends with pooling."""
        self.side, self.corner = 1, 0
        """Pixels between neighbouring cells of the last grid, and the pixel of the first cell."""
        rows, columns = size
        for layer in range(len(widths)):
            high, wide = ((n + 2 * around + self.more - kernel) // stride + 1 for n in (rows, columns))
            if min(high, wide) < 1:
                raise ValueError(f"layer {layer} reads {rows}×{columns}, too small for a kernel of {kernel}")
            self.corner += ((kernel - 1) // 2 - around) * self.side
            self.pooled.append(min(high, wide) >= 4)
            halves = 2 if self.pooled[-1] else 1
            self.side *= stride * halves
            rows, columns = high // halves, wide // halves
        self.grid = (rows, columns)
        self.cells = rows * columns
        """Number of tokens per image."""

    def forward(self, x: Float[Tensor, "B C H W"]) -> Vectors:
        for convolution, pooled in zip(self.convolutions, self.pooled, strict=True):
            x = F.relu(convolution(F.pad(x, (0, self.more, 0, self.more)) if self.more else x))
            x = F.max_pool2d(x, 2) if pooled else x
        return as_tokens(x)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate(self.convolutions):
            yield HiddenUnits(f"convolutions.{number}", layer, dim=1)


def as_tokens(grid: Float[Tensor, "B d H W"]) -> Vectors:
    """Return the cells of a grid as tokens, row by row."""
    return grid.flatten(2).transpose(1, 2)
