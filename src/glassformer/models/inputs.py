"""How examples become vectors: word vectors, an image's patches, a table's columns, or all kinds at once.

Those that read more than words give B×T×d and the mask (None: all T are real), and know `width` d and `tokens` T (None:
not always as many)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks import Mask, Vectors
from glassformer.bricks.convolution import ConvolutionStack, Patches
from glassformer.bricks.embedding import OneHot, WordDropout, WordVectors
from glassformer.bricks.tap import Brick, record_vectors
from glassformer.config.errors import SettingError
from glassformer.config.sections import ModelSettings


@dataclass(frozen=True)
class Shape:
    """What an example is made of; what is 0, empty or None is not there."""

    vocab: int = 0
    """Different tokens of its text."""
    numbers: int = 0
    """Its number columns."""
    categories: tuple[int, ...] = ()
    """How many values each of its category columns has, the unknown one among them."""
    image: tuple[int, int, int] | None = None
    """Channels, height and width."""
    space: int | None = None
    """The token that parts words, where tokens are characters."""

    @property
    def columns(self) -> int:
        return self.numbers + len(self.categories)


MaskedVectors = tuple[Vectors, Mask]
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

    def forward(self, pixels: Pixels) -> MaskedVectors:
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

    def forward(self, numbers: Numbers, categories: Categories) -> MaskedVectors:
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

    def forward(self, numbers: Numbers, categories: Categories) -> MaskedVectors:
        hot = [F.one_hot(categories[:, column], size)[:, 1:] for column, size in enumerate(self.sizes)]
        return torch.cat([numbers, *(vector.to(numbers) for vector in hot)], 1).unsqueeze(1), None


class FlatPixels(Brick, nn.Module):
    """An image as one vector: its pixels, row by row."""

    record = record_vectors

    def __init__(self, *, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.width = channels * height * width
        self.tokens = 1

    def forward(self, pixels: Pixels) -> MaskedVectors:
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

    def forward(self, *inputs: Tensor) -> MaskedVectors:
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


TokenVectors = WordVectors | OneHot
Input = TokenVectors | ImageTokens | ColumnTokens | FlatColumns | FlatPixels | MixedTokens


def embed_tokens(settings: ModelSettings, vocab: int, table_width: int | None = None) -> TokenVectors:
    if settings.embed == "onehot":
        return OneHot(vocab=vocab)
    # a Transformer drops out after it has added positions
    dropout = 0.0 if settings.encoder == "transformer" else settings.dropout
    return WordVectors(
        vocab=vocab, width=settings.width, table_width=table_width, scale=settings.embed_scale, dropout=dropout
    )


def rows_of(settings: ModelSettings, vocab: int) -> int:
    """The rows of the table of word vectors: there may be more than tokens."""
    if settings.vocab is not None and settings.vocab < vocab:
        raise SettingError(f"model.vocab is {settings.vocab:,}, but the tokenizer has {vocab:,} tokens")
    return settings.vocab or vocab


def build_input(settings: ModelSettings, shape: Shape) -> Input:
    """What turns an example of this shape into vectors for this encoder."""
    kinds = sum([bool(shape.vocab), bool(shape.columns), shape.image is not None])
    if kinds == 1 and shape.vocab:
        return embed_tokens(settings, rows_of(settings, shape.vocab), settings.embed_width)
    flat = settings.encoder in ("linear", "mlp")
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
    cut: Patches | ConvolutionStack
    if settings.encoder == "cnn":
        widths = [max(8, settings.width >> later) for later in reversed(range(1, settings.layers))]
        try:
            cut = ConvolutionStack(
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
        cut = Patches(channels=channels, size=(height, width), patch=settings.patch, width=settings.width)
    return ImageTokens(tokens=cut, width=settings.width)


def words_of(embed: nn.Module) -> WordVectors | None:
    """The word vectors among what turns examples into vectors, if there are any."""
    return next((module for module in embed.modules() if isinstance(module, WordVectors)), None)
