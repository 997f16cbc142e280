"""A masked language model: some tokens of a text are hidden, and guessed from all the others, on both sides."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.activation import ACTIVATIONS
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.encoders.base import Encoder


class Transform(nn.Module):
    """What BERT does between the last block and the scores: norm(g(Wx + b))."""

    def __init__(self, *, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = norm

    def forward(self, x: Float[Tensor, "*rest d"]) -> Float[Tensor, "*rest d"]:
        return self.norm(self.activation(self.map(x)))


class MaskedLanguageModel(nn.Module):
    """Scores for the token at each place, which may be hidden; the encoder reads both ways.

    `states` are the encoder's vectors, `features` what the head scores.
    """

    def __init__(
        self,
        *,
        embed: WordVectors | OneHot,
        encoder: Encoder,
        vocab: int,
        context: int,
        tied: bool,
        bias: bool = False,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.transform = transform
        self.head = nn.Linear(encoder.width, vocab, bias=bias)
        self.context = context
        """Tokens it is trained on at once."""
        if tied:
            assert isinstance(embed, WordVectors)
            self.head.weight = embed.table.weight

    def states(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        """`segments`: which of several texts in one window each token belongs to; none knows of another."""
        if segments is None:
            return self.encoder(self.embed(tokens), mask)
        return self.encoder(self.embed(tokens), mask, segments=segments)

    def features(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        states = self.states(tokens, mask, segments=segments)
        return states if self.transform is None else self.transform(states)

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T V"]:
        return self.head(self.features(tokens, mask))
