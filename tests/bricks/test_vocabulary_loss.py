import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.bricks.losses import (
    _large_loss_and_gradient,
    _loss_and_gradient,
    vocabulary_loss,
    vocabulary_losses,
)
from helpers.support import numbers, same, tokens

N, D, V = 13, 5, 11


def inputs(n: int = N) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    features = numbers(n, D, dtype=torch.float32, scale=2).requires_grad_()
    weight = numbers(V, D, seed=1, dtype=torch.float32).requires_grad_()
    true = tokens(n, vocab=V, seed=2)
    true[torch.arange(n) % 4 == 2] = -1
    true[torch.arange(n) % 7 == 3] = -100
    return features, weight, true


def reference(features: torch.Tensor, weight: torch.Tensor, true: torch.Tensor, smoothing: float) -> torch.Tensor:
    return F.cross_entropy(
        features @ weight.T, true.clamp(min=-1), ignore_index=-1, reduction="sum", label_smoothing=smoothing
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("at_once", [1, V, 3 * V, 5 * V + 3, N * V - 1, N * V, 10**9])
def test_is_torchs_in_value_and_gradients(at_once: int, smoothing: float) -> None:
    features, weight, true = inputs()
    loss = vocabulary_loss(features, weight, true, smoothing=smoothing, at_once=at_once)
    expected = reference(features, weight, true, smoothing)
    same(loss, expected, 1e-5)
    ours = torch.autograd.grad(3 * loss, [features, weight])  # a factor after it reaches the gradients
    theirs = torch.autograd.grad(3 * expected, [features, weight])
    for our, their in zip(ours, theirs, strict=True):
        same(our, their, 1e-5)
    assert torch.equal(ours[0][true < 0], torch.zeros_like(ours[0][true < 0]))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 17), at_once=st.integers(1, 400))
def test_any_number_of_pieces(n: int, at_once: int) -> None:
    features, weight, true = inputs(n)
    same(
        vocabulary_loss(features, weight, true, smoothing=0.2, at_once=at_once),
        reference(features, weight, true, 0.2),
        1e-5,
    )
    same(vocabulary_losses(features, weight, true, at_once=at_once).sum(), reference(features, weight, true, 0.0), 1e-5)


def test_no_piece_holds_more_scores_than_allowed_by_much(monkeypatch: pytest.MonkeyPatch) -> None:
    features, weight, true = inputs()
    from glassformer.bricks import losses as module

    sizes: list[int] = []
    whole = module._piece

    def spy(part: torch.Tensor, *rest: object, **options: object) -> object:
        sizes.append(part.shape[0])
        return whole(part, *rest, **options)

    monkeypatch.setattr(module, "_piece", spy)
    vocabulary_loss(features, weight, true, at_once=4 * V)
    assert sum(sizes) == N
    assert len(sizes) == math.ceil(N / 4)
    assert max(sizes) <= 4


@pytest.mark.parametrize("at_once", [V, 10**9])
def test_per_position(at_once: int) -> None:
    features, weight, true = inputs()
    losses = vocabulary_losses(features, weight, true, at_once=at_once)
    expected = F.cross_entropy(features @ weight.T, true.clamp(min=-1), ignore_index=-1, reduction="none")
    same(losses, expected, 1e-5)
    assert not losses.requires_grad
    assert torch.equal(losses[true < 0], torch.zeros_like(losses[true < 0]))


def test_nothing_but_ignored_answers() -> None:
    features, weight, _ = inputs()
    loss = vocabulary_loss(features, weight, torch.full((N,), -1))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(features.grad, torch.zeros_like(features))
    assert torch.equal(weight.grad, torch.zeros_like(weight))


def test_no_positions_at_all() -> None:
    features, weight, true = inputs()
    loss = vocabulary_loss(features[:0], weight, true[:0])
    loss.backward()
    assert loss.item() == 0
    assert vocabulary_losses(features[:0], weight, true[:0]).shape == (0,)


@pytest.mark.parametrize("frozen", [0, 1])
def test_one_of_them_may_be_frozen(frozen: int) -> None:
    features, weight, true = inputs()
    learned = [features, weight][1 - frozen]
    [features, weight][frozen].requires_grad_(False)
    (ours,) = torch.autograd.grad(vocabulary_loss(features, weight, true, at_once=3 * V), [learned])
    (theirs,) = torch.autograd.grad(reference(features, weight, true, 0.0), [learned])
    same(ours, theirs, 1e-5)


def test_a_shared_table_gets_both_gradients() -> None:
    """As with tied weights: the same numbers are word vectors and head."""
    _, weight, true = inputs()
    words = tokens(N, vocab=V, seed=3)
    (ours,) = torch.autograd.grad(vocabulary_loss(weight[words], weight, true, at_once=2 * V), [weight])
    (theirs,) = torch.autograd.grad(reference(weight[words], weight, true, 0.0), [weight])
    same(ours, theirs, 1e-5)


def test_large_scores_stay_finite() -> None:
    features, weight, true = inputs()
    loss = vocabulary_loss(features * 1e4, weight, true)
    same(loss, reference(features * 1e4, weight, true, 0.0), 1e-4)


def test_under_autocast_the_softmax_is_in_full_precision() -> None:
    features, weight, true = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = vocabulary_loss(features, weight, true, at_once=3 * V)
    assert loss.dtype == torch.float32
    loss.backward()
    assert features.grad.dtype == weight.grad.dtype == torch.float32
    expected = reference(features, weight, true, 0.0)
    same(loss, expected, 0.02)
    same(weight.grad, torch.autograd.grad(expected, [weight])[0], 0.1)


def test_counting_uniform_scores() -> None:
    """With no preference at all, every answer costs log V."""
    _, weight, true = inputs()
    losses = vocabulary_losses(torch.zeros(N, D), weight.detach(), true)
    same(losses[true >= 0], torch.full_like(losses[true >= 0], math.log(V)), 1e-6)


@pytest.mark.parametrize("at_once", [11, 10**9])
def test_a_bias_is_added_and_learned(at_once: int) -> None:
    features = numbers(N, D).float().requires_grad_()
    weight, bias = numbers(13, D).float().requires_grad_(), numbers(13).float().requires_grad_()
    true = torch.arange(N) % 13
    loss = vocabulary_loss(features, weight, true, bias=bias, at_once=at_once)
    expected = F.cross_entropy(features @ weight.T + bias, true, reduction="sum")
    same(loss, expected, 1e-5)
    ours = torch.autograd.grad(loss, (features, weight, bias))
    for gradient, wanted in zip(ours, torch.autograd.grad(expected, (features, weight, bias)), strict=True):
        same(gradient, wanted, 1e-5)
    same(vocabulary_losses(features, weight, true, bias=bias, at_once=at_once).sum(), expected, 1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.bfloat16, 4e-3)])
def test_a_gpu_has_a_kernel_for_large_vocabularies(smoothing: float, dtype: torch.dtype, within: float) -> None:
    scores = (torch.randn(9, 5001, generator=torch.Generator().manual_seed(0)) * 5).to("cuda", dtype)
    true = torch.tensor([0, 5000, -1, 17, 2047, 2048, 4095, -1, 3], device="cuda")
    wanted = _loss_and_gradient(scores, true, smoothing, gradient=True)
    got = _large_loss_and_gradient(scores, true, smoothing)
    for one, other in zip(got, wanted, strict=True):
        assert other is not None
        torch.testing.assert_close(one, other, atol=within, rtol=within)
