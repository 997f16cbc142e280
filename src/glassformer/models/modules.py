"""Complete models.

Language model, masked language model and translation model score every token of a vocabulary. Classifier and regressor
read a whole example and return a few numbers.
"""

from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks import AnyVectors, Ids, Mask, Vector, Vectors
from glassformer.bricks.attention import Memory
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import WordDropout, WordVectors
from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.pooling import UnitLength
from glassformer.encoders.base import Encoder, State
from glassformer.models.capabilities import (
    CountsTokens,
    HasDecoder,
    HasHead,
    HasVectors,
    HasWordVectors,
    LayerOutputs,
    OutputSide,
    PoolsTokens,
    PredictsNext,
    ScoresTokens,
)
from glassformer.models.inputs import MaskedVectors, TokenVectors, words_of


def device_of(model: nn.Module) -> torch.device:
    return next((weight.device for weight in chain(model.parameters(), model.buffers())), torch.device("cpu"))


def mean_vectors(states: Vectors, inside: Bool[Tensor, "B T"]) -> tuple[Vectors, Vector]:
    """Return the vectors of tokens, and of each text the mean over its tokens that are `inside`."""
    return states, (states * inside.unsqueeze(-1)).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)


class EncoderModel(nn.Module, HasHead, LayerOutputs, HasVectors, HasWordVectors):
    """A model that turns what it reads into vectors, runs an encoder over them, and ends in a head."""

    opaque = True

    def input_embedding(self) -> nn.Module:
        """Return the module that makes the vectors that the encoder reads."""
        return self.get_submodule("embed")

    def lacks(self, kind: type) -> bool:
        """Return True for `HasWordVectors` if no words are read, or if they are one-hot."""
        return (kind is HasWordVectors and words_of(self.input_embedding()) is None) or super().lacks(kind)

    def word_vectors(self) -> Tensor:
        words = words_of(self.input_embedding())
        assert words is not None
        return words.table.weight


class TokenModel(EncoderModel, ScoresTokens):
    """A model with vocabulary scores at each position.

    `states` are the encoder's vectors, and `features` what the head reads: the states after `ready`. `head` is
    separate, because the loss over a large vocabulary, fine-tuning and lenses need its input.
    """

    head: nn.Linear

    def __init__(
        self, *, embed: TokenVectors, encoder: Encoder, vocab: int, context: int, tied: bool, bias: bool = False
    ) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, vocab, bias=bias)
        self.context = context
        """Number of tokens per training window."""
        if tied:
            assert isinstance(embed, WordVectors)
            self.head.weight = embed.table.weight

    def states(self, tokens: Ids, mask: Mask = None, *, segments: Ids | None = None) -> Vectors:
        """Return the encoder's outputs; tokens with different `segments` do not see each other."""
        if segments is None:
            return self.encoder(self.embed(tokens), mask)
        return self.encoder(self.embed(tokens), mask, segments=segments)

    def output_side(self) -> OutputSide:
        return OutputSide("encoder", self.embed, self.encoder, 0)

    def text_vectors(
        self, tokens: Ids, mask: Bool[Tensor, "B T"], inside: Bool[Tensor, "B T"]
    ) -> tuple[Vectors, Vector]:
        return mean_vectors(self.states(tokens, mask), inside)

    def features(self, tokens: Ids, mask: Mask = None, *, segments: Ids | None = None) -> Vectors:
        return self.ready(self.states(tokens, mask, segments=segments))

    def forward(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B T V"]:
        return self.head(self.features(tokens, mask))


class LanguageModel(TokenModel, PredictsNext):
    """A model with scores for the next token after each token."""

    def init_state(self, batch: int, max_tokens: int) -> State:
        """Return the state before the first token, with capacity for `max_tokens`."""
        return self.encoder.init_state(batch, max_tokens)

    def extend(self, tokens: Ids, state: State, mask: Mask = None) -> Vectors:
        """Return the features of further tokens; `head` scores them."""
        return self.encoder.extend(self.embed(tokens), state, mask)


class Transform(nn.Module):
    """BERT's transform between the last block and the scores: norm(g(Wx + b))."""

    def __init__(self, *, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = norm

    def forward(self, x: AnyVectors) -> AnyVectors:
        return self.norm(self.activation(self.map(x)))


class MaskedLanguageModel(TokenModel):
    """A model with scores for each token, which may be masked; the encoder is bidirectional."""

    def __init__(self, *, transform: Transform | None = None, **parts: Any) -> None:
        """Create the model from the parts of a `TokenModel` and an optional transform."""
        super().__init__(**parts)
        self.transform = transform

    def ready(self, states: Float[Tensor, "*places d"]) -> Float[Tensor, "*places d"]:
        return states if self.transform is None else self.transform(states)


class Seq2Seq(EncoderModel, HasDecoder):
    """A model with scores for the next target token after each target token, given the source.

    `encode` reads the source; `init_state` and `extend` generate incrementally; `forward` does all of it at once.
    """

    def __init__(
        self,
        *,
        embed_source: TokenVectors,
        encoder: Encoder,
        embed_target: TokenVectors,
        decoder: Encoder,
        vocab: int,
        tied: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.embed_source = embed_source
        self.encoder = encoder
        self.embed_target = embed_target
        """Word vectors of the target; the same table as `embed_source` if both sides share it."""
        self.decoder = decoder
        self.head = nn.Linear(decoder.width, vocab, bias=bias)
        if tied:
            assert isinstance(embed_target, WordVectors)
            self.head.weight = embed_target.table.weight

    def input_embedding(self) -> nn.Module:
        return self.embed_source

    def output_side(self) -> OutputSide:
        return OutputSide("decoder", self.embed_target, self.decoder, 2)

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Memory:
        """Return the memory of the decoder: a vector for each source token."""
        return Memory(self.encoder(self.embed_source(source), mask), mask)

    def states(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None, *target: Tensor | None
    ) -> Float[Tensor, "B S m"]:
        """Return the vectors of the source; the target is not read."""
        return self.encode(source, mask).states

    def text_vectors(
        self, tokens: Ids, mask: Bool[Tensor, "B T"], inside: Bool[Tensor, "B T"]
    ) -> tuple[Vectors, Vector]:
        return mean_vectors(self.states(tokens, mask), inside)

    def features(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"] | None, target: Ids, target_mask: Mask = None
    ) -> Vectors:
        memory = self.encode(source, source_mask)
        return self.decoder(self.embed_target(target), target_mask, memory=memory)

    def forward(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"] | None, target: Ids, target_mask: Mask = None
    ) -> Float[Tensor, "B T V"]:
        return self.head(self.features(source, source_mask, target, target_mask))

    def init_state(self, memory: Memory, max_tokens: int) -> State:
        """Return the state before the first target token, with capacity for `max_tokens`."""
        return self.decoder.init_state(memory.states.shape[0], max_tokens, memory)

    def extend(self, tokens: Ids, state: State, mask: Mask = None) -> Vectors:
        """Return the features of further target tokens; `head` scores them."""
        return self.decoder.extend(self.embed_target(tokens), state, mask)


def pooled_text_vectors(
    model: "Predictor | BagPredictor", tokens: Ids, mask: Bool[Tensor, "B T"]
) -> tuple[Vectors, Float[Tensor, "B pooled"]]:
    """Return the vectors of tokens, and of each text what the head reads, or returns if it only normalises."""
    states = model.states(tokens, mask)
    pooled = model.pool(states, mask)
    return states, model.head(pooled) if isinstance(model.head, UnitLength) else pooled


class Predictor(EncoderModel, PoolsTokens):
    """An input layer, an encoder, pooling into one vector, and a head.

    `embed` maps the inputs to B×T×d and a mask. `features` is separate from `head`, as in the language model.
    """

    def __init__(self, *, embed: nn.Module, encoder: Encoder, pool: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.pool = pool
        self.head = head

    def vectors(self, *inputs: Tensor) -> MaskedVectors:
        """Return the inputs of the encoder and their mask."""
        return self.embed(*inputs)

    def text_vectors(
        self, tokens: Ids, mask: Bool[Tensor, "B T"], inside: Bool[Tensor, "B T"]
    ) -> tuple[Vectors, Float[Tensor, "B pooled"]]:
        return pooled_text_vectors(self, tokens, mask)

    def token_states(self, *inputs: Tensor) -> MaskedVectors:
        """Return a vector for each token, and the mask; vectors of padding are arbitrary."""
        x, mask = self.vectors(*inputs)
        return self.encoder(x, mask), mask

    def states(self, *inputs: Tensor) -> Vectors:
        return self.token_states(*inputs)[0]

    def features(self, *inputs: Tensor) -> Float[Tensor, "B pooled"]:
        """Return a vector for each example."""
        return self.pool(*self.token_states(*inputs))

    def forward(self, *inputs: Tensor) -> Float[Tensor, "B out"]:
        return self.head(self.features(*inputs))


class TextPredictor(Predictor):
    """A predictor of B×T tokens with a mask."""

    def __init__(self, *, word_dropout: float = 0.0, **parts: Any) -> None:
        """Create the model from the parts of a `Predictor`."""
        super().__init__(**parts)
        self.word_dropout = WordDropout(word_dropout)

    def vectors(self, *inputs: Tensor) -> MaskedVectors:
        tokens, mask = inputs if len(inputs) == 2 else (*inputs, None)
        return self.word_dropout(self.embed(tokens)), mask


class BagPredictor(nn.Module, CountsTokens, HasVectors, HasWordVectors):
    """A bag of words with a bias, or with the remaining layers of an MLP.

    `features` are the scores before the bias, or the inputs of the first hidden layer's activation.
    """

    def __init__(self, *, bag: BagOfWords, head: nn.Module) -> None:
        super().__init__()
        self.bag = bag
        self.head = head
        self.weighting = bag.weighting

    def word_vectors(self) -> Tensor:
        """Return what each word adds to the features."""
        return self.bag.table.weight[: self.bag.vocab]

    def text_vectors(
        self, tokens: Ids, mask: Bool[Tensor, "B T"], inside: Bool[Tensor, "B T"]
    ) -> tuple[Vectors, Float[Tensor, "B pooled"]]:
        return pooled_text_vectors(self, tokens, mask)

    def token_weights(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B T"]:
        return self.bag.weights(*self.bag.features(tokens, mask))[:, : tokens.shape[1]]

    def token_states(self, tokens: Ids, mask: Mask = None) -> MaskedVectors:
        return self.states(tokens, mask), mask

    def states(self, tokens: Ids, mask: Mask = None) -> Vectors:
        """Return each token's contribution to the features; 0 at padding."""
        return self.bag.contributions(tokens, mask)

    def features(self, tokens: Ids, mask: Mask = None) -> Vector:
        return self.bag(tokens, mask)

    def pool(self, states: Vectors, mask: Mask = None) -> Vector:
        """Return the features for given states."""
        return states.sum(1)

    def forward(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B out"]:
        return self.head(self.features(tokens, mask))
