import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassformer.bricks.convolution import ConvolutionStack, Patches, convolve_written_out, max_pool_written_out
from helpers.support import numbers, ready, same

W, H, N, M = 11, 7, 3, 5


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """One number after another."""
    kernel = len(weight)
    wide, high = ((length + 2 * padding - kernel) // stride + 1 for length in x.shape[:2])
    y = np.zeros((wide, high, weight.shape[3])) + bias
    for v, u, i, j in np.ndindex(wide, high, kernel, kernel):
        across, down = v * stride + i - padding, u * stride + j - padding
        if 0 <= across < x.shape[0] and 0 <= down < x.shape[1]:
            for n, m in np.ndindex(*weight.shape[2:]):
                y[v, u, m] += x[across, down, n] * weight[i, j, n, m]
    return y


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_convolution_formula(kernel: int, stride: int, padding: int) -> None:
    x, weight, bias = numbers(W, H, N), numbers(kernel, kernel, N, M, seed=1), numbers(M, seed=2)
    y = convolve_written_out(x, weight, bias, stride=stride, padding=padding)
    same(y, convolved(x.numpy(), weight.numpy(), bias.numpy(), stride, padding))
    fast = F.conv2d(x.permute(2, 0, 1)[None], weight.permute(3, 2, 0, 1), bias, stride, padding)
    same(y, fast[0].permute(1, 2, 0))


def test_convolution_without_bias() -> None:
    x, weight = numbers(W, H, N), numbers(3, 3, N, M, seed=1)
    same(convolve_written_out(x, weight), convolve_written_out(x, weight, torch.zeros(M).double()))


@pytest.mark.parametrize("stride", [None, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_max_pooling_formula(size: int, stride: int | None) -> None:
    x = numbers(W, H, N) - 10  # all below zero: a zero that slipped in would win
    step = stride or size
    y = max_pool_written_out(x, size=size, stride=stride)
    expected = np.zeros(((W - size) // step + 1, (H - size) // step + 1, N))
    for v, u, n in np.ndindex(expected.shape):
        expected[v, u, n] = x.numpy()[v * step : v * step + size, u * step : u * step + size, n].max()
    same(y, expected)
    same(y, F.max_pool2d(x.permute(2, 0, 1)[None], size, stride)[0].permute(1, 2, 0))


def test_max_pooling_takes_patches_of_2_by_2() -> None:
    assert max_pool_written_out(numbers(W, H, N)).shape == (5, 3, N)


@pytest.mark.parametrize(
    ("size", "patch", "grid"), [((6, 10), 2, (3, 5)), ((7, 11), 3, (3, 4)), ((5, 2), 7, (1, 1)), ((3, 5), 1, (3, 5))]
)
def test_patches_are_one_linear_map(size: tuple[int, int], patch: int, grid: tuple[int, int]) -> None:
    brick = ready(Patches(channels=N, size=size, patch=patch, width=M))
    x = numbers(2, N, *size)
    padded = np.zeros((2, N, grid[0] * patch, grid[1] * patch))
    padded[:, :, : size[0], : size[1]] = x.numpy()
    flat = nn.Linear(N * patch * patch, M).double()
    flat.load_state_dict({"weight": brick.map.weight.flatten(1), "bias": brick.map.bias})
    squares = [
        padded[:, :, row * patch : (row + 1) * patch, column * patch : (column + 1) * patch].reshape(2, -1)
        for row in range(grid[0])
        for column in range(grid[1])
    ]
    assert brick.cells == len(squares)
    same(brick(x), flat(torch.tensor(np.stack(squares, 1))))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_stack_formula(kernel: int) -> None:
    """Zeros around the image, the odd one of an even kernel at the bottom and right; row by row."""
    brick = ready(ConvolutionStack(channels=N, size=(9, 13), widths=[5, 7], kernel=kernel))
    x = numbers(2, N, 9, 13)
    outputs = []
    for image in x:
        y = image.permute(1, 2, 0)  # height first, as the weights then have it
        for layer in brick.convolutions:
            before, after = (kernel - 1) // 2, kernel - 1 - (kernel - 1) // 2
            y = F.pad(y, (0, 0, before, after, before, after))
            y = convolve_written_out(y, layer.weight.permute(2, 3, 1, 0), layer.bias)
            y = max_pool_written_out(torch.where(y > 0, y, 0))
        outputs.append([y[row, column] for row in range(2) for column in range(3)])
    assert brick.cells == 6
    same(brick(x), torch.stack([torch.stack(cells) for cells in outputs]))


@pytest.mark.parametrize("padding", [0, 1, 3])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 3), (4, 2)])
def test_stack_with_stride_and_padding(kernel: int, stride: int, padding: int) -> None:
    size = (23, 29)
    brick = ready(ConvolutionStack(channels=N, size=size, widths=[5, 7], kernel=kernel, stride=stride, padding=padding))
    x = numbers(1, N, *size)
    y = x[0].permute(1, 2, 0)
    for layer, pooled in zip(brick.convolutions, brick.pooled, strict=True):
        y = convolve_written_out(y, layer.weight.permute(2, 3, 1, 0), layer.bias, stride=stride, padding=padding)
        y = torch.where(y > 0, y, 0)
        y = max_pool_written_out(y) if pooled else y
    assert brick.grid == tuple(y.shape[:2])
    same(brick(x)[0], y.flatten(0, 1))


def test_stride_alone_takes_every_second_row_and_column() -> None:
    whole, every_second = (ConvolutionStack(channels=N, size=(7, 5), widths=[M], stride=stride) for stride in (1, 2))
    every_second.load_state_dict(whole.state_dict())
    x = numbers(2, N, 7, 5).float()
    whole.pooled = every_second.pooled = [False]
    all_cells = whole(x).unflatten(1, (7, 5))
    same(every_second(x).unflatten(1, (4, 3)), all_cells[:, ::2, ::2], 1e-5)


def test_an_image_that_a_convolution_does_not_fit_into() -> None:
    with pytest.raises(ValueError, match="layer 1 reads 2×2, too small for a kernel of 5"):
        ConvolutionStack(channels=1, size=(8, 8), widths=[3, 3], kernel=5, padding=0)


@pytest.mark.parametrize(
    ("size", "layers", "grid", "pooled"),
    [
        ((28, 28), 4, (3, 3), [True, True, True, False]),
        ((8, 8), 2, (2, 2), [True, True]),
        ((3, 16), 2, (3, 16), [False, False]),
        ((16, 4), 3, (8, 2), [True, False, False]),
        ((1, 1), 1, (1, 1), [False]),
    ],
)
def test_the_grid_stays_at_2_by_2_or_more(
    size: tuple[int, int], layers: int, grid: tuple[int, int], pooled: list[bool]
) -> None:
    brick = ConvolutionStack(channels=1, size=size, widths=[M] * layers)
    assert brick.cells == grid[0] * grid[1]
    assert brick.pooled == pooled
    assert brick(torch.zeros(2, 1, *size)).shape == (2, brick.cells, M)


def test_stack_without_bias() -> None:
    brick = ConvolutionStack(channels=1, size=(8, 8), widths=[3, 5], bias=False)
    assert [layer.bias for layer in brick.convolutions] == [None, None]
    assert not brick(torch.zeros(1, 1, 8, 8)).any()
