"""Muon: the iteration makes matrices orthogonal, and the update is the one written out."""

import pytest
import torch

from glassformer.training.update_rules import NEWTON_SCHULZ_ROUNDS, Muon, WeightGroup, orthogonalise
from helpers.support import numbers, same

SHAPES = [(5, 5), (3, 11), (13, 4), (1, 7), (32, 31), (7, 11)]
"""Some are wide or high enough that the rounds go over the square alone."""


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_go_near_one_and_their_vectors_stay(shape: tuple[int, int]) -> None:
    matrix = numbers(*shape, seed=sum(shape))
    u, before, v = torch.linalg.svd(matrix, full_matrices=False)
    out = orthogonalise(matrix[None])[0]
    turned = u.T @ out @ v.T  # diagonal, if the vectors are the same
    values = turned.diagonal()
    same(turned, torch.diag(values))
    usual = before > 0.02 * before.norm()  # smaller ones need more rounds
    assert usual.sum() >= 0.8 * len(usual)
    assert ((values > 0.67) & (values < 1.14))[usual].all(), values
    assert (values > 0).all()


def test_the_scale_of_the_gradient_has_no_say() -> None:
    matrix = numbers(1, 6, 4)
    same(orthogonalise(1000 * matrix), orthogonalise(matrix), 1e-5)
    assert torch.equal(orthogonalise(torch.zeros(1, 3, 4)), torch.zeros(1, 3, 4))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_is_each_alone(shape: tuple[int, int]) -> None:
    matrices = numbers(3, *shape, dtype=torch.float32)
    together = orthogonalise(matrices)
    assert together.dtype == matrices.dtype
    for number in range(3):
        same(together[number], orthogonalise(matrices[number : number + 1])[0], 1e-6)


def test_a_tall_matrix_is_a_wide_one_turned() -> None:
    matrix = numbers(1, 9, 4)
    same(orthogonalise(matrix.mT), orthogonalise(matrix).mT)


@pytest.mark.parametrize("rest", [1.0, 0.1, 0.003])
def test_one_direction_that_dominates_is_not_overshot(rest: float) -> None:
    u, v = (torch.linalg.qr(numbers(9, 9, seed=seed))[0] for seed in (1, 2))
    matrix = u @ torch.diag(torch.tensor([1.0, *[rest] * 8], dtype=u.dtype)) @ v
    values = torch.linalg.svdvals(orthogonalise(matrix[None]))
    assert ((values > 0.67) & (values < 1.14)).all(), values


def test_update_written_out() -> None:
    """M ← μM + (1−μ)G;  W ← (1 − ηλ)W − η · 0.2 √max(r, c) · orthogonal((1−μ)G + μM)."""
    shapes = [(4, 6), (6, 4), (4, 6), (3, 2, 5)]  # two alike, and a convolution's: out × in × kernel
    weights = [torch.nn.Parameter(numbers(*shape, seed=n)) for n, shape in enumerate(shapes)]
    unused = torch.nn.Parameter(numbers(4, 6, seed=9))
    expected = [weight.detach().clone() for weight in weights]
    averages = [torch.zeros_like(weight) for weight in expected]
    lr, momentum, decay = 0.07, 0.9, 0.4
    optimiser = Muon([WeightGroup([*weights, unused], lr, momentum=momentum, weight_decay=decay)])
    for step in range(3):
        for number, weight in enumerate(weights):
            gradient = numbers(*weight.shape, seed=100 * step + number)
            weight.grad = gradient.clone()
            averages[number] = momentum * averages[number] + (1 - momentum) * gradient
            ahead = ((1 - momentum) * gradient + momentum * averages[number]).flatten(1)
            update = orthogonalise(ahead[None])[0].view_as(gradient)
            size = 0.2 * max(ahead.shape) ** 0.5
            expected[number] = (1 - lr * decay) * expected[number] - lr * size * update
        optimiser.step()
        for weight, value in zip(weights, expected, strict=True):
            same(weight, value)
    assert torch.equal(unused, numbers(4, 6, seed=9))


@pytest.mark.parametrize("shape", SHAPES)
def test_rounds_written_out(shape: tuple[int, int]) -> None:
    """Singular values alone change, each by itself: x ← ax + bx³ + cx⁵."""
    u, values, v = torch.linalg.svd(numbers(*shape), full_matrices=False)
    x = values / values.norm()
    for a, b, c in NEWTON_SCHULZ_ROUNDS:
        x = a * x + b * x**3 + c * x**5
    same(orthogonalise(((u * values) @ v)[None])[0], (u * x) @ v, 1e-9)
