"""What a GPU learns through by formulas and kernels of its own is what the bricks compute."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.bricks import attention
from glassformer.bricks.attention import Attention
from glassformer.bricks.kernels.gpu import GPUGELU, norm_and_rotate
from glassformer.bricks.norm import rms_norm
from glassformer.bricks.positions import Rotary, Rotation, rotate
from helpers.support import numbers, same

B, T, H, E = 2, 5, 4, 16
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def written_out(packed: Tensor, gains: Tensor, rotation: Rotation, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    heads = packed.unflatten(-1, (-1, E)).transpose(1, 2)
    query, key, value = torch.split(heads, [H, kv_heads, kv_heads], 1)
    query, key = (rotate(rms_norm(x, gain, 1e-6), rotation) for x, gain in zip((query, key), gains, strict=True))
    return query, key, value


@on_a_gpu
@pytest.mark.parametrize("kv_heads", [1, 2, H])
@pytest.mark.parametrize("own_positions", [False, True])
def test_heads_in_one_pass(kv_heads: int, own_positions: bool) -> None:
    dtype = torch.float32
    packed = numbers(B, T, (H + 2 * kv_heads) * E, dtype=dtype).cuda().requires_grad_()
    gains = numbers(2, E, seed=1, dtype=dtype).cuda().requires_grad_()
    angle = (numbers(*([B] if own_positions else []), T, E // 2, seed=2, dtype=dtype) * 6).cuda()
    rotation = Rotation(angle.cos(), angle.sin())
    ours = [part.transpose(1, 2) for part in norm_and_rotate(packed, gains, *rotation, 1e-6, kv_heads)]
    theirs = written_out(packed, gains, rotation, kv_heads)
    weights = [numbers(*part.shape, seed=3, dtype=dtype).cuda() for part in theirs]
    for our, their in zip(ours, theirs, strict=True):
        same(our, their, 1e-5)
    by_ours = torch.autograd.grad(ours, [packed, gains], weights)
    by_theirs = torch.autograd.grad(theirs, [packed, gains], weights)
    for our, their in zip(by_ours, by_theirs, strict=True):
        same(our, their, 1e-4)


@on_a_gpu
def test_compilers_are_told_the_truth_about_it() -> None:
    angle = numbers(T, E // 2, dtype=torch.float32).cuda()
    packed = numbers(B, T, 3 * H * E, dtype=torch.float32).cuda().requires_grad_()
    gains = numbers(2, E, dtype=torch.float32).cuda().requires_grad_()
    torch.library.opcheck(norm_and_rotate, (packed, gains, angle.cos(), angle.sin(), 1e-6, H))


@on_a_gpu
@pytest.mark.parametrize("width", [64, 128])
def test_attention_learns_the_same_in_one_pass(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    brick = Attention(width=width, heads=2, causal=True, qk_norm=True).cuda()
    x = torch.randn(3, 7, width, device="cuda")
    rotation = Rotary(head_width=width // 2).cuda()(torch.arange(7, device="cuda"))
    gradients = []
    for one_pass in (True, False):
        if not one_pass:
            monkeypatch.setattr(attention, "KERNEL_WIDTHS", ())
        out = brick(x, rotation=rotation)
        gradients.append([out, *torch.autograd.grad(out.square().sum(), list(brick.parameters()))])
    for our, their in zip(*gradients, strict=True):
        same(our, their, 1e-4)


def test_gelu() -> None:
    x = torch.linspace(-12, 12, 10_001, requires_grad=True)
    ours, theirs = GPUGELU.apply(x), F.gelu(x.double())
    same(ours.double(), theirs, 1e-6)
    same(*(torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in (ours, theirs)), 1e-6)
