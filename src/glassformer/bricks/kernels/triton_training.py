"""Triton kernels for training, each with one pass over memory where a compiler makes several.

One computes the softmax loss over a large vocabulary with its gradient, the others norm and rotate queries and keys.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.bricks.kernels.triton_decoding import on_its_device

PROGRAMS = 528
"""Programs of a kernel that sums over all tokens: four per multiprocessor of an H100."""


@triton.jit
def _softmax_loss(scores_at, true_at, loss_at, gradient_at, vocab, smoothing, BLOCK: tl.constexpr):
    """Compute the softmax loss of one row and its gradient."""
    row = tl.program_id(0).to(tl.int64)
    scores_at += row * vocab
    gradient_at += row * vocab
    answer = tl.load(true_at + row)
    columns = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    total, scores = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for k in range(0, vocab, BLOCK):
        here = k + columns < vocab
        x = tl.load(scores_at + k + columns, mask=here, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(best, x)
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(best - shift) + tl.exp(x - shift)
        scores += tl.where(here, x, 0.0)
        best = higher
    highest = tl.max(best, 0)
    log_total = highest + tl.log(tl.sum(total * tl.exp(best - highest), 0))
    counts = tl.where(answer >= 0, 1.0, 0.0)
    loss = log_total - tl.load(scores_at + tl.maximum(answer, 0)).to(tl.float32)
    loss = (1 - smoothing) * loss + smoothing * (log_total - tl.sum(scores, 0) / vocab)
    tl.store(loss_at + row, tl.where(answer >= 0, loss, 0.0))
    for k in range(0, vocab, BLOCK):
        here = k + columns < vocab
        x = tl.load(scores_at + k + columns, mask=here, other=0.0).to(tl.float32)
        target = tl.where(k + columns == answer, 1 - smoothing, 0.0) + smoothing / vocab
        gradient = (tl.exp(x - log_total) - target) * counts
        tl.store(gradient_at + k + columns, gradient.to(gradient_at.dtype.element_ty), mask=here)


@on_its_device
def softmax_loss_rows(scores: Tensor, true: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the float32 softmax loss of each row and its gradient by the scores; 0 for negative answers."""
    rows, vocab = scores.shape
    losses, gradient = scores.new_empty(rows, dtype=torch.float32), torch.empty_like(scores)
    _softmax_loss[(rows,)](scores, true, losses, gradient, vocab, smoothing, BLOCK=2048, num_warps=8)
    return losses, gradient


@triton.jit
def _heads(
    packed_at, gains_at, cos_at, sin_at, q_at, k_at, v_at, by_packed_at, by_gains_at,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, tokens, length, angles, heads, kv_heads, eps,
    BACKWARD: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Compute queries (0), keys (1) or values (2) of some tokens and heads, or, backward, their gradients."""
    E: tl.constexpr = 2 * HALF
    kind = tl.program_id(1)
    own, before, out_at, stride_b, stride_t, stride_h = heads, 0, q_at, q_b, q_t, q_h
    if kind == 1:
        own, before, out_at, stride_b, stride_t, stride_h = kv_heads, heads, k_at, k_b, k_t, k_h
    elif kind == 2:
        own, before, out_at, stride_b, stride_t, stride_h = kv_heads, heads + kv_heads, v_at, v_b, v_t, v_h
    e = tl.arange(0, E)[None, :]
    partner = (e + HALF) % E  # a rotation turns e and its partner together
    gain, gain_partner = tl.full([1, E], 1.0, tl.float32), tl.full([1, E], 1.0, tl.float32)
    if kind < 2:
        gain = tl.load(gains_at + kind * E + e).to(tl.float32)
        gain_partner = tl.load(gains_at + kind * E + partner).to(tl.float32)
    by_gain = tl.zeros([ROWS, E], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(tokens * own, ROWS), tl.num_programs(0)):
        row = block * ROWS + tl.arange(0, ROWS)
        there = (row < tokens * own)[:, None]
        token, head = row // own, row % own
        packed = (token.to(tl.int64) * (heads + 2 * kv_heads) + before + head)[:, None] * E
        out = (token // length).to(tl.int64) * stride_b + (token % length) * stride_t + head * stride_h
        out = out[:, None]
        x = tl.load(packed_at + packed + e, mask=there, other=0.0).to(tl.float32)
        x_partner = tl.load(packed_at + packed + partner, mask=there, other=0.0).to(tl.float32)
        size = tl.full([ROWS, 1], 1.0, tl.float32)
        cos, sin = tl.full([ROWS, E], 1.0, tl.float32), tl.zeros([ROWS, E], tl.float32)
        if kind < 2:
            size = tl.rsqrt(tl.sum(x * x, 1) / E + eps)[:, None]
            angle = (token % angles)[:, None] * HALF + e % HALF
            cos = tl.load(cos_at + angle, mask=there, other=0.0).to(tl.float32)
            sin = tl.load(sin_at + angle, mask=there, other=0.0).to(tl.float32) * tl.where(e < HALF, -1.0, 1.0)
        x = x * size
        if BACKWARD:
            by = tl.load(out_at + out + e, mask=there, other=0.0).to(tl.float32)
            if kind < 2:
                by_partner = tl.load(out_at + out + partner, mask=there, other=0.0).to(tl.float32)
                by = by * cos - by_partner * sin
                by_gain += by * x
                by = by * gain
                by = (by - x * (tl.sum(by * x, 1) / E)[:, None]) * size
            tl.store(by_packed_at + packed + e, by.to(by_packed_at.dtype.element_ty), mask=there)
        else:
            x = x * gain * cos + x_partner * size * gain_partner * sin
            tl.store(out_at + out + e, x.to(out_at.dtype.element_ty), mask=there)
    if BACKWARD:  # noqa: SIM102  a compile-time condition around a run-time one
        if kind < 2:
            place = by_gains_at + (tl.program_id(0) * 2 + kind) * E + e
            tl.store(place, tl.sum(by_gain, 0)[None, :])


Heads = tuple[Tensor, Tensor, Tensor]


def _launch_heads(
    packed: Tensor, gains: Tensor, rotation: tuple[Tensor, Tensor], eps: float, heads: Heads,
    gradients: tuple[Tensor, Tensor] | None = None
) -> None:  # fmt: skip
    length, (cos, sin) = packed.shape[1], rotation
    by_packed, by_gains = gradients or (packed, gains)
    strides = [stride for part in heads for stride in part.stride()[:3]]
    _heads[(PROGRAMS, 3)](
        packed, gains, cos, sin, *heads, by_packed, by_gains, *strides, len(packed) * length, length,
        cos.numel() // cos.shape[-1], heads[0].shape[2], heads[1].shape[2], eps,
        BACKWARD=gradients is not None, HALF=gains.shape[1] // 2, ROWS=max(1, 1024 // gains.shape[1]), num_warps=4,
    )  # fmt: skip


@on_its_device
def heads_of(packed: Tensor, gains: Tensor, rotation: tuple[Tensor, Tensor], eps: float, kv_heads: int) -> Heads:
    """Return queries, keys and values, B×T×h×e each; see `norm_and_rotate` in gpu.py."""
    width = gains.shape[1]
    counts = (packed.shape[2] // width - 2 * kv_heads, kv_heads, kv_heads)
    q, k, v = (packed.new_empty(*packed.shape[:2], count, width) for count in counts)
    _launch_heads(packed, gains, rotation, eps, (q, k, v))
    return q, k, v


@on_its_device
def gradients_of_heads(
    packed: Tensor, gains: Tensor, rotation: tuple[Tensor, Tensor], eps: float, by_heads: Heads
) -> tuple[Tensor, Tensor]:
    """Return the gradients by `packed` and by `gains` from those by queries, keys and values."""
    by_packed = torch.empty_like(packed)
    by_gains = gains.new_empty(PROGRAMS, *gains.shape, dtype=torch.float32)
    _launch_heads(packed, gains, rotation, eps, by_heads, (by_packed, by_gains))
    return by_packed, by_gains.sum(0)
