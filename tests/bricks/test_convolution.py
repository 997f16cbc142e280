import numpy as np
import pytest
import torch
from torch import nn

from glassformer.bricks.convolution import Convolution
from helpers.support import numbers, ready, same

B, T, D, OUT = 2, 13, 3, 5


def written_out(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, dilation: int, causal: bool
) -> np.ndarray:  # fmt: skip
    """y_t = Σ_i W_i x_(t + i·dilation − offset) + b, one number after another."""
    out = np.zeros((*x.shape[:2], weight.shape[0])) + bias
    kernel = weight.shape[2]
    offset = (kernel - 1) * dilation if causal else (kernel - 1) * dilation // 2
    for t in range(x.shape[1]):
        for i in range(kernel):
            source = t + i * dilation - offset
            if 0 <= source < x.shape[1]:
                out[:, t] += x[:, source] @ weight[:, :, i].T
    return out


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_formula(kernel: int, dilation: int, causal: bool) -> None:
    brick = ready(Convolution(width=D, out=OUT, kernel=kernel, dilation=dilation, causal=causal))
    x = numbers(B, T, D)
    weight, bias = brick.slide.weight.detach().numpy(), brick.slide.bias.detach().numpy()
    same(brick(x), written_out(x.numpy(), weight, bias, dilation=dilation, causal=causal))


def test_centred_and_odd_is_torchs_same_padding() -> None:
    brick = ready(Convolution(width=D, out=OUT, kernel=5, dilation=2, causal=False))
    reference = nn.Conv1d(D, OUT, 5, dilation=2, padding="same").double()
    reference.load_state_dict(brick.slide.state_dict())
    x = numbers(B, T, D)
    same(brick(x), reference(x.transpose(1, 2)).transpose(1, 2))


def test_only_where_the_whole_window_lies_inside() -> None:
    brick = ready(Convolution(width=D, out=OUT, kernel=3, dilation=2))
    x = numbers(B, T, D)
    assert brick.reach == 4
    same(brick.inside(x), brick(x)[:, 4:])


@pytest.mark.parametrize("causal", [True, False])
def test_padding_reads_as_zeros(causal: bool) -> None:
    brick = ready(Convolution(width=D, out=OUT, kernel=4, causal=causal))
    x = numbers(B, T, D)
    mask = torch.arange(T) < torch.tensor([T, 6])[:, None]
    x[~mask] = 1e6
    same(brick(x, mask)[1, :6], brick(x[1:, :6])[0])
    same(brick(x, mask)[:1], brick(x[:1]))


def test_bias_can_be_left_out() -> None:
    assert Convolution(width=D, out=OUT, kernel=3, bias=False).slide.bias is None
