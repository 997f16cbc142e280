"""A language model: word vectors, any causal encoder, and a head that scores every word of the vocabulary."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.encoders.base import State
from glassformer.models.token_model import TokenModel


class LanguageModel(TokenModel):
    """Scores for the next token after each token."""

    def init_state(self, batch: int, max_tokens: int) -> State:
        """The state before the first token, with room for this many."""
        return self.encoder.init_state(batch, max_tokens)

    def extend(
        self, tokens: Int[Tensor, "B T"], state: State, mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d"]:
        """Features of more tokens; `head` scores those that matter."""
        return self.encoder.extend(self.embed(tokens), state, mask)
