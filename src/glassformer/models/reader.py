"""Models that read a whole example and answer with a few numbers: the classifier and the regressor."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import OneHot, WordDropout, WordVectors
from glassformer.encoders.base import Encoder
from glassformer.inspection.numbers.terms import Vectors


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

    def vectors(self, *inputs: Tensor) -> Vectors:
        """What the encoder reads, and which of it is real."""
        out: Vectors = self.embed(*inputs)
        return out

    def states(self, *inputs: Tensor) -> Float[Tensor, "B T d"]:
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

    def __init__(
        self,
        *,
        embed: WordVectors | OneHot,
        encoder: Encoder,
        pool: nn.Module,
        head: nn.Module,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__(embed=embed, encoder=encoder, pool=pool, head=head)
        self.word_dropout = WordDropout(word_dropout)

    def vectors(self, *inputs: Tensor) -> Vectors:
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
