"""What a training computes: products, tokens, updates."""

from dataclasses import dataclass

ENOUGH_TOKENS = 20
"""Tokens per parameter at which a language model makes most of what is computed (Hoffmann et al. 2022)."""


@dataclass(frozen=True)
class Work:
    """Of a whole training; None: the clock decides, and was not read."""

    tokens: int
    """Of the training part."""
    per_update: float
    """Tokens that an update reads, on average."""
    updates: int | None
    per_epoch: float
    """Updates in which the training part is gone through once."""
    products: float | None
    """Multiplications that each token takes in a forward pass; None: not counted."""

    @property
    def epochs(self) -> float | None:
        return None if self.updates is None else self.updates / self.per_epoch

    @property
    def seen(self) -> float | None:
        """Tokens read in all."""
        return None if self.updates is None else self.updates * self.per_update

    @property
    def flops(self) -> float | None:
        """Of an update: each product comes with a sum, and the backward pass takes twice the forward pass."""
        return None if self.products is None else 6 * self.products * self.per_update

    @property
    def all_flops(self) -> float | None:
        return None if self.updates is None or self.flops is None else self.updates * self.flops

    def per_parameter(self, parameters: int) -> float | None:
        return None if self.seen is None else self.seen / max(1, parameters)
