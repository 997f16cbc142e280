"""No encoder at all: what comes after then sees the words themselves."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.encoders.base import Encoder, State, no_memory, no_segments


class NoState(State):
    """No token's output needs another token."""

    def select(self, rows: Int[Tensor, "B"]) -> "NoState":
        return self

    def expand_beams(self, times: int) -> "NoState":
        return self


class IdentityEncoder(Encoder):
    """Every vector as it came. Pooled, this is the average of the word vectors."""

    opaque = True
    has_states = False

    def __init__(self, *, width: int, causal: bool) -> None:
        super().__init__()
        self.width = width
        self.causal = causal

    def forward(
        self,
        x: Float[Tensor, "B T d"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        no_memory(self, memory)
        no_segments(self, segments)
        return x

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> NoState:
        no_memory(self, memory)
        return NoState()

    def extend(
        self, x: Float[Tensor, "B T d"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        return x
