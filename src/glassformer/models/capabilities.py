"""Capabilities of models beyond the forward pass, declared by our models and those of users."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.capabilities import Capability
from glassformer.encoders.base import Encoder, State


class HasHead(Capability, Protocol):
    """A model that ends in a head: `head(features(*inputs))` are its scores."""

    head: Any
    """The module that maps features to scores."""

    def features(self, *args: Any, **more: Any) -> Tensor:
        """Return what the head reads."""


class OutputSide(NamedTuple):
    """The part of a model whose vectors the head scores."""

    path: str
    embed: nn.Module
    encoder: Encoder
    place: int
    """Index of its tokens among the inputs of the model; the mask follows them."""


class ScoresTokens(HasHead, Protocol):
    """A model whose head scores the tokens of a vocabulary."""

    head: nn.Linear

    def output_side(self) -> OutputSide:
        """Return the part whose vectors the head scores."""

    def ready(self, states: Tensor) -> Tensor:
        """Return what the head reads of vectors of that part; by default the vectors."""
        return states


class PredictsNext(ScoresTokens, Protocol):
    """A model that predicts the token after each token, and can read a text piece by piece."""

    encoder: Encoder
    context: int

    def init_state(self, batch: int, max_tokens: int) -> State:
        """Return the state before the first token, with room for `max_tokens` tokens."""

    def extend(self, tokens: Tensor, state: State, mask: Tensor | None = None) -> Tensor:
        """Return the features of more tokens."""


class HasDecoder(ScoresTokens, Protocol):
    """A model whose decoder writes one text while it attends to another."""

    embed_source: nn.Module
    encoder: Encoder
    embed_target: nn.Module
    decoder: Encoder

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Memory:
        """Return what the decoder attends to."""

    def init_state(self, memory: Memory, max_tokens: int) -> State:
        """Return the state before the first token of the target, with room for `max_tokens` tokens."""

    def extend(self, tokens: Tensor, state: State, mask: Tensor | None = None) -> Tensor:
        """Return the features of more tokens of the target."""


class LayerOutputs(Capability, Protocol):
    """A model with an encoder called `encoder`, whose layers `capture` records."""

    encoder: Encoder

    def lacks(self, kind: type) -> bool:
        """Return True for `LayerOutputs` if the encoder names no layers."""
        return (kind is LayerOutputs and not self.encoder.layer_outputs()) or super().lacks(kind)

    def states(self, *args: Any, **more: Any) -> Tensor:
        """Run the encoder alone and return its output."""

    def features(self, *args: Any, **more: Any) -> Tensor:
        """Run everything but the head."""


class HasVectors(Capability, Protocol):
    """A model that has a vector for each example, and for each token of a text."""

    def features(self, *args: Any, **more: Any) -> Tensor:
        """Return the vectors of examples that are more than texts."""

    def text_vectors(self, tokens: Tensor, mask: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of all tokens and of each text; `inside` is True at tokens other than START and END."""


class HasWordVectors(Capability, Protocol):
    """A model with a table of word vectors."""

    def word_vectors(self) -> Tensor:
        """Return one row for each token that the model reads."""


class PoolsTokens(HasHead, Protocol):
    """A model that pools all tokens of an example into one vector, which its head reads."""

    pool: Any
    """A module or a method that maps states and mask to one vector for each example."""

    def token_states(self, *args: Any, **more: Any) -> tuple[Tensor, Tensor | None]:
        """Return the vectors that are pooled, and their mask."""


class CountsTokens(PoolsTokens, Protocol):
    """A bag of words: the states are what each token adds to the features, whatever its position and neighbours."""

    weighting: str

    def token_weights(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return how much each token of a text counts."""
