"""Input layers: word vectors, patches of an image, columns of a table, or several of these.

Input layers other than word vectors return B×T×d and the mask (None: all T are real). They have the attributes `width`
d and `tokens` T (None: variable).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import EllipsisType
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks import Mask, Vectors
from glassformer.bricks.capabilities import Capability
from glassformer.bricks.convolution import ConvolutionStack, Patches
from glassformer.bricks.embedding import OneHot, WordDropout, WordVectors
from glassformer.bricks.tap import Brick, record_vectors
from glassformer.config.errors import SettingError
from glassformer.config.model_section import CNN, MLP, Linear, ModelSettings, Transformer


@dataclass(frozen=True)
class Shape:
    """Content of an example; a value of 0, () or None stands for absent content."""

    vocab: int = 0
    """Vocabulary size of its text."""
    numbers: int = 0
    """Number of its numeric columns."""
    categories: tuple[int, ...] = ()
    """Number of values of each category column, including the unknown value."""
    image: tuple[int, int, int] | None = None
    """Channels, height and width."""
    space: int | None = None
    """Token that separates words, if tokens are characters."""

    @property
    def columns(self) -> int:
        return self.numbers + len(self.categories)


MaskedVectors = tuple[Vectors, Mask]
Numbers = Float[Tensor, "B F"]
Categories = Int[Tensor, "B K"]
Pixels = Float[Tensor, "B C H W"]

UNKNOWN = 0
"""Index of category values outside the training part; their vector is 0."""


Cell = tuple[int, tuple[slice | int | EllipsisType, ...]]
"""A column or a patch: the index of the input that holds it, and its place there."""


class ReadsCells(Capability, Protocol):
    """An embedding of columns and patches, each of which is left out of an example by setting it to 0."""

    title: ClassVar[str]
    """Name of the kind of input that the embedding reads."""
    text_inputs: int = 0
    """Number of inputs before the cells that hold a text: its tokens and mask, or none."""

    def cells(self, *inputs: Tensor) -> list[Cell]:
        """Return all columns, then all patches."""
        ...

    def sum_by_cell(self, products: Float[Tensor, "T d"], *inputs: Tensor) -> Float[Tensor, "parts"]:
        """Return the sum of the numbers that belong to each part of an example; by default, to each of its vectors."""
        return products.sum(-1)


class CutsImages(Capability, Protocol):
    """An embedding that cuts an image into patches, or into the cells of convolutions."""

    cut: Patches | ConvolutionStack


def patch_cells(pixels: Tensor, grid: tuple[int, int], side: int, corner: int) -> list[Cell]:
    """Return the pixels of each patch, row by row; of a grid of convolutions, those above each cell."""
    rows, columns = (
        _stretches(length, count, side, corner) for length, count in zip(pixels.shape[2:], grid, strict=True)
    )
    return [(0, (..., row, column)) for row in rows for column in columns]


def _stretches(length: int, count: int, side: int, corner: int) -> list[slice]:
    """Divide a length into stretches of `side`; the first and the last include what is left at the ends."""
    ends = [0, *(min(max(0, corner + at * side), length) for at in range(1, count)), length]
    return [slice(start, end) for start, end in pairwise(ends)]


def column_cells(*inputs: Tensor) -> list[Cell]:
    """Return the columns of numbers, then those of categories."""
    return [(at, (slice(None), column)) for at in (0, 1) for column in range(inputs[at].shape[1])]


class ImageTokens(Brick, nn.Module, ReadsCells, CutsImages):
    """An image as the sequence of its patches, or of the cells of a convolution stack."""

    title = "pixels"

    record = record_vectors

    def __init__(self, *, tokens: Patches | ConvolutionStack, width: int) -> None:
        super().__init__()
        self.cut = tokens
        self.width = width
        self.tokens = tokens.cells

    def forward(self, pixels: Pixels) -> MaskedVectors:
        return self.cut(pixels), None

    def cells(self, *inputs: Tensor) -> list[Cell]:
        return patch_cells(inputs[0], self.cut.grid, self.cut.side, self.cut.corner)


class ColumnTokens(Brick, nn.Module, ReadsCells):
    """A table row as a sequence: z·v_c + b_c for the number z in column c, and a vector per category value."""

    title = "columns"
    record = record_vectors
    cells = staticmethod(column_cells)

    def __init__(self, *, numbers: int, categories: Sequence[int], width: int) -> None:
        super().__init__()
        self.width = width
        self.tokens = numbers + len(categories)
        self.slopes = nn.Embedding(numbers, width) if numbers else None
        self.offsets = nn.Embedding(numbers, width) if numbers else None
        self.values = nn.ModuleList(nn.Embedding(size, width, padding_idx=UNKNOWN) for size in categories)

    def forward(self, numbers: Numbers, categories: Categories) -> MaskedVectors:
        parts = []
        if self.slopes is not None and self.offsets is not None:
            parts.append(numbers.unsqueeze(-1) * self.slopes.weight + self.offsets.weight)
        parts += [table(categories[:, column, None]) for column, table in enumerate(self.values)]
        return torch.cat(parts, 1), None


class FlatColumns(Brick, nn.Module, ReadsCells):
    """A table row as one vector of numbers and one-hot categories; an unknown value is all zeros."""

    title = "columns"
    record = record_vectors
    cells = staticmethod(column_cells)

    def __init__(self, *, numbers: int, categories: Sequence[int]) -> None:
        super().__init__()
        self.sizes = tuple(categories)
        self.width = numbers + sum(size - 1 for size in categories)
        self.tokens = 1

    def forward(self, numbers: Numbers, categories: Categories) -> MaskedVectors:
        hot = [F.one_hot(categories[:, column], size)[:, 1:] for column, size in enumerate(self.sizes)]
        return torch.cat([numbers, *(vector.to(numbers) for vector in hot)], 1).unsqueeze(1), None

    def sum_by_cell(self, products: Float[Tensor, "T d"], *inputs: Tensor) -> Float[Tensor, "parts"]:
        sizes = torch.tensor([1] * inputs[0].shape[1] + [size - 1 for size in self.sizes], device=products.device)
        column = torch.arange(len(sizes), device=products.device).repeat_interleave(sizes)
        return products.new_zeros(len(sizes)).index_add(0, column, products[0])


class FlatPixels(Brick, nn.Module, ReadsCells):
    """An image as one vector of its pixels, row by row."""

    title = "pixels"
    record = record_vectors

    def __init__(self, *, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.width = channels * height * width
        self.tokens = 1

    def forward(self, pixels: Pixels) -> MaskedVectors:
        return pixels.flatten(1).unsqueeze(1), None

    def cells(self, *inputs: Tensor) -> list[Cell]:
        height, width = inputs[0].shape[2:]
        return patch_cells(inputs[0], (height, width), 1, 0)

    def sum_by_cell(self, products: Float[Tensor, "T d"], *inputs: Tensor) -> Float[Tensor, "parts"]:
        return products.view(inputs[0].shape[1], -1).sum(0)


class MixedTokens(Brick, nn.Module, ReadsCells):
    """Columns, image and text as one sequence, each with a learned vector for its kind.

    The text comes last, so that padding is at the end. `forward` takes the tensors of the existing parts: tokens and
    mask, numbers and categories, pixels.
    """

    title = "an example"
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
        self.text_inputs = 0 if words is None else 2
        self.columns = columns
        self.image = image
        self.kinds = nn.Embedding(3, width)
        self.word_dropout = WordDropout(word_dropout)
        self.width = width
        self.beside = sum(part.tokens for part in (columns, image) if part is not None)
        """Number of tokens before the text."""
        self.tokens = None if words is not None else self.beside

    def cells(self, *inputs: Tensor) -> list[Cell]:
        """Return the columns, then the patches of the image, which is the last input."""
        of_columns = [] if self.columns is None else self.columns.cells(*inputs[self.text_inputs :])
        of_image = [] if self.image is None else self.image.cells(inputs[-1])
        moved = [(self.text_inputs + at, place) for at, place in of_columns]
        return [*moved, *((len(inputs) - 1, place) for _, place in of_image)]

    def forward(self, *inputs: Tensor) -> MaskedVectors:
        remaining = list(inputs)
        ids, mask = (remaining.pop(0), remaining.pop(0)) if self.words is not None else (None, None)
        columns, image, text = self.kinds.weight
        parts = []
        if self.columns is not None:
            parts.append(self.columns(remaining.pop(0), remaining.pop(0))[0] + columns)
        if self.image is not None:
            parts.append(self.image(remaining.pop(0))[0] + image)
        if self.words is None or mask is None:
            return torch.cat(parts, 1), None
        parts.append(self.word_dropout(self.words(ids) + text))
        return torch.cat(parts, 1), F.pad(mask, (self.beside, 0), value=True)


TokenVectors = WordVectors | OneHot
Input = TokenVectors | ImageTokens | ColumnTokens | FlatColumns | FlatPixels | MixedTokens


def embed_tokens(
    settings: ModelSettings, vocab: int, table_width: int | None = None, *, scale: bool | None = None
) -> TokenVectors:
    """Return the embedding of tokens; `scale`: whether to multiply by √width, if not as in the settings."""
    if settings.embed == "onehot":
        return OneHot(vocab=vocab)
    # a Transformer applies dropout after adding positions
    dropout = 0.0 if isinstance(settings, Transformer) else settings.dropout
    scale = settings.embed_scale if scale is None else scale
    return WordVectors(vocab=vocab, width=settings.width, table_width=table_width, scale=scale, dropout=dropout)


def rows_of(settings: ModelSettings, vocab: int) -> int:
    """Return the number of rows of the embedding table, which may exceed the vocabulary."""
    if settings.vocab is not None and settings.vocab < vocab:
        raise SettingError(f"model.vocab is {settings.vocab:,}, but the tokenizer has {vocab:,} tokens")
    return settings.vocab or vocab


def build_input(settings: ModelSettings, shape: Shape) -> Input:
    """Return the input layer for examples of this shape and for this encoder."""
    kinds = sum([bool(shape.vocab), bool(shape.columns), shape.image is not None])
    if kinds == 1 and shape.vocab:
        return embed_tokens(settings, rows_of(settings, shape.vocab), settings.embed_width)
    flat = isinstance(settings, Linear | MLP)
    if kinds == 1 and shape.image is not None:
        channels, height, width = shape.image
        return FlatPixels(channels=channels, height=height, width=width) if flat else _image(settings, shape.image)
    if kinds == 1 and flat:
        return FlatColumns(numbers=shape.numbers, categories=shape.categories)
    columns = ColumnTokens(numbers=shape.numbers, categories=shape.categories, width=settings.width)
    if kinds == 1:
        return columns
    words = embed_tokens(settings, rows_of(settings, shape.vocab), settings.embed_width) if shape.vocab else None
    if isinstance(words, OneHot):
        raise SettingError("model.embed onehot is for texts alone: beside other columns words need model.embed vectors")
    return MixedTokens(
        words=words,
        columns=columns if shape.columns else None,
        image=None if shape.image is None else _image(settings, shape.image),
        width=settings.width,
        word_dropout=settings.word_dropout,
    )


def _image(settings: ModelSettings, image: tuple[int, int, int]) -> ImageTokens:
    channels, *size = image
    height, width = size
    tokens: Patches | ConvolutionStack
    if isinstance(settings, CNN):
        widths = [max(8, settings.width >> later) for later in reversed(range(1, settings.layers))]
        try:
            tokens = ConvolutionStack(
                channels=channels,
                size=(height, width),
                widths=[*widths, settings.width],
                kernel=settings.kernel,
                stride=settings.stride,
                padding=settings.padding,
                bias=bool(settings.bias),
            )
        except ValueError as error:
            raise SettingError(f"convolutions: {error}; more model.padding, or fewer model.layers?") from None
    else:
        tokens = Patches(channels=channels, size=(height, width), patch=settings.patch, width=settings.width)
    return ImageTokens(tokens=tokens, width=settings.width)


def words_of(embed: nn.Module) -> WordVectors | None:
    """Return the word vectors of an input layer; None if there are none."""
    return next((module for module in embed.modules() if isinstance(module, WordVectors)), None)
