"""Labelled texts as a model reads them: token ids, end to end, and what is to be said of each text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.data.inputs import Inputs, Tensors
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """The ids of text i are ids[starts[i] : starts[i + 1]]."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    answers: NDArray[Any]
    """A class number, or a number, for each text."""
    texts: Sequence[str]
    pad: int
    cut: int
    """How many texts were longer than the context."""
    unknown: int
    """How many ids are UNK."""

    noun = "text"

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def padded(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The tokens of these texts, padded to the longest of them, and which of them are real."""
        lengths = self.lengths[rows]
        places = np.arange(max(1, int(lengths.max(initial=0))))
        mask = places < lengths[:, None]
        at = np.minimum(self.starts[rows][:, None] + places, max(0, len(self.ids) - 1))
        tokens = self.ids[at] if len(self.ids) else np.zeros(mask.shape, np.int32)
        return torch.from_numpy(np.where(mask, tokens, self.pad).astype(np.int64)), torch.from_numpy(mask)

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return self.padded(rows)

    def trimmed(self, tensors: Tensors) -> Tensors:
        ids, mask = tensors
        longest = max(1, int(mask.sum(1).max()))
        return ids[:, :longest], mask[:, :longest]


def encode_examples(
    texts: Sequence[str], answers: NDArray[Any], tokenizer: Tokenizer, *, context: int, framed: bool
) -> Examples:
    """`framed`: START stands before each text and END after it, for models that know where a text begins and ends.

    A text longer than the context is cut; its END stays.
    """
    before = [tokenizer.start] if framed and tokenizer.start is not None else []
    after = [tokenizer.end] if framed and tokenizer.end is not None else []
    room = context - len(before) - len(after)
    if room < 1:
        raise SettingError(
            f"model.context {context} leaves no room for a word beside START and END: it must be at least "
            f"{len(before) + len(after) + 1}"
        )
    encoded = tokenizer.encode_batch(texts)
    cut = sum(len(ids) > room for ids in encoded)
    pieces = [np.concatenate([before, ids[:room], after]).astype(np.int32) for ids in encoded]
    ids = np.concatenate([np.empty(0, np.int32), *pieces])
    return Examples(
        ids,
        np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64),
        answers,
        texts,
        pad=tokenizer.pad or 0,
        cut=cut,
        unknown=0 if tokenizer.unk is None else int((ids == tokenizer.unk).sum()),
    )
