"""A fused Transformer step for one token per row.

On a CUDA GPU it uses our own kernels. On a CPU it uses torch's, with shared work prepared in advance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.attention import Attention
from glassformer.bricks.feed_forward import ACTIVATIONS, FeedForward
from glassformer.bricks.int8 import Int8Linear, join_linears
from glassformer.bricks.kernels.gpu import kernels_work
from glassformer.bricks.norm import LayerNorm, Residual, RMSNorm
from glassformer.bricks.positions import Rotary
from glassformer.encoders.blocks import Block, TransformerState

MAX_CPU_WEIGHTS = 2**24
"""Number of weights up to which calls dominate arithmetic in a CPU step."""
MAX_KERNEL_ROWS = 4
"""Number of rows up to which a matrix product is bound by reading the matrix; larger ones use cuBLAS."""
NAMES = {function: name for name, function in ACTIVATIONS.items()}
HAVE_KERNELS = ("relu", "relu2", "gelu", "gelu-tanh", "silu", "swiglu")


class Norm(NamedTuple):
    kind: str
    gain: Tensor
    shift: Tensor | None
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)

    @staticmethod
    def of(module: nn.Module) -> "Norm | None":
        if isinstance(module, LayerNorm):
            return Norm("layer", module.weight, module.bias, module.eps)
        return Norm("rms", module.weight, None, module.eps or 0.0) if isinstance(module, RMSNorm) else None


class FusedBlock(NamedTuple):
    """The parts of a standard block."""

    attend: Attention
    projections: tuple[nn.Linear, nn.Linear, nn.Linear]
    output: nn.Linear
    norm: Norm
    feed: FeedForward
    down: nn.Linear
    feed_norm: Norm
    cross: Attention | None
    cross_norm: Norm

    @property
    def gains(self) -> tuple[Tensor, Tensor, float] | None:
        """Gains and ε of the query and key norms; None without such norms."""
        query, key = self.attend.query_norm, self.attend.key_norm
        return None if query is None or key is None else (query.weight, key.weight, query.eps or 0.0)

    @property
    def has_kernels(self) -> bool:
        """Whether the kernels support its sizes and its activation."""
        attend, width = self.attend, self.attend.head_width
        outputs = (attend.heads * width, attend.kv_heads * width, self.feed.input.out_features, self.down.out_features)
        groups = attend.heads // attend.kv_heads in (1, 2, 4, 8) and NAMES[self.feed.activation] in HAVE_KERNELS
        return groups and width in (16, 32, 64, 128) and all(size % 4 == 0 for size in outputs)

    @staticmethod
    def of(block: Block) -> "FusedBlock | None":
        """Return the parts of a block; None if it is not a standard block."""
        attend, feed, cross = block.attend, block.feed, block.cross_attention
        if not isinstance(attend, Attention) or not attend.causal or attend.head_width % 2:
            return None
        norm, feed_norm = _usual_norm(block.around_attend), _usual_norm(block.around_feed)
        cross_norm = norm if cross is None else _usual_norm(block.around_cross_attention)
        query, key, value, output = attend.query, attend.key, attend.value, attend.output
        if norm is None or feed_norm is None or cross_norm is None or feed is None or feed.output is None:
            return None
        if query is None or key is None or value is None or output is None:
            return None
        return FusedBlock(attend, (query, key, value), output, norm, feed, feed.output, feed_norm, cross, cross_norm)

    def look_at_memory(self, x: Tensor, norm: "Norm | CpuRMSNorm", state: TransformerState, layer: int) -> Tensor:
        """Return x + cross-attention(norm(x)); x without cross-attention."""
        if self.cross is None:
            return x
        found = self.cross.look_at(norm(x).unsqueeze(1), state.cross[layer], state.memory_mask, state.share)
        return x + found.squeeze(1)


def _usual_norm(around: Residual | None) -> Norm | None:
    """Return the norm of a pre-norm residual part; None for other parts."""
    return None if around is None or not around.pre or not around.residual else Norm.of(around.norm)


class Around(NamedTuple):
    """Modules before and after the blocks."""

    positions: nn.Module
    rotary: Rotary | None
    embed_norm: nn.Module
    norm: nn.Module


def fused_step(blocks: Sequence[Block], around: Around, device: torch.device) -> "FusedStep | CpuStep | None":
    """Return the fused step; None if a part does not support it or it would not be faster."""
    fused_blocks = [fused for fused in map(FusedBlock.of, blocks) if fused is not None]
    norm = Norm.of(around.norm)
    if norm is None or len(fused_blocks) < len(blocks):
        return None
    if device.type == "cuda":
        return (
            FusedStep(around, fused_blocks, norm)
            if all(block.has_kernels for block in fused_blocks) and kernels_work()
            else None
        )
    # int8 weights are buffers, so they do not count: they are not copied, and calls dominate reading them
    small = sum(weight.numel() for block in blocks for weight in block.parameters()) <= MAX_CPU_WEIGHTS
    return CpuStep(around, fused_blocks, norm) if device.type == "cpu" and small else None


@dataclass(frozen=True)
class FusedStep:
    """Fused step on a CUDA GPU, for rows of different lengths."""

    around: Around
    blocks: list[FusedBlock]
    norm: Norm

    def __call__(self, x: Tensor, state: TransformerState) -> Tensor:
        """Return the features of one new token per row and update the state in place."""
        from glassformer.bricks.kernels.triton_decoding import attend_to_cache

        around = self.around
        x = around.embed_norm(around.positions(x, state.lengths.unsqueeze(1))).squeeze(1)
        frequencies = None if around.rotary is None else around.rotary.frequencies
        for layer, (block, past) in enumerate(zip(self.blocks, state.past, strict=True)):
            attend, feed = block.attend, block.feed
            mixed = attend_to_cache(
                _linear(x, *block.projections, norm=block.norm),
                past,
                state.lengths,
                heads=attend.heads,
                scale=attend.scale,
                frequencies=frequencies,
                gains=block.gains,
            )
            x = _linear(mixed, block.output, residual=x)
            x = block.look_at_memory(x, block.cross_norm, state, layer)
            maps = [feed.input] if feed.gate is None else [feed.input, feed.gate]
            hidden = _linear(x, *maps, norm=block.feed_norm, activation=NAMES[feed.activation])
            x = _linear(hidden, block.down, residual=x)
        state.lengths.add_(1).clamp_(max=state.max_tokens - 1)
        return self.norm(x).unsqueeze(1)


def _linear(
    x: Tensor, *maps: nn.Linear, norm: Norm | None = None, activation: str | None = None, residual: Tensor | None = None
) -> Tensor:
    """Return the outputs of several maps side by side; with an activation, that of the first map times the second."""
    from glassformer.bricks.kernels.triton_decoding import linear_rows

    if len(x) <= MAX_KERNEL_ROWS:
        weights, biases = [map.weight for map in maps], [map.bias for map in maps]
        return linear_rows(x, weights, biases, norm=norm, activation=activation, residual=residual)
    if norm is not None:
        x = norm(x)
    out, *others = [map(x) for map in maps]
    if activation is not None:
        out = ACTIVATIONS[activation](out)
        out = out * others[0] if others else out
    elif others:
        out = torch.cat([out, *others], -1)
    return out if residual is None else residual + out


class CpuStep:
    """Fused step on a CPU, for rows of the same length: maps of the same vector are one product."""

    def __init__(self, around: Around, blocks: list[FusedBlock], norm: Norm) -> None:
        self.around, self.blocks, self.norm = around, blocks, _on_cpu(norm)
        self.norms = [(_on_cpu(block.norm), _on_cpu(block.cross_norm), _on_cpu(block.feed_norm)) for block in blocks]
        self.projections = [_joined(block.projections) for block in blocks]
        # inputs of a further product need not be converted to float32 in between
        inputs = [_joined([block.feed.input, *filter(None, [block.feed.gate])]) for block in blocks]
        self.inputs = [part.as_computed if isinstance(part, Int8Linear) else part for part in inputs]
        self.gains = [_gains(block) for block in blocks]

    def __call__(self, x: Tensor, state: TransformerState) -> Tensor:
        """Return the features of one new token per row."""
        around, place = self.around, state.admit(1, None, causal=True)
        x = around.embed_norm(around.positions(x, place.positions)).squeeze(1)
        end, turn = place.extent, None
        if around.rotary is not None:
            cos, sin = around.rotary(place.positions)
            turn = torch.cat([cos, cos], -1).to(x.dtype), torch.cat([-sin, sin], -1).to(x.dtype)
        for layer, (block, past, norms, projection, gain, inputs) in enumerate(
            zip(self.blocks, state.past, self.norms, self.projections, self.gains, self.inputs, strict=True)
        ):
            attend, width = block.attend, block.attend.head_width
            heads, kv_heads = attend.heads, attend.kv_heads
            seen = projection(norms[0](x)).view(len(x), -1, width)
            queries_keys, values = seen[:, : heads + kv_heads], seen[:, heads + kv_heads :]
            if gain is not None:
                queries_keys = gain(queries_keys)
            if turn is not None:
                queries_keys = torch.addcmul(queries_keys * turn[0], queries_keys.roll(width // 2, -1), turn[1])
            past.keys[:, :, end - 1] = queries_keys[:, heads:]
            past.values[:, :, end - 1] = values
            mixed = F.scaled_dot_product_attention(
                queries_keys[:, :heads].unflatten(1, (kv_heads, -1)),  # grouped by key/value head
                past.keys[:, :, :end],
                past.values[:, :, :end],
                scale=attend.scale,
            )
            x = _added(x, mixed.reshape(len(x), -1), block.output)
            x = block.look_at_memory(x, norms[1], state, layer)
            hidden = inputs(norms[2](x))
            if block.feed.gate is None:
                hidden = block.feed.activation(hidden)
            else:
                hidden, gate = hidden.chunk(2, -1)
                hidden = block.feed.activation(hidden) * gate
            x = _added(x, hidden, block.down)
        return self.norm(x).unsqueeze(1)


def _joined(maps: Sequence[nn.Linear]) -> Callable[[Tensor], Tensor]:
    """Return several maps of the same vector as one."""
    in_8_bits = [map for map in maps if isinstance(map, Int8Linear)]
    if in_8_bits:
        return join_linears(in_8_bits)
    weights: list[Tensor] = [map.weight for map in maps]
    biases: list[Tensor] = [map.bias for map in maps if map.bias is not None]
    return partial(F.linear, weight=torch.cat(weights), bias=torch.cat(biases) if biases else None)


class CpuRMSNorm(NamedTuple):
    """RMS norm as γ √d x / √(‖x‖² + d ε): four operations on a CPU instead of torch's eight."""

    gain: Tensor
    """γ √d."""
    floor: Tensor
    """√(d ε)."""

    @staticmethod
    def of(gain: Tensor, eps: float) -> "CpuRMSNorm":
        root = math.sqrt(gain.shape[-1])
        return CpuRMSNorm(gain * root, gain.new_full((), root * math.sqrt(eps)))

    def __call__(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.hypot(length, self.floor) * self.gain


def _on_cpu(norm: Norm) -> Norm | CpuRMSNorm:
    return norm if norm.kind == "layer" else CpuRMSNorm.of(norm.gain, norm.eps)


def _gains(block: FusedBlock) -> CpuRMSNorm | None:
    """Return the query and key norms as one, with a row per head."""
    if block.gains is None:
        return None
    query, key, eps = block.gains
    attend = block.attend
    return CpuRMSNorm.of(torch.cat([query.expand(attend.heads, -1), key.expand(attend.kv_heads, -1)]), eps)


def _added(x: Tensor, part: Tensor, map: nn.Linear) -> Tensor:
    """Return x + W part + b."""
    if isinstance(map, Int8Linear):
        return x + map.as_computed(part)
    return torch.addmm(x if map.bias is None else x + map.bias, part, map.weight.T)
