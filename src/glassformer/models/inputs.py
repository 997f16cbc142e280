"""How examples that are more than words become vectors: an image's patches, a table's columns, and all kinds at once.

Each gives B×T×d and the mask (None: all T are real), and knows `width` d and `tokens` T (None: not always as many).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.embedding import WordDropout, WordVectors
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.tap import Brick, record_vectors

Vectors = tuple[Float[Tensor, "B T d"], Bool[Tensor, "B T"] | None]
Numbers = Float[Tensor, "B F"]
Categories = Int[Tensor, "B K"]
Pixels = Float[Tensor, "B C H W"]

UNKNOWN = 0
"""The place of a category's value that training did not see: it adds nothing."""


class ImageTokens(Brick, nn.Module):
    """An image as a sequence: of its patches, or of the cells that convolutions make of it."""

    record = record_vectors

    def __init__(self, *, tokens: Patches | ConvolutionStack, width: int) -> None:
        super().__init__()
        self.cut = tokens
        self.width = width
        self.tokens = tokens.cells

    def forward(self, pixels: Pixels) -> Vectors:
        return self.cut(pixels), None


class ColumnTokens(Brick, nn.Module):
    """A table's row as a sequence: the number z in column c is z·v_c + b_c, a category has a vector for each value."""

    record = record_vectors

    def __init__(self, *, numbers: int, categories: Sequence[int], width: int) -> None:
        super().__init__()
        self.width = width
        self.tokens = numbers + len(categories)
        self.slopes = nn.Embedding(numbers, width) if numbers else None
        self.offsets = nn.Embedding(numbers, width) if numbers else None
        self.values = nn.ModuleList(nn.Embedding(size, width, padding_idx=UNKNOWN) for size in categories)

    def forward(self, numbers: Numbers, categories: Categories) -> Vectors:
        parts = []
        if self.slopes is not None and self.offsets is not None:
            parts.append(numbers.unsqueeze(-1) * self.slopes.weight + self.offsets.weight)
        parts += [table(categories[:, column, None]) for column, table in enumerate(self.values)]
        return torch.cat(parts, 1), None


class FlatColumns(Brick, nn.Module):
    """A table's row as one vector: its numbers, and its categories one-hot; an unknown value is all zeros."""

    record = record_vectors

    def __init__(self, *, numbers: int, categories: Sequence[int]) -> None:
        super().__init__()
        self.sizes = tuple(categories)
        self.width = numbers + sum(size - 1 for size in categories)
        self.tokens = 1

    def forward(self, numbers: Numbers, categories: Categories) -> Vectors:
        hot = [F.one_hot(categories[:, column], size)[:, 1:] for column, size in enumerate(self.sizes)]
        return torch.cat([numbers, *(one.to(numbers) for one in hot)], 1).unsqueeze(1), None


class FlatPixels(Brick, nn.Module):
    """An image as one vector: its pixels, row by row."""

    record = record_vectors

    def __init__(self, *, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.width = channels * height * width
        self.tokens = 1

    def forward(self, pixels: Pixels) -> Vectors:
        return pixels.flatten(1).unsqueeze(1), None


class MixedTokens(Brick, nn.Module):
    """Columns, image and text as one sequence, each with a learned vector that says what it is.

    The text comes last, so that padding stands at the end. `forward` takes the tensors of those that are there: tokens
    and mask, numbers and categories, pixels.
    """

    record = record_vectors

    def __init__(
        self,
        *,
        words: WordVectors | None,
        columns: ColumnTokens | None,
        image: ImageTokens | None,
        width: int,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words = words
        self.columns = columns
        self.image = image
        self.kinds = nn.Embedding(3, width)
        self.word_dropout = WordDropout(word_dropout)
        self.width = width
        self.beside = sum(part.tokens for part in (columns, image) if part is not None)
        """Tokens beside the text's."""
        self.tokens = None if words is not None else self.beside

    def forward(self, *inputs: Tensor) -> Vectors:
        given = list(inputs)
        ids, mask = (given.pop(0), given.pop(0)) if self.words is not None else (None, None)
        columns, image, text = self.kinds.weight
        parts = []
        if self.columns is not None:
            parts.append(self.columns(given.pop(0), given.pop(0))[0] + columns)
        if self.image is not None:
            parts.append(self.image(given.pop(0))[0] + image)
        if self.words is None or mask is None:
            return torch.cat(parts, 1), None
        parts.append(self.word_dropout(self.words(ids) + text))
        return torch.cat(parts, 1), F.pad(mask, (self.beside, 0), value=True)
