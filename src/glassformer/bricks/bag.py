"""The bag of words: a text is the words in it, and how often each stands there; their order is gone.

The vector x of a text has a number for every word of the vocabulary, nearly all of them 0. It is never written out: its
product with a matrix is the sum of that matrix's rows for the words that are there.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks import Ids, Mask
from glassformer.bricks.embedding import WordDropout

Features = tuple[Int[Tensor, "B F"], Bool[Tensor, "B F"]]
"""Rows of the table for each text, and which of them are real."""

SPREAD = -7046029254386353131
"""Odd, near 2⁶⁴ over the golden ratio: products with it wrap around and spread over 64 bits."""
NUMBERS_AT_ONCE = 2**22
"""Numbers of the gradient, before they are added up."""


@dataclass(frozen=True)
class Spelled:
    """The words of some texts; W of the text with the most."""

    numbers: Int[Tensor, "B W"]
    """A number for each word: the same for words of the same characters, hardly ever for others."""
    real: Bool[Tensor, "B W"]
    letters: Int[Tensor, "B W"]
    """How many characters each has."""
    place: Ids
    """Which word a character belongs to."""
    letter: Bool[Tensor, "B T"]
    """Whether a character belongs to a word."""


def spelled(tokens: Ids, real: Bool[Tensor, "B T"], space: int, *, most: int | None = None) -> Spelled:
    """The words between the tokens `space`. `most`: room for so many; unset, for those of the text with the most."""
    letter = real & (tokens != space)
    first = (letter & ~F.pad(letter, (1, 0))[:, :-1]).long()
    place = (first.cumsum(1) - 1).clamp(min=0)
    count = first.sum(1, keepdim=True)
    if most is None:
        most = max(1, int(count.max())) if len(tokens) else 1
    here = torch.arange(tokens.shape[1], device=tokens.device)
    none = tokens.new_zeros(tokens.shape[0], most, dtype=torch.long)  # len() would fix the size of a traced batch
    within = here - none.scatter_add(1, place, here * first).gather(1, place)
    # Each character with its place in the word makes a number of its own; a word is the sum of these.
    marks = _spread(_spread(tokens.long() + 1) + within) * letter
    numbers, letters = none.scatter_add(1, place, marks), none.scatter_add(1, place, letter.long())
    return Spelled(numbers, torch.arange(most, device=tokens.device) < count, letters, place, letter)


def _spread(numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Neighbouring numbers, far apart."""
    numbers = numbers * SPREAD
    return (numbers ^ (numbers >> 32)) * SPREAD


class BagOfWords(nn.Module):
    """Wx, where x holds for each feature of a text its count, or its TF-IDF weight.

    Features are words and, up to `ngrams`, runs of neighbouring words; those are hashed to `buckets` rows of the table
    after the words' own. Of texts in characters, runs of whole words up to `words` can be features too, in `buckets` of
    their own: a word is what stands between two tokens `space`, and runs of characters then stay within a word and the
    spaces around it. TF-IDF: count · (ln((1 + n) / (1 + df)) + 1), n texts of which df have the feature, then x is
    divided by its length √Σx², words and characters each by theirs. A feature that no training text had is left out.
    """

    idf: Tensor

    def __init__(
        self,
        *,
        vocab: int,
        out: int,
        ngrams: int = 1,
        buckets: int = 2**18,
        weighting: str = "tfidf",
        words: int = 0,
        space: int | None = None,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab = vocab
        self.ngrams = ngrams
        self.buckets = buckets
        self.weighting = weighting
        self.words = words
        self.space = space
        self.words_from = vocab + (buckets if ngrams > 1 else 0)
        """The first row of the table that belongs to whole words."""
        rows = self.words_from + (buckets if words else 0)
        self.table = nn.EmbeddingBag(rows, out, mode="sum")
        self.word_dropout = WordDropout(word_dropout)
        self.register_buffer("idf", torch.ones(rows))

    @torch.no_grad()
    def learn_frequencies(self, batches: Iterable[tuple[Int[Tensor, "_ _"], Bool[Tensor, "_ _"] | None]]) -> None:
        """Learn from the training texts in how many of them each feature stands. Counts need no such thing."""
        if self.weighting == "counts":
            return
        rows = self.table.num_embeddings
        texts, counts = 0, np.zeros(rows, np.int64)
        for tokens, mask in batches:
            ids, real = self.features(tokens, mask)
            ordered = in_order(ids.masked_fill(~real, rows)).cpu().numpy()
            new = ordered < rows
            new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
            texts += len(tokens)
            counts += np.bincount(ordered[new], minlength=rows)
        having = torch.from_numpy(counts)
        idf = torch.log((1 + texts) / (1 + having.double())) + 1
        self.idf.copy_(idf.masked_fill(having == 0, 0.0))

    def forward(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B out"]:
        ids, real = self.features(tokens, mask)
        return weighted_sums(ids, self.word_dropout(self.weights(ids, real)), self.table.weight)

    def contributions(self, tokens: Ids, mask: Mask = None) -> Float[Tensor, "B T out"]:
        """What each token adds to Wx: together they are all of it. The words of a run share its row evenly."""
        ids, real = self.features(tokens, mask)
        rows = F.embedding(ids, self.table.weight) * self.weights(ids, real).unsqueeze(-1)
        size = tokens.shape[1]
        lengths = self._lengths(size, self.ngrams, least=1)
        out = shared_out(rows, size, [(length, length) for length in lengths])
        if not self.words:
            return out
        # what runs of words add is shared evenly by their characters
        whole = self._spelled(tokens, real[:, :size])
        words = whole.numbers.shape[1]
        letters = [
            (length, whole.letters.unfold(1, length, 1).sum(-1).clamp(min=1).unsqueeze(-1))
            for length in self._lengths(words, self.words, least=1)
        ]
        of_words = rows[:, sum(size - length + 1 for length in lengths) :]
        owner = whole.place.unsqueeze(-1).expand(-1, -1, rows.shape[-1])
        return out + shared_out(of_words, words, letters).gather(1, owner) * whole.letter.unsqueeze(-1)

    def spans(self, tokens: Int[Tensor, "T"]) -> list[tuple[int, int]]:
        """Where each feature of one text begins and ends, in their order."""
        runs = [
            (start, start + n)
            for n in self._lengths(len(tokens), self.ngrams, 1)
            for start in range(len(tokens) - n + 1)
        ]
        if not self.words:
            return runs
        whole = self._spelled(tokens[None], torch.ones_like(tokens[None], dtype=torch.bool))
        here = [
            torch.nonzero(whole.letter[0] & (whole.place[0] == word)).flatten().tolist()
            for word in range(whole.numbers.shape[1])
        ]
        ends = [(places[0], places[-1] + 1) if places else (0, 0) for places in here]
        return runs + [
            (ends[first][0], ends[first + n - 1][1])
            for n in self._lengths(len(ends), self.words, 1)
            for first in range(len(ends) - n + 1)
        ]

    def features(self, tokens: Ids, mask: Mask = None) -> Features:
        """Words first, then runs of two, then of three …, each where its first word stands."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        ids, exists = [tokens.long()], [real]
        for length in self._lengths(tokens.shape[1], self.ngrams):
            here = self._with_room(tokens, length)
            ids.append(self.vocab + run_hashes(here, length) % self.buckets)
            exists.append(whole_runs(self._with_room(real, length), length))
            if self.words and length > 2:
                assert self.space is not None
                exists[-1] = exists[-1] & whole_runs(here[:, 1:-1].ne(self.space), length - 2)
        if self.words:
            whole = self._spelled(tokens, real)
            for length in self._lengths(whole.numbers.shape[1], self.words, least=1):
                ids.append(self.words_from + run_hashes(self._with_room(whole.numbers, length), length) % self.buckets)
                exists.append(whole_runs(self._with_room(whole.real, length), length))
        return torch.cat(ids, 1), torch.cat(exists, 1)

    def _with_room(self, values: Tensor, length: int) -> Tensor:
        """What runs of so many are taken of: only those that lie within a text are features."""
        return values

    def _spelled(self, tokens: Ids, real: Bool[Tensor, "B T"]) -> Spelled:
        assert self.space is not None
        return spelled(tokens, real, self.space)

    def weights(self, ids: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """What one occurrence of each feature counts; where none is real, 0."""
        weights = picked(self.idf, ids) * real
        if self.weighting == "counts":
            return weights
        # Σ x² = Σ over features of (count · idf)². Over the occurrences of one, Σ (2 · rank + 1) is count².
        ordered, rank = self._sorted(ids, real)
        squares = picked(F.pad(self.idf, (0, 1)), ordered).square() * (2 * rank + 1)
        if not self.words:
            return weights / vector_length(squares)
        # Each kind of feature counts as much as the other, however many there are.
        of_words = ordered >= self.words_from
        lengths = vector_length(squares * ~of_words), vector_length(squares * of_words)
        return weights / torch.where(ids < self.words_from, *lengths)

    def _sorted(
        self, ids: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]
    ) -> tuple[Int[Tensor, "B F"], Int[Tensor, "B F"]]:
        """Each text's features in order (unreal ones last: one past the table), and how many alike came before."""
        ordered = in_order(ids.masked_fill(~real, self.table.num_embeddings))
        if ids.device.type == "cpu":
            return ordered, torch.from_numpy(ranks(ordered.numpy()))
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        new = F.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True)
        return ordered, place - (place * new).cummax(1).values

    def _lengths(self, tokens: int, most: int, least: int = 2) -> range:
        """The lengths of the runs that fit into so many tokens."""
        return range(least, min(most, tokens) + 1)


def shared_out(
    rows: Float[Tensor, "B R out"], size: int, lengths: Sequence[tuple[int, int | Tensor]]
) -> Float[Tensor, "B T out"]:
    """What each of `size` neighbours gets of the rows of the runs that it stands in.

    `lengths`: the runs' lengths in the order of their rows, and by what each row is divided.
    """
    out = rows.new_zeros(len(rows), size, rows.shape[-1])
    start = 0
    for length, divisor in lengths:
        count = size - length + 1
        for place in range(length):
            out[:, place : place + count] += rows[:, start : start + count] / divisor
        start += count
    return out


def vector_length(squares: Float[Tensor, "B F"]) -> Float[Tensor, "B 1"]:
    """√Σx² of each text, above 0."""
    return squares.sum(1, keepdim=True).clamp(min=torch.finfo(squares.dtype).tiny).sqrt()


class WeightedSums(torch.autograd.Function):
    """`F.embedding_bag` with its own backward pass: torch's sorts the rows first, which takes ten times as long."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, weights: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(ids, weights)
        ctx.rows = len(table)
        return F.embedding_bag(ids, table, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        ids, weights = ctx.saved_tensors
        (gradient,) = gradients
        out = gradient.new_zeros(ctx.rows, gradient.shape[1])
        texts = max(1, NUMBERS_AT_ONCE // (ids.shape[1] * gradient.shape[1]))
        for first in range(0, len(ids), texts):
            some = slice(first, first + texts)
            shares = weights[some].unsqueeze(-1) * gradient[some].unsqueeze(1)
            out.index_add_(0, ids[some].flatten(), shares.flatten(0, 1))
        return None, None, out


def weighted_sums(
    ids: Int[Tensor, "B F"], weights: Float[Tensor, "B F"], table: Float[Tensor, "V out"]
) -> Float[Tensor, "B out"]:
    """For each text, the rows of the table that stand for it, times their weights, summed. The table learns."""
    return WeightedSums.apply(ids, weights, table)  # type: ignore[no-untyped-call]


def picked(values: Float[Tensor, "rows"], ids: Int[Tensor, "B F"]) -> Float[Tensor, "B F"]:
    """values[ids], in a third of its time."""
    return values.index_select(0, ids.flatten()).view_as(ids)


def in_order(ids: Int[Tensor, "B F"]) -> Int[Tensor, "B F"]:
    """Each row sorted. On a CPU numpy does it in a tenth of torch's time, which keeps track of places too."""
    if ids.device.type == "cpu":
        return torch.from_numpy(np.sort(ids.numpy().astype(np.int32), 1))  # smaller numbers are sorted faster
    return ids.sort(1).values


def ranks(ordered: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """How many alike came before, in each sorted row. numpy takes half of torch's time."""
    place = np.arange(ordered.shape[1], dtype=np.int32)
    begins = np.zeros_like(ordered)
    begins[:, 1:] = np.where(ordered[:, 1:] != ordered[:, :-1], place[1:], 0)
    return place - np.maximum.accumulate(begins, axis=1)


def runs(values: Shaped[Tensor, "B T"], length: int) -> list[Shaped[Tensor, "B runs"]]:
    """The first of every run of so many neighbours, then the second of each, and so on."""
    return [values[:, place : values.shape[1] - length + 1 + place] for place in range(length)]


def whole_runs(mask: Bool[Tensor, "B T"], length: int) -> Bool[Tensor, "B runs"]:
    """Whether all of a run are there."""
    return functools.reduce(torch.logical_and, runs(mask, length))


def run_hashes(tokens: Ids, length: int) -> Int[Tensor, "B runs"]:
    """A number for each run of neighbouring tokens, spread evenly over 64 bits. Products wrap around on purpose."""
    total = torch.full_like(tokens[:, length - 1 :], length, dtype=torch.long)
    for neighbours in runs(tokens, length):
        total = (total ^ neighbours) * SPREAD
        total = total ^ (total >> 32)
    return total
