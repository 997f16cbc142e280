"""Labelled texts as a model reads them: token ids, end to end, and what is to be said of each text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.text.tokenizer import Tokenizer

TOKENS_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False)
class Examples:
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

    def __len__(self) -> int:
        return len(self.texts)

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

    def batches(self) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
        """All texts once, those of like length together: which they are, their tokens padded, and the mask."""
        order = np.argsort(self.lengths, kind="stable")
        for first, last in pairwise(_borders(self.lengths[order])):
            rows = order[first:last]
            yield rows, *self.padded(rows)


def _borders(lengths: NDArray[np.int64]) -> list[int]:
    """Where to cut rising lengths so that no stretch, padded, holds more than TOKENS_AT_ONCE tokens (or one text)."""
    borders = [0]
    for place, length in enumerate(lengths.tolist()):
        if (place + 1 - borders[-1]) * length > TOKENS_AT_ONCE and place > borders[-1]:
            borders.append(place)
    return [*borders, len(lengths)] if len(lengths) else borders


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
