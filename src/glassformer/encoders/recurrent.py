"""RNN, LSTM and GRU as encoders."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.recurrent import Hidden, Recurrent
from glassformer.encoders.base import Encoder, State, no_memory, no_segments, only_causal


class RecurrentState(State):
    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden

    def select(self, rows: Int[Tensor, "B"]) -> "RecurrentState":
        return RecurrentState(tuple(part.index_select(1, rows) for part in self.hidden))

    def spread(self, times: int) -> "RecurrentState":
        return RecurrentState(tuple(part.repeat_interleave(times, 1) for part in self.hidden))


class RecurrentEncoder(Encoder):
    """Stacked recurrent layers; their state is the whole past."""

    def __init__(self, *, layers: Recurrent, width: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.layers = layers
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T i"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        no_memory(self, memory)
        no_segments(self, segments)
        out, _ = self.layers(x, self.layers.start(x.shape[0]), mask)
        return self.dropout(out)

    def start(self, batch: int, room: int, memory: Memory | None = None) -> RecurrentState:
        no_memory(self, memory)
        only_causal(self)
        return RecurrentState(self.layers.start(batch))

    def extend(
        self, x: Float[Tensor, "B T i"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        assert isinstance(state, RecurrentState)
        out, state.hidden = self.layers(x, state.hidden, mask)
        return self.dropout(out)
