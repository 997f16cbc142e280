import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.bricks.attention import (
    Attention,
    CacheSlots,
    KeyValues,
    Memory,
    attend_written_out,
    attention_weights,
    average_by_similarity,
    masked_softmax,
    visible,
)
from glassformer.bricks.positions import Rotary
from glassformer.config.model_section import SCORES
from helpers.support import Seen, differs, named, numbers, pairwise, ready, same, softmax

B, T, S = 3, 7, 5
MEMORY_WIDTH = 11


def possible(case: dict[str, Any]) -> bool:
    scores = case.get("scores")
    shared_width = scores in ("plain", "shared", "bilinear")
    return not (
        (shared_width and case.get("kv_heads", 6) != 6)
        or (shared_width and case.get("head") == "free")
        or (scores == "bilinear" and case.get("output") is False)
        or (case.get("output") is False and case.get("head") == "free")
        or (case.get("memory") and (case.get("causal") or case.get("rotary")))
    )


OPTIONS = {
    "scores": SCORES,
    "kv_heads": (6, 3, 2, 1),
    "head": ("divided", "free"),
    "causal": (False, True),
    "memory": (False, True),
    "masked": (False, True),
    "rotary": (False, True),
    "qk_norm": (False, True),
    "scale": (True, False),
    "output": (True, False),
    "bias": (False, True),
}
CASES = pairwise(OPTIONS, possible)


class Tried:
    """An attention brick, its inputs, and what the formula gives for them, head by head and token by token."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.heads = case, 6
        scores, query_key = case["scores"], case["scores"] == "query-key"
        self.head_width = 14 if scores == "bilinear" else 4
        self.width = {"bilinear": 14}.get(scores, 24 if case["head"] == "divided" else 13)
        memory_width = (MEMORY_WIDTH if query_key else self.width) if case["memory"] else None
        self.brick = ready(
            Attention(
                width=self.width,
                heads=self.heads,
                head_width=self.head_width,
                kv_heads=case["kv_heads"],
                memory_width=memory_width,
                scores=scores,
                causal=case["causal"],
                scale=case["scale"],
                output=case["output"],
                qk_norm=case["qk_norm"],
                bias=case["bias"],
            )
        )
        self.x = numbers(B, T, self.width)
        keys = S if case["memory"] else T
        self.mask = torch.arange(keys) < torch.tensor([keys, 2, 3])[:, None] if case["masked"] else None
        self.memory = Memory(numbers(B, S, memory_width or 1, seed=1), self.mask) if case["memory"] else None
        self.rotary = Rotary(head_width=self.head_width).double() if case["rotary"] else None
        self.rotation = self.rotary(torch.arange(T)) if self.rotary else None

    def run(self) -> torch.Tensor:
        mask = None if self.memory else self.mask
        out: torch.Tensor = self.brick(self.x, mask, memory=self.memory, rotation=self.rotation)
        return out

    def written_out(self) -> tuple[np.ndarray, np.ndarray]:
        """The result, and the weights B×h×T×S."""
        case, e = self.case, self.head_width
        weights = {name: value.numpy() for name, value in self.brick.state_dict().items()}
        source = self.x if self.memory is None else self.memory.states
        keys = source.shape[1]
        all_weights = np.zeros((B, self.heads, T, keys))
        rows = []
        for b in range(B):
            heads = []
            for head in range(self.heads):
                q, k, v = self._head(head, self.x[b].numpy(), source[b].numpy(), weights)
                if case["qk_norm"]:
                    q = q / np.sqrt((q**2).mean(-1, keepdims=True) + 1e-6) * weights["query_norm.weight"]
                    k = k / np.sqrt((k**2).mean(-1, keepdims=True) + 1e-6) * weights["key_norm.weight"]
                if self.rotary is not None:
                    q, k = self._turn(q), self._turn(k)
                for t in range(T):
                    seen = [s for s in range(keys) if not (case["causal"] and s > t)]
                    seen = [s for s in seen if self.mask is None or self.mask[b, s]]
                    scores = np.array([q[t] @ k[s] for s in seen]) / (math.sqrt(e) if case["scale"] else 1)
                    all_weights[b, head, t, seen] = softmax(scores)
                heads.append(all_weights[b, head] @ v)
            rows.append(np.concatenate(heads, -1))
        out = np.stack(rows)
        if case["output"]:
            out = out @ weights["output.weight"].T + weights.get("output.bias", 0.0)
        return out, all_weights

    def _head(
        self, head: int, x: np.ndarray, source: np.ndarray, weights: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        e, scores = self.head_width, self.case["scores"]
        own = slice(head * e, (head + 1) * e)
        if scores == "plain":
            return x[:, own], source[:, own], source[:, own]
        if scores == "shared":
            u = weights["query.weight"].T[:, own]
            return x @ u, source @ u, source @ u
        if scores == "bilinear":
            return x @ weights["query.weight"].T[:, own], source, source
        group = head // (self.heads // self.case["kv_heads"])
        theirs = slice(group * e, (group + 1) * e)

        def linear(name: str, x: np.ndarray, part: slice) -> np.ndarray:
            bias = weights[f"{name}.bias"][part] if self.case["bias"] else 0.0
            return x @ weights[f"{name}.weight"].T[:, part] + bias

        return linear("query", x, own), linear("key", source, theirs), linear("value", source, theirs)

    def _turn(self, x: np.ndarray) -> np.ndarray:
        half = self.head_width // 2
        frequencies = self.rotary.frequencies.numpy() if self.rotary else np.zeros(half)
        turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * np.arange(len(x))[:, None] * frequencies)
        return np.concatenate([turned.real, turned.imag], -1)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_formula(case: dict[str, Any]) -> None:
    tried = Tried(case)
    same(tried.run(), tried.written_out()[0])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_from_the_taps_by_the_written_out_formula(case: dict[str, Any]) -> None:
    tried = Tried(case)
    brick = tried.brick
    plain = tried.run()
    with Seen(queries=brick.queries, keys=brick.keys, values=brick.values, mixed=brick.mixed) as seen:
        looked_at = tried.run()
    assert torch.equal(looked_at, plain)
    shown = visible(T, seen["keys"].shape[2], tried.mask, causal=case["causal"], device=plain.device)
    weights = attention_weights(seen["queries"], seen["keys"], shown, scale=brick.scale)
    same(weights, tried.written_out()[1])
    mixed = attend_written_out(weights, seen["values"])
    same(mixed, seen["mixed"])

    assert (weights >= 0).all()
    same(weights.sum(-1), torch.ones(B, 6, T))
    if case["causal"]:
        assert torch.equal(weights.triu(1), torch.zeros_like(weights))
    if tried.mask is not None:
        hidden = ~tried.mask[:, None, None, :].expand_as(weights)
        assert torch.equal(weights[hidden], torch.zeros_like(weights[hidden]))


def test_every_option_was_tried_with_every_other() -> None:
    assert len(CASES) < 60
    for scores in SCORES:
        for name in ("causal", "memory", "masked", "rotary", "qk_norm", "scale", "bias"):
            for value in (True, False):
                assert any(case["scores"] == scores and case[name] is value for case in CASES), (scores, name, value)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_is_torchs_multi_head_attention(masked: bool, causal: bool) -> None:
    width, heads = 21, 3
    theirs = ready(nn.MultiheadAttention(width, heads, batch_first=True))
    ours = Attention(width=width, heads=heads, causal=causal, bias=True).double()
    copy_attention(ours, theirs)
    x = numbers(B, T, width)
    mask = torch.arange(T) < torch.tensor([T, 2, 3])[:, None] if masked else None
    future = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
    out, weights = theirs(
        x, x, x, key_padding_mask=None if mask is None else ~mask, attn_mask=future, average_attn_weights=False
    )
    with Seen(queries=ours.queries, keys=ours.keys) as seen:
        same(ours(x, mask), out)
    shown = visible(T, T, mask, causal=causal, device=x.device)
    same(attention_weights(seen["queries"], seen["keys"], shown), weights)


def test_cross_attention_is_torchs() -> None:
    width, heads = 21, 3
    theirs = ready(nn.MultiheadAttention(width, heads, kdim=MEMORY_WIDTH, vdim=MEMORY_WIDTH, batch_first=True))
    ours = Attention(width=width, heads=heads, memory_width=MEMORY_WIDTH, bias=True).double()
    copy_attention(ours, theirs)
    x, states = numbers(B, T, width), numbers(B, S, MEMORY_WIDTH, seed=1)
    mask = torch.arange(S) < torch.tensor([S, 2, 3])[:, None]
    same(ours(x, memory=Memory(states, mask)), theirs(x, states, states, key_padding_mask=~mask)[0])
    same(ours(x, memory=Memory(states)), theirs(x, states, states)[0])


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    matrices = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
    if theirs.in_proj_weight is not None:
        matrices = list(theirs.in_proj_weight.chunk(3))
    with torch.no_grad():
        for mine, matrix, bias in zip(
            (ours.query, ours.key, ours.value), matrices, theirs.in_proj_bias.chunk(3), strict=True
        ):
            mine.weight.copy_(matrix)
            mine.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())


def test_shapes_of_the_matrices() -> None:
    brick = Attention(width=13, heads=6, head_width=4, kv_heads=2, memory_width=11)
    assert brick.query.weight.shape == (24, 13)
    assert brick.key.weight.shape == brick.value.weight.shape == (8, 11)
    assert brick.output.weight.shape == (13, 24)  # W^O is h·e × d
    whole = Attention(width=13, heads=5, head_width=13)
    assert whole.output.weight.shape == (13, 65)
    assert Attention(width=24, heads=6, output=False).output is None


def test_parameters_of_each_kind_of_scores() -> None:
    def count(scores: str) -> int:
        brick = Attention(width=24, heads=6, scores=scores, output=False, bias=True)
        return sum(weight.numel() for weight in brick.parameters())

    def bilinear() -> int:
        brick = Attention(width=24, heads=6, scores="bilinear")
        return brick.query.weight.numel()

    assert count("plain") == 0
    assert count("shared") == 24 * 24
    assert bilinear() == 6 * 24 * 24
    assert count("query-key") == 3 * (24 * 24 + 24)


@pytest.mark.parametrize("scores", SCORES)
def test_only_plain_and_shared_scores_are_symmetric(scores: str) -> None:
    brick = ready(Attention(width=24, heads=6, scores=scores))
    with Seen(queries=brick.queries, keys=brick.keys) as seen:
        brick(numbers(B, T, 24))
    groups = seen["queries"].shape[1] // seen["keys"].shape[1]
    products = seen["queries"] @ seen["keys"].repeat_interleave(groups, 1).transpose(2, 3)
    if scores in ("plain", "shared"):
        same(products, products.transpose(2, 3))
    else:
        assert differs(products, products.transpose(2, 3))


def test_scale_off() -> None:
    on, off = (ready(Attention(width=24, heads=6, scale=scale)) for scale in (True, False))
    assert on.scale == pytest.approx(1 / math.sqrt(4))
    assert off.scale == 1
    x = numbers(B, T, 24)
    assert differs(on(x), off(x))


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_the_number_of_heads_is_used(heads: int) -> None:
    x = numbers(B, T, 24)
    one = ready(Attention(width=24, heads=3))
    assert differs(one(x), ready(Attention(width=24, heads=heads))(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_a_row_with_nothing_to_attend_to_gives_zero(cross: bool, causal: bool, dtype: torch.dtype) -> None:
    brick = ready(Attention(width=24, heads=6, kv_heads=2, causal=causal and not cross)).to(dtype)
    x = numbers(B, T, 24, dtype=dtype).requires_grad_()
    mask = torch.ones(B, S if cross else T, dtype=torch.bool)
    mask[1] = False
    mask[2, 0] = False  # if the future is hidden, the first query of this row sees nothing
    states = numbers(B, S, 24, seed=1, dtype=dtype)
    out = brick(x, memory=Memory(states, mask)) if cross else brick(x, mask)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    assert (out[2, 0] == 0).all() == (causal and not cross)
    assert (out[2, 1:] != 0).all()
    out.square().sum().backward()
    for weight in (x, *brick.parameters()):
        assert weight.grad.isfinite().all()


def test_extend_writes_into_its_room_and_nowhere_else() -> None:
    brick = ready(Attention(width=24, heads=6, kv_heads=2, causal=True))
    x = numbers(B, T, 24)
    past = KeyValues(*(torch.full((B, 2, 11, 4), 77.0, dtype=torch.float64) for _ in range(2)))
    outs = [brick.extend(x[:, a:b], past, CacheSlots(torch.arange(a, b), b, None)) for a, b in [(0, 3), (3, 4), (4, T)]]
    same(torch.cat(outs, 1), brick(x))
    keys, values = brick.project_keys_values(x)
    same(past.keys[:, :, :T], keys)
    same(past.values[:, :, :T], values)
    assert (past.keys[:, :, T:] == 77).all()
    assert (past.values[:, :, T:] == 77).all()


def test_dropout_in_training_only() -> None:
    brick = ready(Attention(width=24, heads=6, dropout=0.5))
    without = ready(Attention(width=24, heads=6))
    x = numbers(B, T, 24)
    assert torch.equal(brick(x), without(x))
    assert differs(brick.train()(x), without(x))


@pytest.mark.parametrize("queries", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_visible(causal: bool, masked: bool, queries: int) -> None:
    keys, past = 5, 5 - queries
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 1]], dtype=torch.bool) if masked else None
    seen = visible(queries, keys, mask, causal=causal, device=torch.device("cpu"))
    whole = torch.ones(B, 1, queries, keys, dtype=torch.bool) if seen is None else seen.expand(B, 1, queries, keys)
    for b in range(B):
        for q in range(queries):
            for k in range(keys):
                expected = (not causal or k <= past + q) and (mask is None or bool(mask[b, k]))
                assert whole[b, 0, q, k].item() == expected


def test_masked_softmax() -> None:
    scores = numbers(3, 5, scale=3).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    weights = masked_softmax(scores, mask)
    same(weights[0, [0, 1, 3]], softmax(scores[0, [0, 1, 3]].detach().numpy()))
    same(weights[2], softmax(scores[2].detach().numpy()))
    assert (weights[~mask] == 0).all()
    same(masked_softmax(scores, None)[1], softmax(scores[1].detach().numpy()))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[~mask] == 0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_average_by_similarity(masked: bool) -> None:
    query, vectors = numbers(B, 11), numbers(B, T, 11, seed=1)
    lengths = [T, 2, 3] if masked else [T] * B
    mask = torch.arange(T) < torch.tensor(lengths)[:, None] if masked else None
    c, p = average_by_similarity(query, vectors, mask)
    for b, length in enumerate(lengths):
        real = vectors[b, :length].numpy()
        expected = softmax(real @ query[b].numpy())
        same(p[b, :length], expected)
        assert (p[b, length:] == 0).all()
        same(c[b], expected @ real)
    assert (p >= 0).all()
    same(p.sum(-1), torch.ones(B))
