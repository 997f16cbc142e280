"""A user's own `nn.Module` as a language model: B×T tokens in, B×T×V logits out."""

import inspect

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks import Ids, Mask, Rows
from glassformer.bricks.attention import Memory
from glassformer.bricks.own import OwnCode, of_shape
from glassformer.config.errors import GlassformerError, SettingError, error_line
from glassformer.encoders.base import Encoder, State
from glassformer.models.capabilities import HasVectors
from glassformer.models.modules import LanguageModel, device_of

PROBED_TOKENS = 5
FUTURE_TOLERANCE = 1e-3
"""Largest change of a logit, relative to the largest one, when a later token changes."""


class Logits(nn.Module):
    """The head of a module that returns logits itself: the identity."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.out_features = vocab

    def forward(self, logits: Float[Tensor, "*places V"]) -> Float[Tensor, "*places V"]:
        return logits


class TokenIds(nn.Module):
    """The embedding of a module that embeds tokens itself: the ids as they are."""

    def forward(self, tokens: Ids) -> Int[Tensor, "B T 1"]:
        return tokens.unsqueeze(-1)


class PastTokens(State):
    """The tokens so far. A module without a cache reads all of them again for each new token."""

    def __init__(self, tokens: Ids, lengths: Rows) -> None:
        self.tokens, self.lengths = tokens, lengths

    def select(self, rows: Rows) -> "PastTokens":
        return PastTokens(self.tokens[rows], self.lengths[rows])

    def expand_beams(self, times: int) -> "PastTokens":
        return PastTokens(self.tokens.repeat_interleave(times, 0), self.lengths.repeat_interleave(times))

    def add(self, new: Ids, mask: Mask) -> Ids:
        """Append tokens to each row where the mask is True, and return their positions."""
        positions = self.lengths.unsqueeze(1) + torch.arange(new.shape[1], device=new.device)
        counts = torch.full_like(self.lengths, new.shape[1]) if mask is None else mask.sum(1)
        length = int((self.lengths + counts).max())
        tokens = new.new_zeros(len(new), max(length, int(positions.max()) + 1))
        tokens[:, : self.tokens.shape[1]] = self.tokens
        written = new if mask is None else torch.where(mask, new, tokens.gather(1, positions))
        self.tokens = tokens.scatter(1, positions, written)[:, :length]
        self.lengths = self.lengths + counts
        return positions.clamp(max=length - 1)


class OwnTokenModule(OwnCode, Encoder):
    """A user's module used as an encoder; its outputs are the logits.

    `forward(tokens)` returns B×T×V, or a tuple that begins with it, such as logits and a recurrent state.
    """

    causal = True
    has_states = False

    def __init__(self, own: nn.Module, *, vocab: int, context: int) -> None:
        super().__init__()
        self.own = own
        self.width, self.limit = vocab, context
        self.takes_mask = "mask" in inspect.signature(own.forward).parameters

    def forward(
        self, x: Int[Tensor, "B T 1"], mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Float[Tensor, "B T V"]:
        self.refuse_extras(memory, segments)
        tokens = x.squeeze(-1)
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        output: object = self.own(tokens, mask=real) if self.takes_mask else self.own(tokens)
        logits = output[0] if isinstance(output, tuple) and output else output
        return of_shape(type(self.own).__name__, logits, *tokens.shape, self.width)

    def layer_outputs(self) -> list[tuple[str, ...]]:
        """Return an empty list: the layers of a user's module are unknown."""
        return []

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> PastTokens:
        device = device_of(self)
        empty = torch.zeros(batch, 0, dtype=torch.long, device=device)
        return PastTokens(empty, torch.zeros(batch, dtype=torch.long, device=device))

    def extend(self, x: Int[Tensor, "B T 1"], state: State, mask: Mask = None) -> Float[Tensor, "B T V"]:
        assert isinstance(state, PastTokens)
        positions = state.add(x.squeeze(-1), mask)
        real = torch.arange(state.tokens.shape[1], device=x.device) < state.lengths.unsqueeze(1)
        logits = self.forward(state.tokens.unsqueeze(-1), None if mask is None else real)
        return logits.gather(1, positions.unsqueeze(-1).expand(-1, -1, self.width))


class OwnLanguageModel(LanguageModel):
    """A language model whose embedding, layers and head are a user's own module."""

    encoder: OwnTokenModule

    def __init__(self, own: nn.Module, *, vocab: int, context: int) -> None:
        nn.Module.__init__(self)
        self.embed = TokenIds()  # type: ignore[assignment]
        self.encoder = OwnTokenModule(own, vocab=vocab, context=context)
        self.head = Logits(vocab)  # type: ignore[assignment]
        self.context = context

    def lacks(self, kind: type) -> bool:
        """Return True for capabilities that need vectors, which only the user's module knows."""
        return kind is HasVectors or super().lacks(kind)

    @torch.no_grad()
    def check_causal(self) -> None:
        """Raise `SettingError` if a logit depends on a later token: such a model would read the answer."""
        training, vocab = self.training, self.encoder.width
        tokens = torch.arange(min(PROBED_TOKENS, self.context), device=device_of(self)).unsqueeze(0) % vocab
        changed = tokens.clone()
        changed[:, -1] = (tokens[:, -1] + 1) % vocab
        try:
            with torch.random.fork_rng(devices=[]):
                before, after = (self.eval()(each)[:, :-1] for each in (tokens, changed))
        except GlassformerError:
            raise
        except Exception as error:
            name, shape = type(self.encoder.own).__name__, "×".join(map(str, tokens.shape))
            raise SettingError(f"{name} fails on {shape} tokens: {error_line(error)}") from error
        self.train(training)
        if before.numel() and float((before - after).abs().max()) > FUTURE_TOLERANCE * float(before.abs().max()):
            name = type(self.encoder.own).__name__
            raise SettingError(f"{name} reads the future: a logit depends on a later token; use a causal mask")
