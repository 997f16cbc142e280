"""What a CPU learns through gives the numbers and gradients that torch derives from the formula."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from glassformer.bricks.attention import Attention
from glassformer.bricks.kernels import cpu as cpu_kernels
from glassformer.bricks.norm import RMSNorm, rms_norm
from glassformer.bricks.positions import Rotary, rotate
from helpers.support import numbers, randomise, same

B, HEADS, T, E = 2, 3, 5, 6
PLACES = {
    "tokens": lambda: numbers(B, T, E),
    "heads": lambda: numbers(B, HEADS, T, E),
    "heads side by side": lambda: numbers(B, T, 2 * HEADS * E)[..., : HEADS * E].view(B, T, HEADS, E).transpose(1, 2),
}


def gradients(compute: Callable[[Tensor], Tensor], x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    x = x.detach().requires_grad_()
    out = compute(x)
    assert out.shape == x.shape
    return out.detach(), *torch.autograd.grad(out, (x, *weights), numbers(*x.shape, seed=5))


@pytest.mark.parametrize("scale", [1e-4, 1.0])
@pytest.mark.parametrize("where", PLACES)
def test_rms_norm(where: str, scale: float) -> None:
    norm = randomise(RMSNorm(E, eps=1e-6).double())
    x = scale * PLACES[where]()
    assert cpu_kernels.applies_to(x.clone().requires_grad_())
    theirs = gradients(lambda x: rms_norm(x, norm.weight), x, norm.weight)
    for ours, expected in zip(gradients(norm, x, norm.weight), theirs, strict=True):
        same(ours, expected)
    same(norm(x), theirs[0])  # with nothing to learn, torch's own


@pytest.mark.parametrize("index", [torch.arange(T), torch.arange(B * T).view(B, T) % 7], ids=["all alike", "each row"])
@pytest.mark.parametrize("where", ["heads", "heads side by side"])
def test_rotation(where: str, index: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    x, rotation = PLACES[where](), Rotary(head_width=E)(index)
    ours = gradients(lambda x: rotate(x, rotation), x)
    monkeypatch.setattr(cpu_kernels, "applies_to", lambda x: False)
    for one, expected in zip(ours, gradients(lambda x: rotate(x, rotation), x), strict=True):
        same(one, expected)


@pytest.mark.parametrize("index", [torch.arange(T), torch.arange(B * T).view(B, T) % 7], ids=["all alike", "each row"])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_heads_normed_and_turned_at_once(kv_heads: int, index: Tensor) -> None:
    attend = randomise(Attention(width=11, heads=HEADS, head_width=E, kv_heads=kv_heads, qk_norm=True).double())
    rotation = Rotary(head_width=E)(index)

    def run() -> tuple[Tensor, ...]:
        x = numbers(B, T, 11).requires_grad_()
        out = attend(x, rotation=rotation)
        return out, *torch.autograd.grad(out, (x, *attend.parameters()), numbers(*out.shape, seed=5))

    at_once = run()
    assert attend.query_norm is not None
    shapes: list[torch.Size] = []
    attend.query_norm.register_forward_hook(lambda norm, args, out: shapes.append(out.shape))
    one_by_one = run()
    assert torch.equal(at_once[0], one_by_one[0])
    for one, expected in zip(at_once, one_by_one, strict=True):
        same(one, expected)
    assert shapes == [(B, HEADS, T, E)]  # one who looks at a norm sees what it gives


def test_only_where_a_gradient_is_made_in_full_precision() -> None:
    x = numbers(2, 3, dtype=torch.float32).requires_grad_()
    assert cpu_kernels.applies_to(x)
    assert not cpu_kernels.applies_to(x.detach())
    assert not cpu_kernels.applies_to(x.bfloat16())
    assert not cpu_kernels.applies_to(x.to("meta"))
    with torch.no_grad():
        assert not cpu_kernels.applies_to(x)
