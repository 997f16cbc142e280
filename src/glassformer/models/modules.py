"""Whole models. Those that score every token of a vocabulary: the language model, the masked one, the translator. Those
that read a whole example and answer with a few numbers: the classifier and the regressor.
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
from glassformer.encoders.base import Encoder, State
from glassformer.models.inputs import MaskedVectors, TokenVectors


def device_of(model: nn.Module) -> torch.device:
    return next((weight.device for weight in chain(model.parameters(), model.buffers())), torch.device("cpu"))


class TokenModel(nn.Module):
    """Scores for a token at each place.

    `states` are the encoder's vectors, `features` what the head scores: the states, made `ready` for it. They stand
    apart from `head`: the loss over a large vocabulary, fine-tuning and lenses need the seam.
    """

    opaque = True

    def __init__(
        self, *, embed: TokenVectors, encoder: Encoder, vocab: int, context: int, tied: bool, bias: bool = False
    ) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, vocab, bias=bias)
        self.context = context
        """Tokens it is trained on at once."""
        if tied:
            assert isinstance(embed, WordVectors)
            self.head.weight = embed.table.weight

    def states(self, tokens: Ids, mask: Mask = None, *, segments: Ids | None = None) -> Vectors:
        """`segments`: which of several texts in one window each token belongs to; none knows of another."""
        if segments is None:
            return self.encoder(self.embed(tokens), mask)
        return self.encoder(self.embed(tokens), mask, segments=segments)

    def ready(self, states: Float[Tensor, "*places d"]) -> Float[Tensor, "*places d"]:
        """What the head scores of the encoder's vectors: by itself, these."""
        return states

    def features(self, tokens: Ids, mask: Mask = None, *, segments: Ids | None = None) -> Vectors:
        return self.ready(self.states(tokens, mask, segments=segments))

    def forward(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B T V"]:
        return self.head(self.features(tokens, mask))


class LanguageModel(TokenModel):
    """Scores for the next token after each token."""

    def init_state(self, batch: int, max_tokens: int) -> State:
        """The state before the first token, with room for this many."""
        return self.encoder.init_state(batch, max_tokens)

    def extend(self, tokens: Ids, state: State, mask: Mask = None) -> Vectors:
        """Features of more tokens; `head` scores those that matter."""
        return self.encoder.extend(self.embed(tokens), state, mask)


class Transform(nn.Module):
    """What BERT does between the last block and the scores: norm(g(Wx + b))."""

    def __init__(self, *, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = norm

    def forward(self, x: AnyVectors) -> AnyVectors:
        return self.norm(self.activation(self.map(x)))


class MaskedLanguageModel(TokenModel):
    """Scores for the token at each place, which may be hidden; the encoder reads both ways."""

    def __init__(self, *, transform: Transform | None = None, **parts: Any) -> None:
        """`parts`: as of any model of tokens."""
        super().__init__(**parts)
        self.transform = transform

    def ready(self, states: Float[Tensor, "*places d"]) -> Float[Tensor, "*places d"]:
        return states if self.transform is None else self.transform(states)


class Seq2Seq(nn.Module):
    """Scores for the next token of the target after each of its tokens, given the source.

    `encode` reads the source, and `init_state` and `extend` write piece by piece; `forward` does all of it at once.
    """

    opaque = True

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
        """The target's word vectors; the same table as `embed_source` where both sides share them."""
        self.decoder = decoder
        self.head = nn.Linear(decoder.width, vocab, bias=bias)
        if tied:
            assert isinstance(embed_target, WordVectors)
            self.head.weight = embed_target.table.weight

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Memory:
        """What the decoder will look at: a vector for each token of the source."""
        return Memory(self.encoder(self.embed_source(source), mask), mask)

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
        """The state before the first token of the target, with room for this many."""
        return self.decoder.init_state(memory.states.shape[0], max_tokens, memory)

    def extend(self, tokens: Ids, state: State, mask: Mask = None) -> Vectors:
        """Features of more tokens of the target; `head` scores those that matter."""
        return self.decoder.extend(self.embed_target(tokens), state, mask)


class Predictor(nn.Module):
    """Vectors of what an example is made of, any encoder, a pool that makes one vector of them, a head that answers.

    `embed` maps what the model is called with to B×T×d and a mask. `features` stands apart from `head`, as in the
    language model.
    """

    opaque = True

    def __init__(self, *, embed: nn.Module, encoder: Encoder, pool: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.pool = pool
        self.head = head

    def vectors(self, *inputs: Tensor) -> MaskedVectors:
        """What the encoder reads, and which of it is real."""
        return self.embed(*inputs)

    def states(self, *inputs: Tensor) -> Vectors:
        """A vector for each token; at padding, whatever it may be."""
        return self.encoder(*self.vectors(*inputs))

    def features(self, *inputs: Tensor) -> Float[Tensor, "B pooled"]:
        """A vector for the example."""
        x, mask = self.vectors(*inputs)
        return self.pool(self.encoder(x, mask), mask)

    def forward(self, *inputs: Tensor) -> Float[Tensor, "B out"]:
        return self.head(self.features(*inputs))


class TextPredictor(Predictor):
    """Reads B×T tokens, and a mask."""

    def __init__(self, *, word_dropout: float = 0.0, **parts: Any) -> None:
        """`parts`: as of any predictor."""
        super().__init__(**parts)
        self.word_dropout = WordDropout(word_dropout)

    def vectors(self, *inputs: Tensor) -> MaskedVectors:
        tokens, mask = inputs if len(inputs) == 2 else (*inputs, None)
        return self.word_dropout(self.embed(tokens)), mask


class BagPredictor(nn.Module):
    """A bag of words and what follows: a bias, and the scores are there; or the rest of an MLP.

    `features` are the scores before the bias, or the sums that go into the first hidden layer.
    """

    def __init__(self, *, bag: BagOfWords, head: nn.Module) -> None:
        super().__init__()
        self.bag = bag
        self.head = head

    def states(self, tokens: Ids, mask: Mask = None) -> Vectors:
        """What each token adds to the features; padding adds 0."""
        return self.bag.contributions(tokens, mask)

    def features(self, tokens: Ids, mask: Mask = None) -> Vector:
        return self.bag(tokens, mask)

    def pool(self, states: Vectors, mask: Mask = None) -> Vector:
        """The features, where the states are there already."""
        return states.sum(1)

    def forward(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B out"]:
        return self.head(self.features(tokens, mask))
