"""Texts and pairs of texts as a model reads them: padded token ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.data.features.inputs import Answers, Inputs, Tensors
from glassformer.data.order import TOKENS_AT_ONCE, by_lengths, token_borders
from glassformer.data.split.pairs import Pairs
from glassformer.text.tokenizer import Roles, Tokenizer


@dataclass(frozen=True, eq=False)
class Sequences:
    """Token ids of several texts; those of text i are ids[starts[i] : starts[i + 1]]."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    pad: int

    @classmethod
    def concatenate(
        cls, texts: Sequence[NDArray[np.int32]], pad: int | None, before: Sequence[int] = (), after: Sequence[int] = ()
    ) -> Self:
        """Concatenate the ids of texts, with the tokens `before` and `after` each text."""
        ids = list(texts)
        if before or after:
            first, last = np.array(before, np.int32), np.array(after, np.int32)
            ids = [np.concatenate([first, text, last]) for text in texts]
        starts = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return cls(np.concatenate([np.empty(0, np.int32), *ids]), starts, pad or 0)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def of(self, row: int) -> list[int]:
        """Return the tokens of one text."""
        ids: list[int] = self.ids[self.starts[row] : self.starts[row + 1]].tolist()
        return ids

    def select(self, rows: NDArray[np.int64]) -> "Sequences":
        """Return only these texts."""
        pieces = [self.ids[self.starts[row] : self.starts[row + 1]] for row in rows.tolist()]
        return Sequences.concatenate(pieces, self.pad)

    def count(self, token: int | None) -> int:
        """Return the number of occurrences of a token; 0 for None."""
        return 0 if token is None else int((self.ids == token).sum())

    def padded(self, rows: NDArray[np.int64]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Return the tokens of these texts, padded to the longest of them, and their mask."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        places = np.arange(max(1, int(lengths.max(initial=0))))
        mask = places < lengths[:, None]
        tokens = np.full(mask.shape, self.pad, np.int64)
        for text, start, length in zip(tokens, starts.tolist(), lengths.tolist(), strict=True):
            text[:length] = self.ids[start : start + length]
        return torch.from_numpy(tokens), torch.from_numpy(mask)

    @staticmethod
    def trim(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Remove unnecessary padding from some rows of a result of `padded`."""
        longest = max(1, int(mask.sum(1).max()))
        return ids[:, :longest], mask[:, :longest]


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """Texts with an answer each."""

    tokens: Sequences
    answers: Answers
    texts: Sequence[str]
    cut: int
    """Number of texts longer than the context."""
    unk: int | None = None
    """Token for unknown text; None if the tokenizer can encode every text."""
    frame: int = 0
    """Number of special tokens that are added around each text."""

    noun = "text"
    has_words = True

    @property
    def unknown(self) -> int:
        """Return the number of ids that are UNK."""
        return self.tokens.count(self.unk)

    @property
    def unknown_tokens(self) -> NDArray[np.float64]:
        """Share of unknown tokens in each text: 1 if it has no known token, 0 if it is empty."""
        counts = self.tokens.lengths - self.frame
        unknown = np.diff(np.concatenate([[0], np.cumsum(self.ids == self.unk)])[self.tokens.starts])
        shares = unknown / np.maximum(counts, 1)
        for row in np.flatnonzero(counts == 0).tolist():
            shares[row] = float(bool(self.texts[row].strip()))
        return shares

    @property
    def ids(self) -> NDArray[np.int32]:
        return self.tokens.ids

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.tokens.lengths

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return self.tokens.padded(rows)

    def select(self, rows: NDArray[np.int64]) -> "Examples":
        texts = [self.texts[row] for row in rows.tolist()]
        return Examples(self.tokens.select(rows), self.answers[rows], texts, self.cut, self.unk, self.frame)

    def trim(self, tensors: Tensors) -> Tensors:
        return self.tokens.trim(*tensors)


def encode_examples(
    texts: Sequence[str],
    answers: Answers,
    tokenizer: Tokenizer,
    *,
    context: int,
    framed: bool,
    translated: bool = False,
) -> Examples:
    """Encode texts; those longer than the context are cut before END.

    `framed`: put START before and END after each text. `translated`: put no START before the texts.
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
    tokens = Sequences.concatenate([ids[:room] for ids in encoded], tokenizer.pad, before, after)
    return Examples(tokens, answers, texts, cut, tokenizer.unk, len(before) + len(after))


# --- pairs ---

Batch = tuple[NDArray[np.int64], Int[Tensor, "B S"], Bool[Tensor, "B S"], Int[Tensor, "B T"], Bool[Tensor, "B T"]]
"""Rows of some pairs, the padded sources and their mask, the padded targets and their mask."""


@dataclass(frozen=True, eq=False)
class PairExamples:
    """Pairs of texts. A source ends with END. A target is START … END: START is only read, and END only predicted.

    Imported tokenizers may have other tokens around texts, and several before a target (`Roles`).
    """

    source: Sequences
    target: Sequences
    sources: Sequence[str]
    """The uncut texts."""
    targets: Sequence[str]
    dropped: Sequence[int]
    """Rows of the part that were dropped because their pairs exceed the context."""
    cut: int
    """Number of pairs that were cut."""
    unknown: tuple[int, int]
    """Numbers of UNK tokens in sources and in targets."""

    def __len__(self) -> int:
        return len(self.source)

    def select(self, rows: NDArray[np.int64]) -> "PairExamples":
        """Return only these pairs."""
        sources, targets = ([texts[row] for row in rows.tolist()] for texts in (self.sources, self.targets))
        source, target = self.source.select(rows), self.target.select(rows)
        return PairExamples(source, target, sources, targets, self.dropped, self.cut, self.unknown)

    def batches(self, rows: NDArray[np.int64] | None = None) -> Iterator[Batch]:
        """Yield batches of these pairs (default: all) with similar lengths."""
        for some in self.batch_rows(np.arange(len(self)) if rows is None else rows):
            yield self.side_by_side(some)

    def batch_rows(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each batch."""
        source, target = self.source.lengths[rows], self.target.lengths[rows]
        order = by_lengths(source, target)
        for first, last in pairwise(token_borders(TOKENS_AT_ONCE, source[order], target[order])):
            yield rows[order[first:last]]

    def side_by_side(self, rows: NDArray[np.int64]) -> Batch:
        """Return these pairs as one batch."""
        return rows, *self.source.padded(rows), *self.target.padded(rows)


def encode_pairs(
    pairs: Pairs, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, *, context: int, too_long: str
) -> PairExamples:
    """Encode pairs with at most `context` tokens per side, with END but without START.

    Longer pairs are dropped, or with `too_long` "cut" they are cut before END.
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
        [sources[row][:room] for row in kept], source_tokenizer.pad, of_source.source, of_source.closing
    )
    target = Sequences.concatenate(
        [targets[row][:target_room] for row in kept], target_tokenizer.pad, of_target.opening, of_target.closing
    )
    texts = [pairs.sources[row] for row in kept], [pairs.targets[row] for row in kept]
    dropped = [row for row in range(len(pairs)) if long[row]] if too_long == "drop" else []
    unknown = source.count(source_tokenizer.unk), target.count(target_tokenizer.unk)
    return PairExamples(source, target, *texts, dropped, cut=sum(long) if too_long == "cut" else 0, unknown=unknown)


def source_room(roles: Roles, context: int) -> int:
    """Return the number of tokens of a text that fit into a source."""
    return context - len(roles.source) - len(roles.closing)


def target_room_of(roles: Roles, context: int) -> int:
    """Return the number of tokens of a text that fit into a target: START is only read, and END only predicted."""
    return context - max(len(roles.opening), len(roles.closing))
