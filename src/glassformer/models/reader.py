"""Models that read a whole text and answer with a few numbers: the classifier and the regressor."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.word_dropout import WordDropout
from glassformer.encoders.base import Encoder


class Reader(nn.Module):
    """Word vectors, any encoder, a pool that makes one vector of the text, and a head that answers.

    `features` stands apart from `head`, as in the language model.
    """

    def __init__(
        self,
        *,
        embed: WordVectors | OneHot,
        encoder: Encoder,
        pool: nn.Module,
        head: nn.Module,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.word_dropout = WordDropout(word_dropout)
        self.encoder = encoder
        self.pool = pool
        self.head = head

    def states(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T d"]:
        """A vector for each token; at padding, whatever it may be."""
        return self.encoder(self.word_dropout(self.embed(tokens)), mask)

    def features(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B d"]:
        """A vector for the text."""
        return self.pool(self.states(tokens, mask), mask)

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B out"]:
        return self.head(self.features(tokens, mask))


class BagReader(nn.Module):
    """A bag of words and what follows: a bias, and the scores are there; or the rest of an MLP.

    `features` are the scores before the bias, or the sums that go into the first hidden layer.
    """

    def __init__(self, *, bag: BagOfWords, head: nn.Module) -> None:
        super().__init__()
        self.bag = bag
        self.head = head

    def states(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T d"]:
        """What each token adds to the features; padding adds 0."""
        return self.bag.contributions(tokens, mask)

    def features(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B d"]:
        return self.bag(tokens, mask)

    def pool(self, states: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B d"]:
        """The features, where the states are there already."""
        return states.sum(1)

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B out"]:
        return self.head(self.features(tokens, mask))
