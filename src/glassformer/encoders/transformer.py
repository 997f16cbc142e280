"""The Transformer: blocks of attention and feed-forward. Causality is a flag of the same stack; so is memory."""

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.bricks import Ids, Index, Mask, Vectors
from glassformer.bricks.attention import KeyValues, Memory
from glassformer.bricks.own import modules_of_ours
from glassformer.bricks.positions import Positions, Rotary, Rotation
from glassformer.encoders.base import Encoder, Recomputes, State, init_map, init_vectors
from glassformer.encoders.blocks import Block, TransformerState
from glassformer.encoders.fused_step import Around, CpuStep, FusedStep, fused_step


def positions_within(segments: Ids) -> Ids:
    """Return the position of each token within its segment."""
    index = torch.arange(segments.shape[1], device=segments.device)
    begins = torch.ones_like(segments, dtype=torch.bool)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return index - torch.where(begins, index, 0).cummax(1).values


class TransformerEncoder(Encoder, Recomputes):
    """Positions, blocks, and a final norm after pre-norm blocks.

    With `layerwise`, an encoder concatenates the normed outputs of all blocks (B×T×L·d), and block ℓ of a decoder
    attends to part ℓ of this memory. Otherwise, all blocks attend to the output of the encoder's last block.
    """

    opaque = True
    has_states = False
    recompute = False
    """Activation checkpointing: recompute each block in the backward pass instead of storing it."""

    def __init__(
        self,
        *,
        width: int,
        blocks: list[Block],
        positions: nn.Module,
        rotary: Rotary | None,
        embed_norm: nn.Module,
        norm: nn.Module,
        causal: bool,
        limit: int | None,
        layerwise: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.limit = limit
        self.positions = positions
        self.rotary = rotary
        self.blocks = nn.ModuleList(blocks)
        self.layerwise = layerwise
        self.output_parts = len(blocks) if layerwise and blocks[0].cross_attention is None else 1
        self.embed_norm = embed_norm
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Vectors, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Float[Tensor, "B T out"]:
        self._check(memory)
        index, seen = torch.arange(x.shape[1], device=x.device), None
        if segments is not None:
            index, seen = positions_within(segments), segments.unsqueeze(2) == segments.unsqueeze(1)
            seen = seen if mask is None else seen & mask.unsqueeze(1)
        x, rotation = self._place(x, index)
        outputs = []
        for layer, block in enumerate(self.blocks):
            call = partial(block, memory=self.memory_of(memory, layer), rotation=rotation, seen=seen)
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(call, x, mask, use_reentrant=False)
            else:
                x = call(x, mask)
            outputs.append(x)
        return self._output(outputs, mask)

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> TransformerState:
        self._check(memory)
        blocks = self.own_blocks()
        like = next(self.parameters(), torch.empty(0))  # a model without any part has no parameters
        past = [
            KeyValues(
                like.new_zeros(batch, attend.kv_heads, max_tokens, attend.head_width),
                like.new_zeros(batch, attend.kv_heads, max_tokens, attend.value_width),
            )
            for attend in (block.attend for block in blocks)
        ]
        cross = [
            KeyValues(*block.cross_attention.project_keys_values(part.states))
            for layer, block in enumerate(blocks)
            if block.cross_attention is not None and (part := self.memory_of(memory, layer)) is not None
        ]
        return TransformerState(past, cross, None if memory is None else memory.mask)

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Float[Tensor, "B T out"]:
        assert isinstance(state, TransformerState)
        is_single_token = x.shape[1] == 1 and mask is None and torch.is_inference_mode_enabled()
        if is_single_token and (state.in_place if x.is_cuda else state.alike):
            if state.fused is None:
                state.fused = self._fused_step(x.device) or False
            if state.fused:
                return state.fused(x, state)
        slots = state.admit(x.shape[1], mask, causal=self.causal)
        positions = slots.positions
        if mask is not None:  # padding gets the position of its row's last token, which is within the context
            positions = torch.minimum(positions, state.lengths.unsqueeze(1) - 1).clamp(min=0)
        x, rotation = self._place(x, positions)
        outputs = []
        for layer, block in enumerate(self.own_blocks()):
            x = block.extend(x, state, layer, slots, mask, rotation)
            outputs.append(x)
        return self._output(outputs, mask)

    def memory_of(self, memory: Memory | None, layer: int) -> Memory | None:
        """Return the memory that a block attends to."""
        if memory is None or not self.layerwise:
            return memory
        return Memory(memory.states.chunk(len(self.blocks), -1)[layer], memory.mask)

    def _output(self, outputs: list[Vectors], mask: Mask) -> Float[Tensor, "B T out"]:
        if self.output_parts == 1:
            return self.norm(outputs[-1], mask)
        # One call on one batch, with the last block first, so that `capture` records the norm of a text once.
        # ONNX cannot chunk a batch, hence `unflatten`.
        normed = self.norm(torch.cat(outputs[::-1]), None if mask is None else mask.repeat(len(outputs), 1))
        return normed.unflatten(0, (len(outputs), -1)).flip(0).movedim(0, -2).flatten(-2)

    def _fused_step(self, device: torch.device) -> FusedStep | CpuStep | None:
        """Return a fused decoding step; None while hooks are registered or if it is not available."""
        hooks = any(module._forward_hooks or module._forward_pre_hooks for module in self.modules())
        if self.training or hooks or self.output_parts > 1:
            return None
        return fused_step(self.own_blocks(), Around(self.positions, self.rotary, self.embed_norm, self.norm), device)

    def _place(self, x: Vectors, index: Index) -> tuple[Vectors, Rotation | None]:
        x = self.dropout(self.embed_norm(self.positions(x, index)))
        return x, None if self.rotary is None else self.rotary(index)

    def _check(self, memory: Memory | None) -> None:
        has_cross_attention = self.own_blocks()[0].cross_attention is not None
        if has_cross_attention != (memory is not None):
            raise ValueError(f"this encoder was built {'for' if has_cross_attention else 'without'} a memory")

    def own_blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def init_weights(self, how: str) -> None:
        for module in modules_of_ours(self):
            if isinstance(module, nn.Linear):
                init_map(module, how)
            elif isinstance(module, nn.Embedding):
                init_vectors(module.weight, how)
        blocks = self.own_blocks()
        if how == "xavier" or not blocks[0].around_attend.residual:
            return
        std = 0.02 / math.sqrt(2 * len(blocks)) if how == "gpt2" else 0.0
        for block in blocks:
            for part in (block.attend, block.feed, block.cross_attention):
                if part is not None and part.output is not None:
                    nn.init.normal_(part.output.weight, std=std)

    def layer_outputs(self) -> list[tuple[str, ...]]:
        return [("embed_norm.output",), *((f"blocks.{layer}.output",) for layer in range(len(self.blocks)))]

    def final_norm(self, x: Vectors, mask: Mask = None) -> Vectors:
        return self.norm(x, mask)

    def position_encoding(self) -> Positions | None:
        if self.rotary is not None:
            return self.rotary
        return self.positions if isinstance(self.positions, Positions) else None
