"""Triton kernels for decoding one token per row.

A single token is too little work for a launch, so each kernel does the work of three or four. The kernels are a linear
map with the operations around it, and attention to a cache.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor

NORMS = {None: 0, "layer": 1, "rms": 2}
ACTIVATIONS = {None: 0, "relu": 1, "relu2": 2, "gelu": 3, "gelu-tanh": 4, "silu": 5, "swiglu": 5}


Launch = TypeVar("Launch", bound=Callable[..., Any])


def on_its_device(launch: Launch) -> Launch:
    """Launch on the GPU of the first tensor; Triton uses the current one."""

    @wraps(launch)
    def launched(x: Tensor, *args: Any, **settings: Any) -> Any:
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            return launch(x, *args, **settings)

    return launched  # type: ignore[return-value]


@triton.jit
def _activate(x, kind: tl.constexpr):
    if kind == 1:
        x = tl.maximum(x, 0.0)
    elif kind == 2:
        x = tl.maximum(x, 0.0)
        x = x * x
    elif kind == 3:
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif kind == 4:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(2 * inner)
    elif kind == 5:
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def _linear(
    x_at, w0_at, w1_at, w2_at, b0_at, b1_at, b2_at, gain_at, shift_at, residual_at, out_at,
    n0, n1, total, width, eps,
    NORM: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, SHIFT: tl.constexpr, RESIDUAL: tl.constexpr,
    GATED: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Compute rows of up to three matrices side by side, or, gated, of two that are multiplied."""
    first = tl.program_id(0) * BLOCK_N
    row = tl.program_id(1)
    local = first
    w_at, b_at = w0_at, b0_at
    if not GATED:
        if first >= n0 + n1:
            w_at, b_at, local = w2_at, b2_at, first - n0 - n1
        elif first >= n0:
            w_at, b_at, local = w1_at, b1_at, first - n0
    n = local + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, BLOCK_K)
    x_at += row * width
    # W norm(x) = s (W (γ ⊙ x) − μ Wγ) + Wβ, so the product need not wait for mean and variance
    out = tl.zeros([BLOCK_N], tl.float32)
    by_gain = tl.zeros([BLOCK_N], tl.float32)
    by_shift = tl.zeros([BLOCK_N], tl.float32)
    gate = tl.zeros([BLOCK_N], tl.float32)
    gate_by_gain = tl.zeros([BLOCK_N], tl.float32)
    gate_by_shift = tl.zeros([BLOCK_N], tl.float32)
    sums, squares = 0.0, 0.0
    for k in range(0, width, BLOCK_K):
        here = k + columns < width
        places = n[:, None] * width + (k + columns)[None, :]
        w = tl.load(w_at + places, mask=here[None, :], other=0.0).to(tl.float32)
        x = tl.load(x_at + k + columns, mask=here, other=0.0).to(tl.float32)
        if GATED:
            g = tl.load(w1_at + places, mask=here[None, :], other=0.0).to(tl.float32)
        if NORM:
            gain = tl.load(gain_at + k + columns, mask=here, other=0.0).to(tl.float32)
            squares += tl.sum(x * x)
            if NORM == 1:
                sums += tl.sum(x)
                by_gain += tl.sum(w * gain[None, :], 1)
                if GATED:
                    gate_by_gain += tl.sum(g * gain[None, :], 1)
                if SHIFT:
                    shift = tl.load(shift_at + k + columns, mask=here, other=0.0).to(tl.float32)
                    by_shift += tl.sum(w * shift[None, :], 1)
                    if GATED:
                        gate_by_shift += tl.sum(g * shift[None, :], 1)
            x = x * gain
        out += tl.sum(w * x[None, :], 1)
        if GATED:
            gate += tl.sum(g * x[None, :], 1)
    if NORM:
        mean = sums / width
        scale = tl.rsqrt(squares / width - mean * mean + eps)
        out = scale * (out - mean * by_gain) + by_shift
        gate = scale * (gate - mean * gate_by_gain) + gate_by_shift
    if BIAS:
        out += tl.load(b_at + n).to(tl.float32)
    out = _activate(out, ACTIVATION)
    if GATED:
        if BIAS:
            gate += tl.load(b1_at + n).to(tl.float32)
        out *= gate
    at = row * total + first + tl.arange(0, BLOCK_N)
    if RESIDUAL:
        out += tl.load(residual_at + at).to(tl.float32)
    tl.store(out_at + at, out.to(out_at.dtype.element_ty))


def _blocks(width: int, *, gated: bool) -> tuple[int, int, int]:
    """Return rows and columns per program, and the number of warps."""
    block_k = min(4096, triton.next_power_of_2(width))
    block_n = 4 if block_k <= 2048 else 2
    return block_n // (2 if gated else 1), block_k, 2 if block_k <= 1024 else 4


@on_its_device
def linear_rows(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
    *,
    norm: tuple[str, Tensor, Tensor | None, float] | None = None,
    activation: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Return W norm(x) + b + residual for a few rows x, with several W side by side.

    With an activation, the first map goes through it and is multiplied by the second.
    """
    rows, width = x.shape
    gated = activation is not None and len(weights) == 2
    sizes = [weight.shape[0] for weight in weights]
    total = sizes[0] if gated else sum(sizes)
    out = x.new_empty(rows, total)
    block_n, block_k, warps = _blocks(width, gated=gated)
    kind, gain, shift, eps = norm or (None, x, None, 0.0)
    w = [*weights, *[weights[0]] * (3 - len(weights))]
    b = [bias if bias is not None else x for bias in [*biases, *[None] * (3 - len(biases))]]
    _linear[(total // block_n, rows)](
        x, *w, *b, gain, shift if shift is not None else x, residual if residual is not None else x, out,
        sizes[0], 0 if gated or len(sizes) == 1 else sizes[1], total, width, eps,
        NORM=NORMS[kind], ACTIVATION=ACTIVATIONS[activation], BIAS=biases[0] is not None, SHIFT=shift is not None,
        RESIDUAL=residual is not None, GATED=gated, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit
def _attend(
    qkv_at, keys_at, values_at, lengths_at, frequencies_at, q_gain_at, k_gain_at, out_at, best_at, sum_at,
    room, stride_row, heads, kv_heads, scale, eps,
    ROTARY: tl.constexpr, QK_NORM: tl.constexpr, GROUP: tl.constexpr, HALF: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_S: tl.constexpr
):  # fmt: skip
    """Attend from the query heads that share a key head of one row to one split of its past."""
    E: tl.constexpr = 2 * HALF
    row, kv = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    split = tl.program_id(1)
    position = tl.load(lengths_at + row)
    e, group = tl.arange(0, E), tl.arange(0, GROUP)
    partner = (e + HALF) % E  # a rotation turns e and its partner together
    own = qkv_at + row * (heads + 2 * kv_heads) * E
    q_at, k_at = own + (kv * GROUP + group)[:, None] * E, own + (heads + kv) * E
    q, q_partner = tl.load(q_at + e[None, :]).to(tl.float32), tl.load(q_at + partner[None, :]).to(tl.float32)
    k, k_partner = tl.load(k_at + e).to(tl.float32), tl.load(k_at + partner).to(tl.float32)
    v = tl.load(own + (heads + kv_heads + kv) * E + e).to(tl.float32)
    if QK_NORM:
        q_size = tl.rsqrt(tl.sum(q * q, 1) / E + eps)[:, None]
        k_size = tl.rsqrt(tl.sum(k * k) / E + eps)
        q = q * q_size * tl.load(q_gain_at + e).to(tl.float32)[None, :]
        q_partner = q_partner * q_size * tl.load(q_gain_at + partner).to(tl.float32)[None, :]
        k = k * k_size * tl.load(k_gain_at + e).to(tl.float32)
        k_partner = k_partner * k_size * tl.load(k_gain_at + partner).to(tl.float32)
    if ROTARY:
        angle = position.to(tl.float32) * tl.load(frequencies_at + e % HALF)
        cos, sin = tl.cos(angle), tl.where(e < HALF, -1.0, 1.0) * tl.sin(angle)
        q = q * cos[None, :] + q_partner * sin[None, :]
        k = k * cos + k_partner * sin
    q = q * scale
    base = row * stride_row + kv * room * E
    chunk = tl.cdiv(tl.cdiv(position, SPLITS), BLOCK_S) * BLOCK_S
    begin = split * chunk
    end = tl.minimum(position, begin + chunk)
    best = tl.full([GROUP], -1e30, tl.float32)
    total = tl.zeros([GROUP], tl.float32)
    mixed = tl.zeros([GROUP, E], tl.float32)
    for s in range(begin, end, BLOCK_S):
        at = s + tl.arange(0, BLOCK_S)
        there = (at < end)[:, None]
        places = base + at[:, None] * E + e[None, :]
        key = tl.load(keys_at + places, mask=there, other=0.0).to(tl.float32)
        value = tl.load(values_at + places, mask=there, other=0.0).to(tl.float32)
        if GROUP == 1:
            scores = tl.sum(key * q, 1)[None, :]
        else:
            scores = tl.sum(key[None, :, :] * q[:, None, :], 2)
        scores = tl.where((at < end)[None, :], scores, -1e30)
        higher = tl.maximum(best, tl.max(scores, 1))
        weights = tl.where((at < end)[None, :], tl.exp(scores - higher[:, None]), 0.0)
        shrink = tl.exp(best - higher)
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None] + tl.sum(weights[:, :, None] * value[None, :, :], 1)
        best = higher
    if split == 0:  # the new token itself
        new = base + position * E + e
        kind = keys_at.dtype.element_ty
        k = k.to(kind).to(tl.float32)
        tl.store(keys_at + new, k.to(kind))
        tl.store(values_at + new, v.to(kind))
        score = tl.sum(q * k[None, :], 1)
        higher = tl.maximum(best, score)
        shrink, weight = tl.exp(best - higher), tl.exp(score - higher)
        total = total * shrink + weight
        mixed = mixed * shrink[:, None] + weight[:, None] * v[None, :]
        best = higher
    head = row * heads + kv * GROUP + group
    if SPLITS == 1:
        tl.store(out_at + head[:, None] * E + e[None, :], (mixed / total[:, None]).to(out_at.dtype.element_ty))
    else:
        part = head * SPLITS + split
        tl.store(out_at + part[:, None] * E + e[None, :], mixed)
        tl.store(best_at + part, best)
        tl.store(sum_at + part, total)


@triton.jit
def _combine(part_at, best_at, sum_at, out_at, E: tl.constexpr, SPLITS: tl.constexpr):
    """Combine the results of the splits of the past."""
    head = tl.program_id(0)
    splits, e = tl.arange(0, SPLITS), tl.arange(0, E)
    best = tl.load(best_at + head * SPLITS + splits)
    weights = tl.exp(best - tl.max(best, 0))
    total = tl.sum(weights * tl.load(sum_at + head * SPLITS + splits), 0)
    parts = tl.load(part_at + (head * SPLITS + splits)[:, None] * E + e[None, :])
    out = tl.sum(weights[:, None] * parts, 0) / total
    tl.store(out_at + head * E + e, out.to(out_at.dtype.element_ty))


@on_its_device
def attend_to_cache(
    qkv: Tensor,
    past: tuple[Tensor, Tensor],
    lengths: Tensor,
    *,
    heads: int,
    scale: float,
    frequencies: Tensor | None = None,
    gains: tuple[Tensor, Tensor, float] | None = None,
) -> Tensor:
    """Append each row's new token to its cache of `lengths` tokens and attend to all of it.

    `frequencies` are those of rotary positions. `gains` are those of the query and key norms, with their ε.
    """
    keys, values = past
    rows, kv_heads, room, width = keys.shape
    splits = 1
    while splits < 16 and rows * kv_heads * splits < 1024:
        splits *= 2
    out = qkv.new_empty(rows, heads * width)
    parts = qkv.new_empty(rows * heads * splits, width, dtype=torch.float32) if splits > 1 else out
    best = qkv.new_empty(2, rows * heads * splits, dtype=torch.float32)
    q_gain, k_gain, eps = gains or (qkv, qkv, 0.0)
    _attend[(rows * kv_heads, splits)](
        qkv, keys, values, lengths, qkv if frequencies is None else frequencies, q_gain, k_gain, parts,
        best[0], best[1], room, keys.stride(0), heads, kv_heads, scale, eps,
        ROTARY=frequencies is not None, QK_NORM=gains is not None, GROUP=heads // kv_heads, HALF=width // 2,
        SPLITS=splits, BLOCK_S=32, num_warps=4 if splits > 1 else 1,
    )  # fmt: skip
    if splits > 1:
        _combine[(rows * heads,)](parts, best[0], best[1], out, E=width, SPLITS=splits, num_warps=2)
    return out
