"""RNN, LSTM and GRU as encoders."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.recurrent_steps import Hidden
from glassformer.encoders.base import Encoder, State, no_memory, no_segments, only_causal


class RecurrentState(State):
    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden

    def select(self, rows: Int[Tensor, "B"]) -> "RecurrentState":
        return RecurrentState(tuple(part.index_select(1, rows) for part in self.hidden))

    def expand_beams(self, times: int) -> "RecurrentState":
        return RecurrentState(tuple(part.repeat_interleave(times, 1) for part in self.hidden))


class RecurrentStack(Encoder):
    """What an encoder and a decoder of recurrent layers say of them."""

    opaque = True
    layers: Recurrent

    def init_weights(self, how: str) -> None:
        self.layers.init_weights()

    def layer_outputs(self) -> list[tuple[str, ...]]:
        names = [tuple(f"layers.{way['h']}" for way in ways) for ways in self.layers.state_names()]
        return [("input",), *names[:-1], ("layers.output",)]

    def state_names(self) -> dict[str, dict[str, str]]:
        """States, cells and gates, each way by itself."""
        return {
            f"layer {layer}{', backwards' if way else ''}": {letter: f"layers.{name}" for letter, name in names.items()}
            for layer, ways in enumerate(self.layers.state_names())
            for way, names in enumerate(ways)
        }


class RecurrentEncoder(RecurrentStack):
    """Stacked recurrent layers; their state is the whole past."""

    def __init__(self, *, layers: Recurrent, width: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.layers = layers
        self.dropout = nn.Dropout(dropout)
        self.summary_pool = "ends" if layers.cell.bidirectional else "last"

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
        out, _ = self.layers(x, self.layers.init_state(x.shape[0]), mask)
        return self.dropout(out)

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> RecurrentState:
        no_memory(self, memory)
        only_causal(self)
        return RecurrentState(self.layers.init_state(batch))

    def extend(
        self, x: Float[Tensor, "B T i"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        assert isinstance(state, RecurrentState)
        out, state.hidden = self.layers(x, state.hidden, mask)
        return self.dropout(out)
