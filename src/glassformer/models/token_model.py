"""What models that score every token of a vocabulary share: word vectors, an encoder, a head."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.encoders.base import Encoder


class TokenModel(nn.Module):
    """Scores for a token at each place.

    `states` are the encoder's vectors, `features` what the head scores: the states, made `ready` for it. They stand
    apart from `head`: the loss over a large vocabulary, fine-tuning and lenses need the seam.
    """

    opaque = True

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

    def ready(self, states: Float[Tensor, "*places d"]) -> Float[Tensor, "*places d"]:
        """What the head scores of the encoder's vectors: by itself, these."""
        return states

    def features(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        return self.ready(self.states(tokens, mask, segments=segments))

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T V"]:
        return self.head(self.features(tokens, mask))
