"""Pairs of texts as a model reads them: the source's token ids and the target's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.data.features.texts import Sequences
from glassformer.data.order import TOKENS_AT_ONCE, by_lengths, token_borders
from glassformer.data.split.pairs import Pairs
from glassformer.text.roles import Roles
from glassformer.text.tokenizer import Tokenizer

Batch = tuple[NDArray[np.int64], Int[Tensor, "B S"], Bool[Tensor, "B S"], Int[Tensor, "B T"], Bool[Tensor, "B T"]]
"""Some pairs side by side: which they are, the sources padded and their mask, the targets and theirs."""


@dataclass(frozen=True, eq=False)
class PairExamples:
    """A source ends with END; a target is START … END, of which START is only read and END only an answer.

    A tokenizer made elsewhere may have other tokens around its texts, and several before a target (`Roles`).
    """

    source: Sequences
    target: Sequences
    sources: Sequence[str]
    """The texts; in a pair that was cut, still whole."""
    targets: Sequence[str]
    dropped: int
    """How many pairs were longer than the context, and are not here."""
    cut: int
    """How many were, and are cut."""
    unknown: tuple[int, int]
    """How many ids of sources and of targets are UNK."""

    def __len__(self) -> int:
        return len(self.source)

    def batches(self, rows: NDArray[np.int64] | None = None) -> Iterator[Batch]:
        """These pairs (unset: all) once, those of like length together."""
        rows = np.arange(len(self)) if rows is None else rows
        source, target = self.source.lengths[rows], self.target.lengths[rows]
        order = by_lengths(source, target)
        for first, last in pairwise(token_borders(TOKENS_AT_ONCE, source[order], target[order])):
            some = rows[order[first:last]]
            yield some, *self.source.padded(some), *self.target.padded(some)


def encode_pairs(
    pairs: Pairs,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    context: int,
    too_long: str,
) -> PairExamples:
    """Each side has `context` tokens at most, END among them; START, which is never an answer, comes on top.

    A pair with a longer side is dropped; or with `too_long` "cut", that side is cut, and its END stays.
    """
    of_source, of_target = source_tokenizer.roles, target_tokenizer.roles
    if not of_source.closing or not of_target.opening or not of_target.closing:
        raise SettingError("translating needs a tokenizer with <start> and <end>: leave tokenizer.file unset")
    room, target_room = source_room(of_source, context), target_room_of(of_target, context)
    if min(room, target_room) < 1:
        least = context + 1 - min(room, target_room)
        raise SettingError(f"model.context {context} leaves no room for a word beside END: it must be at least {least}")
    sources, targets = source_tokenizer.encode_batch(pairs.sources), target_tokenizer.encode_batch(pairs.targets)
    long = [len(one) > room or len(other) > target_room for one, other in zip(sources, targets, strict=True)]
    kept = [row for row in range(len(pairs)) if too_long == "cut" or not long[row]]
    source = Sequences.concatenate(
        [_frame(of_source.source, sources[row][:room], of_source.closing) for row in kept], source_tokenizer.pad or 0
    )
    target = Sequences.concatenate(
        [_frame(of_target.opening, targets[row][:target_room], of_target.closing) for row in kept],
        target_tokenizer.pad or 0,
    )
    return PairExamples(
        source,
        target,
        [pairs.sources[row] for row in kept],
        [pairs.targets[row] for row in kept],
        dropped=len(pairs) - len(kept),
        cut=sum(long) if too_long == "cut" else 0,
        unknown=(source.count(source_tokenizer.unk), target.count(target_tokenizer.unk)),
    )


def source_room(roles: Roles, context: int) -> int:
    """Tokens of a text that fit into a source."""
    return context - len(roles.source) - len(roles.closing)


def target_room_of(roles: Roles, context: int) -> int:
    """Tokens of a text that fit into a target: what is before them is read, what is after them only an answer."""
    return context - max(len(roles.opening), len(roles.closing))


def _frame(before: Sequence[int], ids: NDArray[np.int32], after: Sequence[int]) -> NDArray[np.int32]:
    return np.concatenate([before, ids, after]).astype(np.int32)
