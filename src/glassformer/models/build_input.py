"""What a model begins with, from its settings: word vectors, an image's patches, a table's columns, or all of them."""

from torch import nn

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.config.errors import SettingError
from glassformer.config.sections import ModelSettings
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.shape import Shape

Input = WordVectors | OneHot | ImageTokens | ColumnTokens | FlatColumns | FlatPixels | MixedTokens


def embed_tokens(settings: ModelSettings, vocab: int, table_width: int | None = None) -> WordVectors | OneHot:
    if settings.embed == "onehot":
        return OneHot(vocab=vocab)
    # a Transformer drops out after it has added positions
    dropout = 0.0 if settings.encoder == "transformer" else settings.dropout
    return WordVectors(
        vocab=vocab, width=settings.width, table_width=table_width, scale=settings.embed_scale, dropout=dropout
    )


def rows_of(settings: ModelSettings, vocab: int) -> int:
    """Of the table of word vectors: there may be more than tokens."""
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
        cut = ConvolutionStack(
            channels=channels,
            size=(height, width),
            widths=[*widths, settings.width],
            kernel=settings.kernel,
            bias=settings.bias,
        )
    else:
        cut = Patches(channels=channels, size=(height, width), patch=settings.patch, width=settings.width)
    return ImageTokens(tokens=cut, width=settings.width)


def words_of(embed: nn.Module) -> WordVectors | None:
    """The word vectors among what turns examples into vectors, if there are any."""
    return next((module for module in embed.modules() if isinstance(module, WordVectors)), None)
