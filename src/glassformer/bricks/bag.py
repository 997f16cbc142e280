"""The bag of words: a text as the counts of its words, without their order.

The vector x of a text has an entry per vocabulary word and is nearly all zeros. It is never written out: its product
with a matrix is the weighted sum of the matrix rows of the words in the text.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from glassformer.bricks import Ids, Mask
from glassformer.bricks.embedding import WordDropout
from glassformer.config.arrays import Array

Features = tuple[Int[Tensor, "B F"], Bool[Tensor, "B F"]]
"""Table rows of each text's features, and which of them are real."""

SPREAD = -7046029254386353131
"""An odd number near 2⁶⁴ over the golden ratio. Products with it wrap around and spread over 64 bits."""
MAX_GRADIENT_NUMBERS = 2**22
"""Maximum size of the gradient's intermediate tensor."""


@dataclass(frozen=True)
class TextWords:
    """The words of texts in characters; W is the largest number of words per text."""

    numbers: Int[Tensor, "B W"]
    """Hash of each word: equal for equal words, and almost never for others."""
    real: Bool[Tensor, "B W"]
    letters: Int[Tensor, "B W"]
    """Number of characters per word."""
    place: Ids
    """Index of the word that each character belongs to."""
    letter: Bool[Tensor, "B T"]
    """Whether a character belongs to a word."""


def find_words(tokens: Ids, real: Bool[Tensor, "B T"], space: int, *, most: int | None = None) -> TextWords:
    """Return the words between `space` tokens; `most` fixes W, which is otherwise that of the longest text."""
    letter = real & (tokens != space)
    first = (letter & ~F.pad(letter, (1, 0))[:, :-1]).long()
    place = (first.cumsum(1) - 1).clamp(min=0)
    count = first.sum(1, keepdim=True)
    if most is None:
        most = max(1, int(count.max())) if len(tokens) else 1
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    zeros = tokens.new_zeros(tokens.shape[0], most, dtype=torch.long)  # len() would fix the size of a traced batch
    within = positions - zeros.scatter_add(1, place, positions * first).gather(1, place)
    # The hash of a word is the sum of the hashes of its characters with their positions in the word.
    marks = _spread(_spread(tokens.long() + 1) + within) * letter
    numbers, letters = zeros.scatter_add(1, place, marks), zeros.scatter_add(1, place, letter.long())
    return TextWords(numbers, torch.arange(most, device=tokens.device) < count, letters, place, letter)


def _spread(numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Map neighbouring numbers to distant ones."""
    numbers = numbers * SPREAD
    return (numbers ^ (numbers >> 32)) * SPREAD


class BagOfWords(nn.Module):
    """The product Wx, where x has the count or the TF-IDF weight of each feature of a text.

    Features are words and n-grams of up to `ngrams` words; n-grams are hashed to `buckets` rows of the table after the
    rows of the words. If tokens are characters, n-grams of up to `words` whole words can be features too, with
    `buckets` rows of their own. A word is then the text between two `space` tokens, and character n-grams stay within a
    word and the spaces around it.

    TF-IDF is count · (ln((1 + n) / (1 + df)) + 1), for n texts of which df have the feature. x is then divided by its
    length √Σx², separately for words and characters. Features without a training text are ignored.
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
        """First table row of whole words."""
        rows = self.words_from + (buckets if words else 0)
        self.table = nn.EmbeddingBag(rows, out, mode="sum")
        self.word_dropout = WordDropout(word_dropout)
        self.register_buffer("idf", torch.ones(rows))

    @torch.no_grad()
    def learn_frequencies(self, batches: Iterable[tuple[Int[Tensor, "_ _"], Bool[Tensor, "_ _"] | None]]) -> None:
        """Compute the inverse document frequencies from the training texts; a no-op for counts."""
        if self.weighting == "counts":
            return
        rows = self.table.num_embeddings
        texts, counts = 0, np.zeros(rows, np.int64)
        for tokens, mask in batches:
            ids, real = self.features(tokens, mask)
            ordered = sort_rows(ids.masked_fill(~real, rows)).cpu().numpy()
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
        """Return each token's share of Wx; the shares add up to Wx. The tokens of an n-gram share its row equally."""
        ids, real = self.features(tokens, mask)
        rows = F.embedding(ids, self.table.weight) * self.weights(ids, real).unsqueeze(-1)
        size = tokens.shape[1]
        lengths = self._lengths(size, self.ngrams, least=1)
        out = share_rows(rows, size, [(length, length) for length in lengths])
        if not self.words:
            return out
        # the contribution of words is shared equally by their characters
        text_words = self._find_words(tokens, real[:, :size])
        words = text_words.numbers.shape[1]
        letters = [
            (length, text_words.letters.unfold(1, length, 1).sum(-1).clamp(min=1).unsqueeze(-1))
            for length in self._lengths(words, self.words, least=1)
        ]
        word_rows = rows[:, sum(size - length + 1 for length in lengths) :]
        owner = text_words.place.unsqueeze(-1).expand(-1, -1, rows.shape[-1])
        return out + share_rows(word_rows, words, letters).gather(1, owner) * text_words.letter.unsqueeze(-1)

    def spans(self, tokens: Int[Tensor, "T"]) -> list[tuple[int, int]]:
        """Return the [start, end) token span of each feature of one text, in the order of the features."""
        ngrams = [
            (start, start + n)
            for n in self._lengths(len(tokens), self.ngrams, 1)
            for start in range(len(tokens) - n + 1)
        ]
        if not self.words:
            return ngrams
        text_words = self._find_words(tokens[None], torch.ones_like(tokens[None], dtype=torch.bool))
        positions_by_word = [
            torch.nonzero(text_words.letter[0] & (text_words.place[0] == word)).flatten().tolist()
            for word in range(text_words.numbers.shape[1])
        ]
        ends = [(places[0], places[-1] + 1) if places else (0, 0) for places in positions_by_word]
        return ngrams + [
            (ends[first][0], ends[first + n - 1][1])
            for n in self._lengths(len(ends), self.words, 1)
            for first in range(len(ends) - n + 1)
        ]

    def features(self, tokens: Ids, mask: Mask = None) -> Features:
        """Return the features: words, then bigrams, trigrams …, each at the position of its first word."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        ids, exists = [tokens.long()], [real]
        for length in self._lengths(tokens.shape[1], self.ngrams):
            padded = self._padded_for(tokens, length)
            ids.append(self.vocab + ngram_hashes(padded, length) % self.buckets)
            exists.append(complete_ngrams(self._padded_for(real, length), length))
            if self.words and length > 2:
                assert self.space is not None
                exists[-1] = exists[-1] & complete_ngrams(padded[:, 1:-1].ne(self.space), length - 2)
        if self.words:
            text_words = self._find_words(tokens, real)
            for length in self._lengths(text_words.numbers.shape[1], self.words, least=1):
                ids.append(
                    self.words_from + ngram_hashes(self._padded_for(text_words.numbers, length), length) % self.buckets
                )
                exists.append(complete_ngrams(self._padded_for(text_words.real, length), length))
        return torch.cat(ids, 1), torch.cat(exists, 1)

    def _padded_for(self, values: Tensor, length: int) -> Tensor:
        """Return the values whose n-grams are features: only n-grams within a text."""
        return values

    def _find_words(self, tokens: Ids, real: Bool[Tensor, "B T"]) -> TextWords:
        assert self.space is not None
        return find_words(tokens, real, self.space)

    def weights(self, ids: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """Return the weight of one occurrence of each feature; 0 for features that are not real."""
        weights = select_values(self.idf, ids) * real
        if self.weighting == "counts":
            return weights
        # Σ x² = Σ (count · idf)² over features. Over the occurrences of one feature, Σ (2 · rank + 1) is count².
        ordered, rank = self._sorted(ids, real)
        squares = select_values(F.pad(self.idf, (0, 1)), ordered).square() * (2 * rank + 1)
        if not self.words:
            return weights / vector_length(squares)
        # Words and characters have the same weight, however many there are.
        is_word = ordered >= self.words_from
        lengths = vector_length(squares * ~is_word), vector_length(squares * is_word)
        return weights / torch.where(ids < self.words_from, *lengths)

    def _sorted(
        self, ids: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]
    ) -> tuple[Int[Tensor, "B F"], Int[Tensor, "B F"]]:
        """Return the sorted features of each text (padding last), and each one's rank among equal features."""
        ordered = sort_rows(ids.masked_fill(~real, self.table.num_embeddings))
        if ids.device.type == "cpu":
            return ordered, torch.from_numpy(ranks(ordered.numpy()))
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        new = F.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True)
        return ordered, place - (place * new).cummax(1).values

    def _lengths(self, tokens: int, most: int, least: int = 2) -> range:
        """Return the lengths of n-grams that fit into `tokens` tokens."""
        return range(least, min(most, tokens) + 1)


def share_rows(
    rows: Float[Tensor, "B R out"], size: int, lengths: Sequence[tuple[int, int | Tensor]]
) -> Float[Tensor, "B T out"]:
    """Return each of `size` neighbours' share of the rows of its n-grams.

    `lengths` has the length of the n-grams, in the order of their rows, and the divisor of each row.
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
    """Return √Σx² of each text, above 0."""
    return squares.sum(1, keepdim=True).clamp(min=torch.finfo(squares.dtype).tiny).sqrt()


class WeightedSums(torch.autograd.Function):
    """`F.embedding_bag` with its own backward pass; torch's sorts the rows first, which takes ten times as long."""

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
        texts = max(1, MAX_GRADIENT_NUMBERS // (ids.shape[1] * gradient.shape[1]))
        for first in range(0, len(ids), texts):
            chunk = slice(first, first + texts)
            shares = weights[chunk].unsqueeze(-1) * gradient[chunk].unsqueeze(1)
            out.index_add_(0, ids[chunk].flatten(), shares.flatten(0, 1))
        return None, None, out


def weighted_sums(
    ids: Int[Tensor, "B F"], weights: Float[Tensor, "B F"], table: Float[Tensor, "V out"]
) -> Float[Tensor, "B out"]:
    """Return the weighted sum of table rows for each text, differentiable by table and weights."""
    return WeightedSums.apply(ids, weights, table)  # type: ignore[no-untyped-call]


def select_values(values: Float[Tensor, "rows"], ids: Int[Tensor, "B F"]) -> Float[Tensor, "B F"]:
    """Return values[ids], in a third of the time of indexing."""
    return values.index_select(0, ids.flatten()).view_as(ids)


def sort_rows(ids: Int[Tensor, "B F"]) -> Int[Tensor, "B F"]:
    """Return each row sorted. On a CPU, numpy needs a tenth of the time of torch, which also tracks indices."""
    if ids.device.type == "cpu":
        return torch.from_numpy(np.sort(ids.numpy().astype(np.int32), 1))  # 32-bit integers are sorted faster
    return ids.sort(1).values


def ranks(ordered: Array) -> Array:
    """Return the number of equal values before each value of a sorted row. numpy needs half the time of torch."""
    place = np.arange(ordered.shape[1], dtype=np.int32)
    begins = np.zeros_like(ordered)
    begins[:, 1:] = np.where(ordered[:, 1:] != ordered[:, :-1], place[1:], 0)
    return place - np.maximum.accumulate(begins, axis=1)


def ngram_parts(values: Shaped[Tensor, "B T"], length: int) -> list[Shaped[Tensor, "B ngrams"]]:
    """Return the first token of every n-gram, then the second of each, and so on."""
    return [values[:, place : values.shape[1] - length + 1 + place] for place in range(length)]


def complete_ngrams(mask: Bool[Tensor, "B T"], length: int) -> Bool[Tensor, "B ngrams"]:
    """Return which n-grams consist of real tokens only."""
    return functools.reduce(torch.logical_and, ngram_parts(mask, length))


def ngram_hashes(tokens: Ids, length: int) -> Int[Tensor, "B ngrams"]:
    """Return a 64-bit hash of each n-gram. Products wrap around on purpose."""
    total = torch.full_like(tokens[:, length - 1 :], length, dtype=torch.long)
    for neighbours in ngram_parts(tokens, length):
        total = (total ^ neighbours) * SPREAD
        total = total ^ (total >> 32)
    return total
