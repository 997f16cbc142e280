"""The bag of words: a text is the words in it, and how often each stands there; their order is gone.

The vector x of a text has a number for every word of the vocabulary, nearly all of them 0. It is never written out: its
product with a matrix is the sum of that matrix's rows for the words that are there.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.word_dropout import WordDropout

Features = tuple[Int[Tensor, "B F"], Bool[Tensor, "B F"]]
"""Rows of the table for each text, and which of them are real."""

NUMBERS_AT_ONCE = 2**22
"""Of the gradient, before they are added up."""


class BagOfWords(nn.Module):
    """Wx, where x holds for each feature of a text its count, or its TF-IDF weight.

    Features are words and, up to `ngrams`, runs of neighbouring words; those are hashed to `buckets` rows of the table
    after the words' own. TF-IDF: count · (ln((1 + n) / (1 + df)) + 1), n texts of which df have the feature, then x is
    divided by its length √Σx². A feature that no training text had is left out.
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
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab = vocab
        self.ngrams = ngrams
        self.buckets = buckets
        self.weighting = weighting
        rows = vocab + (buckets if ngrams > 1 else 0)
        self.table = nn.EmbeddingBag(rows, out, mode="sum")
        self.word_dropout = WordDropout(word_dropout)
        self.register_buffer("idf", torch.ones(rows))

    @torch.no_grad()
    def learn_frequencies(self, batches: Iterable[tuple[Int[Tensor, "_ _"], Bool[Tensor, "_ _"] | None]]) -> None:
        """From the training texts: in how many of them each feature stands. Counts need no such thing."""
        if self.weighting == "counts":
            return
        rows = self.table.num_embeddings
        texts, having = 0, torch.zeros(rows, dtype=torch.long)
        for tokens, mask in batches:
            found, rank = self._sorted(*self.features(tokens, mask))
            texts += len(tokens)
            having += torch.bincount(found[(rank == 0) & (found < rows)].cpu(), minlength=rows)
        idf = torch.log((1 + texts) / (1 + having.double())) + 1
        self.idf.copy_(idf.masked_fill(having == 0, 0.0))

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B out"]:
        found, real = self.features(tokens, mask)
        return weighted_sums(found, self.word_dropout(self.weights(found, real)), self.table.weight)

    def contributions(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T out"]:
        """What each token adds to Wx: together they are all of it. The words of a run share its row evenly."""
        found, real = self.features(tokens, mask)
        rows = F.embedding(found, self.table.weight) * self.weights(found, real).unsqueeze(-1)
        size = tokens.shape[1]
        out = rows[:, :size].clone()
        start = size
        for length in self._lengths(size):
            runs = size - length + 1
            for place in range(length):
                out[:, place : place + runs] += rows[:, start : start + runs] / length
            start += runs
        return out

    def features(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Features:
        """Words first, then runs of two, then of three …, each where its first word stands."""
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        found, exists = [tokens.long()], [real]
        for length in self._lengths(tokens.shape[1]):
            found.append(self.vocab + run_hashes(tokens, length) % self.buckets)
            exists.append(real.unfold(1, length, 1).all(-1))
        return torch.cat(found, 1), torch.cat(exists, 1)

    def weights(self, found: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """What one occurrence of each feature counts; where none is real, 0."""
        weights = picked(self.idf, found) * real
        if self.weighting == "counts":
            return weights
        # Σ x² = Σ over features of (count · idf)². Over the occurrences of one, Σ (2 · rank + 1) is count².
        ordered, rank = self._sorted(found, real)
        squares = picked(F.pad(self.idf, (0, 1)), ordered).square() * (2 * rank + 1)
        length = squares.sum(1, keepdim=True).sqrt()
        return weights / length.clamp(min=torch.finfo(length.dtype).tiny)

    def _sorted(
        self, found: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]
    ) -> tuple[Int[Tensor, "B F"], Int[Tensor, "B F"]]:
        """Each text's features in order (unreal ones last: one past the table), and how many alike came before."""
        ordered = in_order(found.masked_fill(~real, self.table.num_embeddings))
        place = torch.arange(found.shape[1], device=found.device).expand_as(found)
        new = F.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True)
        return ordered, place - (place * new).cummax(1).values

    def _lengths(self, tokens: int) -> range:
        """Of the runs that fit into so many tokens."""
        return range(2, min(self.ngrams, tokens) + 1)


class WeightedSums(torch.autograd.Function):
    """`F.embedding_bag` with its own backward pass: torch's sorts the rows first, which takes ten times as long."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, weights: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(found, weights)
        ctx.rows = len(table)
        return F.embedding_bag(found, table, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        found, weights = ctx.saved_tensors
        (gradient,) = gradients
        out = gradient.new_zeros(ctx.rows, gradient.shape[1])
        texts = max(1, NUMBERS_AT_ONCE // (found.shape[1] * gradient.shape[1]))
        for first in range(0, len(found), texts):
            some = slice(first, first + texts)
            shares = weights[some].unsqueeze(-1) * gradient[some].unsqueeze(1)
            out.index_add_(0, found[some].flatten(), shares.flatten(0, 1))
        return None, None, out


def weighted_sums(
    found: Int[Tensor, "B F"], weights: Float[Tensor, "B F"], table: Float[Tensor, "V out"]
) -> Float[Tensor, "B out"]:
    """For each text, the rows of the table that were found in it, times their weights, summed. The table learns."""
    return WeightedSums.apply(found, weights, table)  # type: ignore[no-untyped-call]


def picked(values: Float[Tensor, "rows"], found: Int[Tensor, "B F"]) -> Float[Tensor, "B F"]:
    """values[found], in a third of its time."""
    return values.index_select(0, found.flatten()).view_as(found)


def in_order(found: Int[Tensor, "B F"]) -> Int[Tensor, "B F"]:
    """Each row sorted. On a CPU numpy does it in a tenth of torch's time, which keeps track of places too."""
    if found.device.type == "cpu":
        return torch.from_numpy(np.sort(found.numpy(), 1))
    return found.sort(1).values


def run_hashes(tokens: Int[Tensor, "B T"], length: int) -> Int[Tensor, "B runs"]:
    """A number for each run of neighbouring tokens, spread evenly over 64 bits. Products wrap around on purpose."""
    total = torch.full_like(tokens[:, length - 1 :], length, dtype=torch.long)
    for place in range(length):
        total = total ^ tokens[:, place : tokens.shape[1] - length + 1 + place]
        total = total * -7046029254386353131  # odd, near 2⁶⁴ over the golden ratio
        total = total ^ (total >> 32)
    return total
