"""Texts as a model reads them: token ids end to end, some side by side with padding, and what is to be said of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.data.features.inputs import Inputs, Tensors
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Sequences:
    """The ids of text i are ids[starts[i] : starts[i + 1]]."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    pad: int

    @classmethod
    def concatenate(cls, texts: Sequence[NDArray[np.int32]], pad: int) -> Self:
        """The ids of all texts, from those of each."""
        ids = np.concatenate([np.empty(0, np.int32), *texts])
        return cls(ids, np.cumsum([0, *map(len, texts)], dtype=np.int64), pad)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def of(self, row: int) -> list[int]:
        """The tokens of one text."""
        ids: list[int] = self.ids[self.starts[row] : self.starts[row + 1]].tolist()
        return ids

    def count(self, token: int | None) -> int:
        """How often one token stands in the texts; None, which stands for no token, never does."""
        return 0 if token is None else int((self.ids == token).sum())

    def padded(self, rows: NDArray[np.int64]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """The tokens of these texts, padded to the longest of them, and which of them are real."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        places = np.arange(max(1, int(lengths.max(initial=0))))
        mask = places < lengths[:, None]
        at = np.minimum(starts[:, None] + places, max(0, len(self.ids) - 1))
        tokens = self.ids[at] if len(self.ids) else np.zeros(mask.shape, np.int32)
        return torch.from_numpy(np.where(mask, tokens, self.pad).astype(np.int64)), torch.from_numpy(mask)

    @staticmethod
    def trim(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Some rows of what `padded` gave, without padding that none of them needs."""
        longest = max(1, int(mask.sum(1).max()))
        return ids[:, :longest], mask[:, :longest]


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """Texts, and an answer to each."""

    tokens: Sequences
    answers: NDArray[Any]
    """A class number, or a number, for each text."""
    texts: Sequence[str]
    cut: int
    """How many texts were longer than the context."""
    unknown: int
    """How many ids are UNK."""

    noun = "text"

    @property
    def ids(self) -> NDArray[np.int32]:
        return self.tokens.ids

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.tokens.starts

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.tokens.lengths

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return self.tokens.padded(rows)

    def trim(self, tensors: Tensors) -> Tensors:
        return self.tokens.trim(*tensors)


def encode_examples(
    texts: Sequence[str],
    answers: NDArray[Any],
    tokenizer: Tokenizer,
    *,
    context: int,
    framed: bool,
    translated: bool = False,
) -> Examples:
    """`framed`: START stands before each text and END after it, for models that know where a text begins and ends;
    before one that is to be `translated`, START does not.

    A text longer than the context is cut; its END stays.
    """
    roles = tokenizer.roles
    before = list(roles.source if translated else roles.opening) if framed else []
    after = list(tokenizer.roles.closing) if framed else []
    room = context - len(before) - len(after)
    if room < 1:
        raise SettingError(
            f"model.context {context} leaves no room for a word beside START and END: it must be at least "
            f"{len(before) + len(after) + 1}"
        )
    encoded = tokenizer.encode_batch(texts)
    cut = sum(len(ids) > room for ids in encoded)
    pieces = [np.concatenate([before, ids[:room], after]).astype(np.int32) for ids in encoded]
    tokens = Sequences.concatenate(pieces, tokenizer.pad or 0)
    return Examples(tokens, answers, texts, cut, tokens.count(tokenizer.unk))
