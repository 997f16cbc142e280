import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassformer.bricks.losses import l2_penalty, logistic_loss, softmax_loss, squared_loss
from helpers.support import numbers, same, tokens


def test_squared() -> None:
    y, t = numbers(5, 3), numbers(5, 3, seed=1)
    same(squared_loss(y, t), (y.numpy() - t.numpy()) ** 2)
    same(squared_loss(y, t).mean(), F.mse_loss(y, t))


def test_logistic() -> None:
    s, t = numbers(11, scale=3), tokens(11, vocab=2).double()
    p = 1 / (1 + np.exp(-s.numpy()))
    same(logistic_loss(s, t), np.where(t.numpy() == 1, -np.log(p), -np.log(1 - p)))


def test_logistic_far_from_zero_stays_finite() -> None:
    s = torch.tensor([800.0, -800.0])
    same(logistic_loss(s, torch.tensor([0.0, 1.0])), [800.0, 800.0])
    same(logistic_loss(s, torch.tensor([1.0, 0.0])), [0.0, 0.0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_softmax(smoothing: float) -> None:
    y, t = numbers(5, 3, 7, scale=2), tokens(5, 3, vocab=7)
    expected = F.cross_entropy(y.flatten(0, 1), t.flatten(), reduction="none", label_smoothing=smoothing)
    same(softmax_loss(y, t, smoothing), expected.view(5, 3))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_softmax_written_out(smoothing: float) -> None:
    y, t = numbers(5, 7, scale=2), tokens(5, vocab=7)
    log_p = y.numpy() - np.log(np.exp(y.numpy()).sum(-1, keepdims=True))
    wanted = np.full((5, 7), smoothing / 7)
    wanted[np.arange(5), t.numpy()] += 1 - smoothing
    same(softmax_loss(y, t, smoothing), -(wanted * log_p).sum(-1))


def test_softmax_far_from_zero_stays_finite() -> None:
    same(softmax_loss(torch.tensor([[1000.0, 0.0]]), torch.tensor([1])), [1000.0])


def test_l2_penalty() -> None:
    a, b = numbers(3, 5).requires_grad_(), numbers(7, seed=1)
    penalty = l2_penalty([a, b], 0.3)
    same(penalty, 0.3 * ((a.detach().numpy() ** 2).sum() + (b.numpy() ** 2).sum()))
    penalty.backward()
    same(a.grad, 0.6 * a)
