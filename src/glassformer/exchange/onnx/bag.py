"""The bag of words as a graph can hold it: the vector of a text written out, a number for every row of the table."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.bricks.bag import BagOfWords, Features
from glassformer.bricks.spelled import SPREAD, mixed


class WrittenOutBag(BagOfWords):
    """The bag. A text may be shorter than the longest run: behind it stands padding, so that every run fits."""

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B out"]:
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        found, exists = self.features(tokens, real)
        rows = F.embedding(found, self.table.weight)
        return (self.weights(found, exists).unsqueeze(1) @ rows).squeeze(1)

    def features(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Features:
        assert mask is not None
        found, exists = [tokens], [mask]
        for length in range(2, self.ngrams + 1):
            runs = _runs(tokens, length)
            found.append(self.vocab + _hashes(runs) % self.buckets)
            exists.append(_all(_runs(mask, length)))
            if self.words and self.space is not None and length > 2:
                exists[-1] = exists[-1] & _all([run.ne(self.space) for run in runs[1:-1]])
        if self.words:
            numbers, are = self._words(tokens, mask)
            for length in range(1, self.words + 1):
                found.append(self.words_from + _hashes(_runs(numbers, length)) % self.buckets)
                exists.append(_all(_runs(are, length)))
        return torch.cat(found, 1), torch.cat(exists, 1)

    def weights(self, found: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        weights = F.embedding(found, self.idf.unsqueeze(1)).squeeze(-1) * real
        if self.weighting == "counts":
            return weights
        squares = weights.new_zeros(found.shape[0], self.idf.shape[0]).scatter_add(1, found, weights).square()
        if not self.words:
            return weights / _length(squares)
        runs, words = _length(squares[:, : self.words_from]), _length(squares[:, self.words_from :])
        return weights / torch.where(found < self.words_from, runs, words)

    def _words(self, tokens: Tensor, real: Tensor) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """The numbers of a text's words, which are no more than its characters; and which of them are there."""
        letter = real & (tokens != self.space)
        first = letter & ~F.pad(letter, (1, 0))[:, :-1]
        place = (first.long().cumsum(1) - 1).clamp(min=0)
        here = torch.arange(tokens.shape[1], device=tokens.device)
        nothing = torch.zeros_like(tokens)
        begins = nothing.scatter_add(1, place, here * first)
        within = here - begins.gather(1, place)
        marks = mixed(mixed(tokens + 1) + within) * letter
        return nothing.scatter_add(1, place, marks), here < first.long().sum(1, keepdim=True)


def _runs(values: Tensor, length: int) -> list[Tensor]:
    """The values at each place of a run of so many, one for each run; beyond the end, zeros."""
    wide = F.pad(values, (0, length - 1))
    return [wide[:, place : place + values.shape[1]] for place in range(length)]


def _all(parts: list[Tensor]) -> Tensor:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


def _hashes(run: list[Tensor]) -> Int[Tensor, "B runs"]:
    total = torch.full_like(run[0], len(run))
    for part in run:
        total = (total ^ part) * SPREAD
        total = total ^ (total >> 32)
    return total


def _length(squares: Float[Tensor, "B rows"]) -> Float[Tensor, "B 1"]:
    return squares.sum(1, keepdim=True).clamp(min=torch.finfo(squares.dtype).tiny).sqrt()
