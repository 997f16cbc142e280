"""A sequence-to-sequence model: an encoder reads one text, a decoder writes another while it looks at the first."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.encoders.base import Encoder, State


class Seq2Seq(nn.Module):
    """Scores for the next token of the target after each of its tokens, given the source.

    `encode` reads the source, and `init_state` and `extend` write piece by piece; `forward` does all of it at once.
    """

    opaque = True

    def __init__(
        self,
        *,
        embed_source: WordVectors | OneHot,
        encoder: Encoder,
        embed_target: WordVectors | OneHot,
        decoder: Encoder,
        vocab: int,
        tied: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.embed_source = embed_source
        self.encoder = encoder
        self.embed_target = embed_target
        """With the same table as `embed_source` where both sides share their word vectors."""
        self.decoder = decoder
        self.head = nn.Linear(decoder.width, vocab, bias=bias)
        if tied:
            assert isinstance(embed_target, WordVectors)
            self.head.weight = embed_target.table.weight

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Memory:
        """What the decoder will look at: a vector for each token of the source."""
        return Memory(self.encoder(self.embed_source(source), mask), mask)

    def features(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"] | None,
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        memory = self.encode(source, source_mask)
        return self.decoder(self.embed_target(target), target_mask, memory=memory)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"] | None,
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        return self.head(self.features(source, source_mask, target, target_mask))

    def init_state(self, memory: Memory, max_tokens: int) -> State:
        """The state before the first token of the target, with room for this many."""
        return self.decoder.init_state(memory.states.shape[0], max_tokens, memory)

    def extend(
        self, tokens: Int[Tensor, "B T"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        """Features of more tokens of the target; `head` scores those that matter."""
        return self.decoder.extend(self.embed_target(tokens), state, mask)
