"""A masked language model: some tokens of a text are hidden, and guessed from all the others, on both sides."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.models.token_model import TokenModel


class Transform(nn.Module):
    """What BERT does between the last block and the scores: norm(g(Wx + b))."""

    def __init__(self, *, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = norm

    def forward(self, x: Float[Tensor, "*rest d"]) -> Float[Tensor, "*rest d"]:
        return self.norm(self.activation(self.map(x)))


class MaskedLanguageModel(TokenModel):
    """Scores for the token at each place, which may be hidden; the encoder reads both ways."""

    def __init__(self, *, transform: Transform | None = None, **parts: Any) -> None:
        """`parts`: as of any model of tokens."""
        super().__init__(**parts)
        self.transform = transform

    def ready(self, states: Float[Tensor, "*places d"]) -> Float[Tensor, "*places d"]:
        return states if self.transform is None else self.transform(states)
