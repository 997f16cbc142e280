"""A language model: word vectors, any causal encoder, and a head that scores every word of the vocabulary."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.encoders.base import Encoder, State


class LanguageModel(nn.Module):
    """Scores for the next token after each token.

    `features` stands apart from `head`: the loss over a large vocabulary, fine-tuning and lenses need the seam.
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

    def features(
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

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T V"]:
        return self.head(self.features(tokens, mask))

    def start(self, batch: int, room: int) -> State:
        """The state before the first token."""
        return self.encoder.start(batch, room)

    def extend(
        self, tokens: Int[Tensor, "B T"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        """Features of more tokens; `head` scores those that matter."""
        return self.encoder.extend(self.embed(tokens), state, mask)
