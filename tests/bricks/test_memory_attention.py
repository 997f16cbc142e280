import numpy as np
import pytest
import torch

from glassformer.bricks.attention import MemoryAttention
from helpers.support import Seen, differs, numbers, ready, same, softmax

B, T, S, D, M, HIDDEN = 2, 3, 5, 7, 11, 13
KINDS = ["dot", "scaled", "query-key", "bilinear", "additive"]
FREE = KINDS[2:]
"""Kinds that compare vectors of two widths."""


def make(kind: str) -> MemoryAttention:
    return ready(MemoryAttention(width=D, memory_width=M if kind in FREE else D, kind=kind, hidden=HIDDEN))


def written_out(kind: str, weights: dict[str, np.ndarray], q: np.ndarray, m: np.ndarray) -> float:
    if kind == "bilinear":
        return float(q @ weights["bilinear.weight"].T @ m)
    if kind == "query-key":
        return float((weights["of_query.weight"] @ q) @ (weights["of_memory.weight"] @ m)) / np.sqrt(HIDDEN)
    if kind == "additive":
        joint = weights["of_query.weight"] @ q + weights["of_query.bias"] + weights["of_memory.weight"] @ m
        return float(weights["total.weight"][0] @ np.tanh(joint))
    return float(q @ m) / (np.sqrt(D) if kind == "scaled" else 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_formula(kind: str) -> None:
    brick = make(kind)
    weights = {name: value.numpy() for name, value in brick.state_dict().items()}
    query, memory = numbers(B, T, D), numbers(B, S, M if kind in FREE else D, seed=1)
    lengths = [5, 2]
    mask = torch.arange(S) < torch.tensor(lengths)[:, None]
    with Seen(weights=brick.weights) as seen:
        context = brick(query, memory, mask)
    for b, length in enumerate(lengths):
        for t in range(T):
            scores = [written_out(kind, weights, query[b, t].numpy(), memory[b, s].numpy()) for s in range(length)]
            p = softmax(np.array(scores))
            same(seen["weights"][b, t, :length], p)
            assert torch.equal(seen["weights"][b, t, length:], torch.zeros(S - length).double())
            same(context[b, t], p @ memory[b, :length].numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mask_everything_is_seen(kind: str) -> None:
    brick = make(kind)
    query, memory = numbers(B, T, D), numbers(B, S, M if kind in FREE else D, seed=1)
    same(brick(query, memory), brick(query, memory, torch.ones(B, S, dtype=torch.bool)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_made_of_the_memory_once_is_enough(kind: str) -> None:
    brick = make(kind)
    query, memory = numbers(B, T, D), numbers(B, S, M if kind in FREE else D, seed=1)
    keys = brick.project_keys(memory)
    projected = kind in ("query-key", "additive")
    assert (keys is memory) == (not projected)
    same(brick(query, memory, None, keys), brick(query, memory))
    if projected:
        same(keys, memory.numpy() @ brick.of_memory.weight.detach().numpy().T)
    assert differs(brick(query, memory, None, 2 * keys), brick(query, memory))


def test_nothing_to_look_at_gives_zero() -> None:
    brick = make("dot")
    mask = torch.tensor([[True] * S, [False] * S])
    query = numbers(B, T, D).requires_grad_()
    out = brick(query, numbers(B, S, D, seed=1), mask)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    out.sum().backward()
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["dot", "scaled"])
def test_two_widths_cannot_be_compared(kind: str) -> None:
    with pytest.raises(ValueError, match="7 with 11"):
        MemoryAttention(width=D, memory_width=M, kind=kind)
