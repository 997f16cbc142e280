import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.bricks.attention import average_by_similarity
from glassformer.bricks.pooling import AttentionPool, make_pool
from glassformer.config.model_section import POOLS
from helpers.support import Seen, differs, numbers, ready, same, softmax

B, T, D = 4, 7, 6
LENGTHS = (T, 3, 1, 0)
every_pool = pytest.mark.parametrize(
    ("kind", "both_ways"), [*((kind, False) for kind in POOLS), ("last", True), ("mean", True)]
)


def ragged(lengths: tuple[int, ...] = LENGTHS) -> Tensor:
    return torch.arange(T) < torch.tensor(lengths)[:, None]


def written_out(kind: str, both_ways: bool, x: np.ndarray, query: np.ndarray | None) -> np.ndarray:
    """One text of its real tokens only."""
    if kind == "flatten":
        return np.concatenate([x.reshape(-1), np.zeros((T - len(x)) * D)])
    if len(x) == 0:
        return np.zeros(x.shape[1])
    if kind == "attention":
        assert query is not None
        return sum(weight * row for weight, row in zip(softmax(x @ query), x, strict=True))
    if kind == "last" and both_ways:
        half = x.shape[1] // 2
        return np.concatenate([x[len(x) - 1, :half], x[0, half:]])
    return {
        "last": lambda: x[len(x) - 1],
        "first": lambda: x[0],
        "mean": lambda: sum(x) / len(x),
        "max": lambda: np.array([max(column) for column in x.T]),
        "sum": lambda: sum(x),
    }[kind]()


@every_pool
def test_written_out(kind: str, both_ways: bool) -> None:
    pool = ready(make_pool(kind, width=D, both_ways=both_ways))
    x = numbers(B, T, D) - 2  # mostly below 0: an empty row's 0 must not win the maximum
    x[~ragged()] = 100.0
    query = pool.query.detach().numpy() if isinstance(pool, AttentionPool) else None
    rows = zip(x.numpy(), LENGTHS, strict=True)
    expected = np.stack([written_out(kind, both_ways, row[:length], query) for row, length in rows])
    same(pool(x, ragged()), expected)
    same(pool(x), pool(x, torch.ones(B, T, dtype=torch.bool)))


@every_pool
def test_gradients_reach_real_tokens_only(kind: str, both_ways: bool) -> None:
    pool = ready(make_pool(kind, width=D, both_ways=both_ways))
    x = numbers(B, T, D).requires_grad_()
    pool(x, ragged()).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad[~ragged()] == 0).all()
    assert all((x.grad[row] != 0).any() for row, length in enumerate(LENGTHS) if length)
    for name, weight in pool.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert (weight.grad != 0).any(), name


def test_attention_starts_as_the_mean() -> None:
    x = numbers(B, T, D)
    same(make_pool("attention", width=D).double()(x, ragged()), make_pool("mean", width=D)(x, ragged()))


def test_attention_is_the_average_by_similarity_to_the_query() -> None:
    pool = ready(AttentionPool(width=D))
    x = numbers(B, T, D)
    with Seen(weights=pool.weights) as seen:
        pooled = pool(x, ragged())
    expected, weights = average_by_similarity(pool.query.expand(B, -1), x, ragged())
    same(pooled, expected)
    same(seen["weights"], weights)
    same(seen["weights"].sum(1), [1, 1, 1, 0])


def test_what_passes_the_tap_is_what_is_used() -> None:
    pool = ready(AttentionPool(width=D))
    x = numbers(B, T, D)
    only_second = torch.eye(T, dtype=x.dtype)[1].expand(B, -1)
    hook = pool.weights.register_forward_hook(lambda module, inputs, output: only_second)
    same(pool(x), x[:, 1])
    hook.remove()
    assert differs(pool(x), x[:, 1])
