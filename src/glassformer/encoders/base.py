"""The one signature of every sequence encoder."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Memory


class State(ABC):
    """What a causal encoder remembers of the tokens so far."""

    @abstractmethod
    def select(self, rows: Int[Tensor, "B"]) -> "State":
        """The state of these rows of the batch, in this order: to leave finished rows behind.

        Where rows share a source, those of one source must stay together, and as many as they were.
        """

    @abstractmethod
    def spread(self, times: int) -> "State":
        """Each row so many times, one after the other: for beams. What belongs to the source is shared, not copied."""

    def reorder(self, rows: Int[Tensor, "B"]) -> "State":
        """Rows change places among those that share a source; one may come more than once."""
        return self.select(rows)


class Encoder(nn.Module, ABC):
    """T vectors of width d in, T vectors of width d out.

    `causal`: no output depends on a later input; then `start` and `extend` compute the same outputs piece by piece:
    `extend` in any pieces equals `forward` on the whole.
    """

    width: int
    causal: bool
    limit: int | None = None
    """How many tokens it was made to hold at once; None: any number, for its state does not grow."""

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "B T i"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        """`segments`: which of several texts, one after the other, each token belongs to; none knows of another."""

    @abstractmethod
    def start(self, batch: int, room: int, memory: Memory | None = None) -> State:
        """The state before the first token, with room for this many."""

    @abstractmethod
    def extend(
        self, x: Float[Tensor, "B T i"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        """T ≥ 1 more tokens: a whole prompt in one pass, then one at a time. Changes the state.

        With a mask, rows may have fewer than T new tokens: theirs come first, and padding follows.
        """


def whose(rows: Int[Tensor, "B"], share: int) -> Int[Tensor, "N"]:
    """The sources of these rows, of which each source has so many."""
    if len(rows) % share:
        raise ValueError(f"{len(rows)} rows, but each source has {share}: they must stay together")
    return rows[::share] // share


def no_memory(encoder: Encoder, memory: Memory | None) -> None:
    """For encoders that cannot attend to a second sequence."""
    if memory is not None:
        raise ValueError(f"{type(encoder).__name__} cannot attend to a memory")


def no_segments(encoder: Encoder, segments: Int[Tensor, "B T"] | None) -> None:
    """For encoders whose outputs run from one text into the next."""
    if segments is not None:
        raise ValueError(f"{type(encoder).__name__} cannot read texts apart that stand in one window")


def only_causal(encoder: Encoder) -> None:
    """For encoders that, once they read the future, cannot go piece by piece at all."""
    if not encoder.causal:
        raise ValueError(f"{type(encoder).__name__} was built to read the future: it cannot go piece by piece")
