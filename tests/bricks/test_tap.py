import torch

from glassformer.bricks.tap import Tap
from helpers.support import numbers


def test_passes_the_very_tensor_on() -> None:
    x = numbers(2, 3)
    assert Tap()(x) is x


def test_a_hook_sees_the_tensor_and_gradients_pass() -> None:
    tap, seen = Tap(), []
    handle = tap.register_forward_hook(lambda module, inputs, output: seen.append(output))
    x = numbers(2, 3).requires_grad_()
    tap(x).sum().backward()
    handle.remove()
    assert seen[0] is x
    assert torch.equal(x.grad, torch.ones_like(x))
