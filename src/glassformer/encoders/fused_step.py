"""One token of each row through a Transformer on a CUDA GPU, with few kernels a block."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.attention import Attention
from glassformer.bricks.feed_forward import ACTIVATIONS, FeedForward
from glassformer.bricks.norm import LayerNorm, Residual, RMSNorm

if TYPE_CHECKING:
    from glassformer.encoders.transformer import Block, TransformerEncoder, TransformerState

FEW_ROWS = 4
"""Rows for which a product with a matrix is a matter of reading it; more are left to the library's products."""
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
    """The parts of a block for which there are kernels."""

    attend: Attention
    projections: tuple[nn.Linear, nn.Linear, nn.Linear]
    output: nn.Linear
    norm: Norm
    feed: FeedForward
    down: nn.Linear
    feed_norm: Norm

    @property
    def gains(self) -> tuple[Tensor, Tensor, float] | None:
        """Of the norms of queries and keys."""
        query, key = self.attend.query_norm, self.attend.key_norm
        return None if query is None or key is None else (query.weight, key.weight, query.eps or 0.0)

    @staticmethod
    def of(block: "Block") -> "FusedBlock | None":
        attend, feed, output = block.attend, block.feed, block.attend.output
        norm, feed_norm = _usual_norm(block.around_attend), _usual_norm(block.around_feed)
        if norm is None or feed_norm is None or feed is None or feed.output is None or output is None:
            return None
        if attend.query is None or attend.key is None or attend.value is None or block.cross_attention is not None:
            return None
        width = attend.head_width
        sizes = (attend.heads * width, attend.kv_heads * width, feed.input.out_features, feed.output.out_features)
        fits = attend.causal and width in (16, 32, 64, 128) and all(size % 16 == 0 for size in sizes)
        if (
            not fits
            or attend.heads // attend.kv_heads not in (1, 2, 4, 8)
            or NAMES[feed.activation] not in HAVE_KERNELS
        ):
            return None
        return FusedBlock(attend, (attend.query, attend.key, attend.value), output, norm, feed, feed.output, feed_norm)


def _usual_norm(around: Residual | None) -> Norm | None:
    """The norm before a part, where the part's output is added to what went in."""
    return None if around is None or not around.pre or not around.residual else Norm.of(around.norm)


@dataclass(frozen=True)
class FusedStep:
    """The step of an encoder."""

    encoder: "TransformerEncoder"
    blocks: list[FusedBlock]
    norm: Norm

    @staticmethod
    def of(encoder: "TransformerEncoder") -> "FusedStep | None":
        """None where a part has no kernel, or there is no Triton to make them."""
        blocks = [FusedBlock.of(block) for block in encoder.own_blocks()]
        norm, known = Norm.of(encoder.norm), [block for block in blocks if block is not None]
        if norm is None or encoder.training or len(known) < len(blocks) or find_spec("triton") is None:
            return None
        return FusedStep(encoder, known, norm)

    def __call__(self, x: Tensor, state: "TransformerState") -> Tensor:
        """Features of one new token of each row; the state is held in place."""
        from glassformer.encoders.gpu_kernels import attend_to_cache

        encoder = self.encoder
        x = encoder.embed_norm(encoder.positions(x, state.lengths.unsqueeze(1))).squeeze(1)
        frequencies = None if encoder.rotary is None else encoder.rotary.frequencies
        for block, past in zip(self.blocks, state.past, strict=True):
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
            maps = [feed.input] if feed.gate is None else [feed.input, feed.gate]
            hidden = _linear(x, *maps, norm=block.feed_norm, activation=NAMES[feed.activation])
            x = _linear(hidden, block.down, residual=x)
        state.lengths.add_(1).clamp_(max=state.max_tokens - 1)
        return self.norm(x).unsqueeze(1)


def _linear(
    x: Tensor,
    *maps: nn.Linear,
    norm: Norm | None = None,
    activation: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """What several maps give side by side; with an activation, that of the first, times what the second gives."""
    from glassformer.encoders.gpu_kernels import linear_rows

    if len(x) <= FEW_ROWS:
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
