"""The Transformer: blocks of attention and feed-forward. Causality is a flag of the one stack, memory another."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, KeyValues, Memory
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.positions import Rotary, Rotation
from glassformer.bricks.residual import Residual
from glassformer.encoders.base import Encoder, State, whose


class Block(nn.Module):
    """Attention among the tokens, attention to a memory if there is one, and feed-forward; a residual around each."""

    def __init__(
        self,
        *,
        attend: Attention,
        around_attend: Residual,
        feed: FeedForward | None = None,
        around_feed: Residual | None = None,
        recall: Attention | None = None,
        around_recall: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attend, self.around_attend = attend, around_attend
        self.recall, self.around_recall = recall, around_recall
        self.feed, self.around_feed = feed, around_feed

    def forward(
        self,
        x: Float[Tensor, "B T d"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        rotation: Rotation | None = None,
        seen: Bool[Tensor, "B T T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        """`seen`: where each token looks at others than the mask says."""
        x = self.around_attend(x, lambda x: self.attend(x, mask if seen is None else seen, rotation=rotation), mask)
        if self.recall is not None and self.around_recall is not None:
            recall = self.recall
            x = self.around_recall(x, lambda x: recall(x, memory=memory), mask)
        return self._feed(x, mask)

    def extend(
        self,
        x: Float[Tensor, "B T d"],
        state: "TransformerState",
        layer: int,
        mask: Bool[Tensor, "B T"] | None,
        rotation: Rotation | None,
    ) -> Float[Tensor, "B T d"]:
        past, filled, seen = state.past[layer], state.filled, state.seen(x.shape[1])
        x = self.around_attend(x, lambda x: self.attend.extend(x, past, filled, seen, rotation=rotation), mask)
        if self.recall is not None and self.around_recall is not None:
            recall, (keys, values) = self.recall, state.recalled[layer]
            x = self.around_recall(
                x, lambda x: recall.mix(recall.ask(state.together(x)), keys, values, state.memory_mask).view_as(x), mask
            )
        return self._feed(x, mask)

    def _feed(self, x: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B T d"]:
        if self.feed is not None and self.around_feed is not None:
            x = self.around_feed(x, self.feed, mask)
        return x


class TransformerState(State):
    """Keys and values of the past, layer by layer.

    All rows fill the same columns. Where rows are of different lengths, `real` says which columns hold a token of the
    row, and `lengths` how many do: the position of its next one. The memory is kept once for each source; so many rows
    as `share` says, one after the other, look at it.
    """

    def __init__(
        self,
        past: list[KeyValues],
        recalled: list[KeyValues],
        memory_mask: Bool[Tensor, "N S"] | None,
        share: int = 1,
    ) -> None:
        self.past = past
        self.recalled = recalled
        self.memory_mask = memory_mask
        self.share = share
        self.filled = 0
        self.real: Bool[Tensor, "B room"] | None = None
        self.lengths: Int[Tensor, "B"] | None = None

    @property
    def room(self) -> int:
        return self.past[0].keys.shape[2]

    def admit(self, batch: int, new: int, mask: Bool[Tensor, "B T"] | None, device: torch.device) -> Int[Tensor, "..."]:
        """Make ready for new tokens; gives their positions."""
        if self.filled + new > self.room:
            raise ValueError(f"room for {self.room} tokens, but {self.filled + new} came")
        if mask is not None and self.real is None:
            self.real = torch.zeros(batch, self.room, dtype=torch.bool, device=device)
            self.real[:, : self.filled] = True
            self.lengths = torch.full((batch,), self.filled, device=device)
        steps = torch.arange(new, device=device)
        if self.real is None or self.lengths is None:
            return self.filled + steps
        self.real[:, self.filled : self.filled + new] = True if mask is None else mask
        index = self.lengths.unsqueeze(1) + (steps if mask is None else mask.cumsum(1) - 1)
        self.lengths = self.lengths + (new if mask is None else mask.sum(1))
        return index.clamp(min=0)  # padding stands where its row's last token does: never beyond the context

    def seen(self, new: int) -> Bool[Tensor, "B S"] | None:
        return None if self.real is None else self.real[:, : self.filled + new]

    def together(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "N KT d"]:
        """The rows of one source as one row: a memory does not mind which of its readers asks first."""
        return x.reshape(x.shape[0] // self.share, -1, x.shape[-1])

    def select(self, rows: Int[Tensor, "B"]) -> "TransformerState":
        sources = whose(rows, self.share)
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, sources)
        recalled = [KeyValues(*(part.index_select(0, sources) for part in layer)) for layer in self.recalled]
        return self._with(rows, recalled, mask, self.share)

    def spread(self, times: int) -> "TransformerState":
        keys = self.past[0].keys
        rows = torch.arange(keys.shape[0], device=keys.device).repeat_interleave(times)
        return self._with(rows, self.recalled, self.memory_mask, self.share * times)

    def reorder(self, rows: Int[Tensor, "B"]) -> "TransformerState":
        return self._with(rows, self.recalled, self.memory_mask, self.share)

    def _with(
        self,
        rows: Int[Tensor, "B"],
        recalled: list[KeyValues],
        memory_mask: Bool[Tensor, "N S"] | None,
        share: int,
    ) -> "TransformerState":
        """These rows' past beside a memory."""
        past = [KeyValues(*(self._filled_part(part, rows) for part in layer)) for layer in self.past]
        chosen = TransformerState(past, recalled, memory_mask, share)
        chosen.filled = self.filled
        chosen.real = None if self.real is None else self.real.index_select(0, rows)
        chosen.lengths = None if self.lengths is None else self.lengths.index_select(0, rows)
        return chosen

    def _filled_part(self, part: Float[Tensor, "B k room e"], rows: Int[Tensor, "C"]) -> Float[Tensor, "C k room e"]:
        """What follows the tokens so far is never read before it is written: it need not be copied."""
        new = part.new_empty(len(rows), *part.shape[1:])
        # straight into its place, which takes half the time; nothing is learned through rows that were chosen
        torch.index_select(part.detach()[:, :, : self.filled], 0, rows, out=new[:, :, : self.filled])
        return new


def within(segments: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The position of each token in its own segment, from 0 on."""
    index = torch.arange(segments.shape[1], device=segments.device)
    begins = torch.ones_like(segments, dtype=torch.bool)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return index - torch.where(begins, index, 0).cummax(1).values


class TransformerEncoder(Encoder):
    """Positions, blocks, and after pre-norm blocks one last norm."""

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
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.limit = limit
        self.positions = positions
        self.rotary = rotary
        self.blocks = nn.ModuleList(blocks)
        self.embed_norm = embed_norm
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T d"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        self._check(memory)
        index, seen = torch.arange(x.shape[1], device=x.device), None
        if segments is not None:
            index, seen = within(segments), segments.unsqueeze(2) == segments.unsqueeze(1)
            seen = seen if mask is None else seen & mask.unsqueeze(1)
        x, rotation = self._place(x, index)
        for block in self.blocks:
            x = block(x, mask, memory=memory, rotation=rotation, seen=seen)
        return self.norm(x, mask)

    def start(self, batch: int, room: int, memory: Memory | None = None) -> TransformerState:
        self._check(memory)
        blocks = self.own_blocks()
        like = next(self.parameters(), torch.empty(0))  # with every part switched off there are none
        past = [
            KeyValues(*(like.new_zeros(batch, block.attend.kv_heads, room, block.attend.head_width) for _ in range(2)))
            for block in blocks
        ]
        recalled = [
            KeyValues(*block.recall.remember(memory.states))
            for block in blocks
            if block.recall is not None and memory is not None
        ]
        return TransformerState(past, recalled, None if memory is None else memory.mask)

    def extend(
        self, x: Float[Tensor, "B T d"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        assert isinstance(state, TransformerState)
        x, rotation = self._place(x, state.admit(x.shape[0], x.shape[1], mask, x.device))
        for layer, block in enumerate(self.own_blocks()):
            x = block.extend(x, state, layer, mask, rotation)
        state.filled += x.shape[1]
        return self.norm(x, mask)

    def _place(
        self, x: Float[Tensor, "B T d"], index: Int[Tensor, "*B T"]
    ) -> tuple[Float[Tensor, "B T d"], Rotation | None]:
        x = self.dropout(self.embed_norm(self.positions(x, index)))
        return x, None if self.rotary is None else self.rotary(index)

    def _check(self, memory: Memory | None) -> None:
        recalls = self.own_blocks()[0].recall is not None
        if recalls and memory is None:
            raise ValueError("this encoder was built to attend to a memory, and none was given")
        if memory is not None and not recalls:
            raise ValueError("this encoder was built without attention to a memory")

    def own_blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]
