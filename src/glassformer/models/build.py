"""From settings to a model with its first weights. The same settings and seed give the same weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.multilayer import Bias, MultilayerPerceptron
from glassformer.bricks.pooling import make_pool
from glassformer.config.errors import SettingError
from glassformer.config.sections import ModelSettings
from glassformer.encoders.base import Encoder
from glassformer.encoders.identity import IdentityEncoder
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.registry import BUILDERS, Place, build_encoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.initialise import (
    initialise_bag,
    initialise_encoder,
    initialise_head,
    initialise_input,
    initialise_vectors,
)
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.language_model import LanguageModel
from glassformer.models.reader import BagReader, Reader, TextReader
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.shape import Shape

Input = WordVectors | OneHot | ImageTokens | ColumnTokens | FlatColumns | FlatPixels | MixedTokens


def build_language_model(settings: ModelSettings, *, vocab: int, seed: int = 0) -> LanguageModel:
    with _own_random_numbers(seed):
        embed = _embed(settings, vocab)
        encoder = build_encoder(settings, Place(input_width=embed.width, causal=True))
        model = LanguageModel(
            embed=embed, encoder=encoder, vocab=vocab, context=settings.context, tied=bool(settings.tied)
        )
        _initialise(embed, encoder, settings)
        if not settings.tied:
            initialise_vectors(model.head.weight, _how(encoder, settings))
    return model


def build_seq2seq(settings: ModelSettings, *, source_vocab: int, target_vocab: int, seed: int = 0) -> Seq2Seq:
    """An encoder of one text and a decoder that writes another."""
    assert settings.decoder is not None
    assert settings.decoder_layers is not None
    if settings.encoder not in BUILDERS:
        raise SettingError(f"{settings.encoder} keeps no vector for each token: it cannot be read by a decoder")
    if settings.shared and source_vocab != target_vocab:
        raise SettingError(f"model.shared needs one vocabulary for both sides, not {source_vocab} and {target_vocab}")
    if settings.shared and settings.embed == "onehot":
        raise SettingError("model.shared needs model.embed vectors: one-hot vectors have no weights to share")
    writing = replace(settings, encoder=settings.decoder, layers=settings.decoder_layers, bidirectional=False)
    with _own_random_numbers(seed):
        embed_source = _embed(settings, source_vocab)
        embed_target = _embed(writing, target_vocab)
        if settings.shared:
            assert isinstance(embed_source, WordVectors)
            assert isinstance(embed_target, WordVectors)
            embed_source.table = embed_target.table
        encoder = build_encoder(settings, Place(input_width=embed_source.width, causal=False))
        place = Place(
            input_width=embed_target.width,
            causal=True,
            memory_width=encoder.width,
            memory_pool=_where_all_is_read(encoder, settings),
        )
        decoder = build_encoder(writing, place)
        model = Seq2Seq(
            embed_source=embed_source,
            encoder=encoder,
            embed_target=embed_target,
            decoder=decoder,
            vocab=target_vocab,
            tied=bool(settings.tied),
        )
        _initialise(embed_source, encoder, settings)
        _initialise(embed_target, decoder, writing)
        if not settings.tied:
            initialise_vectors(model.head.weight, _how(decoder, writing))
    return model


def _where_all_is_read(encoder: Encoder, settings: ModelSettings) -> str:
    """What sums up an encoder's states: a recurrent network's last, at both ends if it reads both ways; or the mean."""
    if not isinstance(encoder, RecurrentEncoder):
        return "mean"
    return "ends" if settings.bidirectional else "last"


def build_reader(
    settings: ModelSettings, *, outputs: int, vocab: int = 0, shape: Shape | None = None, seed: int = 0
) -> Reader | BagReader:
    """A classifier or regressor of examples of this shape; of texts, their vocabulary is all there is to know."""
    shape = shape or Shape(vocab=vocab)
    with _own_random_numbers(seed):
        return _bag(settings, shape, outputs) if settings.encoder == "bag" else _reader(settings, shape, outputs)


def _reader(settings: ModelSettings, shape: Shape, outputs: int) -> Reader:
    embed = _input(settings, shape)
    tokens = None if isinstance(embed, WordVectors | OneHot) else embed.tokens
    encoder = _reading_encoder(settings, embed)
    if settings.pool == "flatten" and tokens is None:
        raise SettingError("model.pool flatten needs as many vectors of every example, and texts are of any length")
    pooled = encoder.width * (tokens or 1) if settings.pool == "flatten" else encoder.width
    head = MultilayerPerceptron(
        width=pooled, out=outputs, layers=settings.head_layers, hidden=settings.head_hidden, dropout=settings.dropout
    )
    _initialise(embed, encoder, settings)
    initialise_head(head, linear=settings.encoder == "linear")
    words = words_of(embed)
    if words is not None and settings.vectors_frozen:
        words.table.weight.requires_grad_(False)
    pool = make_pool(settings.pool, width=encoder.width, both_ways=settings.bidirectional)
    if isinstance(embed, WordVectors | OneHot):
        return TextReader(embed=embed, encoder=encoder, pool=pool, head=head, word_dropout=settings.word_dropout)
    return Reader(embed=embed, encoder=encoder, pool=pool, head=head)


def _input(settings: ModelSettings, shape: Shape) -> Input:
    """What turns an example of this shape into vectors for this encoder."""
    kinds = sum([bool(shape.vocab), bool(shape.columns), shape.image is not None])
    if kinds == 1 and shape.vocab:
        return _embed(settings, shape.vocab, settings.embed_width)
    flat = settings.encoder in ("linear", "mlp")
    if kinds == 1 and shape.image is not None:
        channels, height, width = shape.image
        return FlatPixels(channels=channels, height=height, width=width) if flat else _image(settings, shape.image)
    if kinds == 1 and flat:
        return FlatColumns(numbers=shape.numbers, categories=shape.categories)
    columns = ColumnTokens(numbers=shape.numbers, categories=shape.categories, width=settings.width)
    if kinds == 1:
        return columns
    words = _embed(settings, shape.vocab, settings.embed_width) if shape.vocab else None
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


def _reading_encoder(settings: ModelSettings, embed: Input) -> Encoder:
    """Convolutions of an image, and a row or an image as one vector, are read as they are."""
    if isinstance(embed, FlatColumns | FlatPixels) or (settings.encoder == "cnn" and isinstance(embed, ImageTokens)):
        return IdentityEncoder(width=embed.width, causal=False)
    if isinstance(embed, MixedTokens):  # the context is the text's
        settings = replace(settings, context=embed.beside + (settings.context if embed.words is not None else 0))
    elif isinstance(embed, ColumnTokens | ImageTokens):
        settings = replace(settings, context=embed.tokens)
    return build_encoder(settings, Place(input_width=embed.width, causal=False))


def _bag(settings: ModelSettings, shape: Shape, outputs: int) -> BagReader:
    if settings.words and shape.space is None:
        raise SettingError("model.words counts words in a text of characters, and its tokenizer knows no space")
    linear = settings.head_layers == 0
    first = outputs if linear else settings.head_hidden
    bag = BagOfWords(
        vocab=shape.vocab,
        out=first,
        ngrams=settings.ngrams,
        buckets=settings.buckets,
        weighting=settings.weighting,
        words=settings.words,
        space=shape.space,
        word_dropout=settings.word_dropout,
    )
    head: nn.Module = Bias(outputs)
    if not linear:
        rest = MultilayerPerceptron(
            width=first,
            out=outputs,
            layers=settings.head_layers - 1,
            hidden=settings.head_hidden,
            dropout=settings.dropout,
        )
        initialise_head(rest)
        head = nn.Sequential(Bias(first), nn.ReLU(), nn.Dropout(settings.dropout), rest)
    initialise_bag(bag, linear=linear)
    return BagReader(bag=bag, head=head)


def words_of(embed: nn.Module) -> WordVectors | None:
    """The word vectors among what turns examples into vectors, if there are any."""
    return next((module for module in embed.modules() if isinstance(module, WordVectors)), None)


def put_vectors(model: Reader, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Word vectors from elsewhere into the rows `ids` of a model's table, as they are."""
    words = words_of(model.embed)
    assert words is not None
    table = words.table.weight
    if vectors.shape[1] != table.shape[1]:
        raise SettingError(
            f"model.vectors are of width {vectors.shape[1]}, the model's word vectors of {table.shape[1]}: "
            f"set model.embed_width {vectors.shape[1]}"
        )
    with torch.no_grad():
        table[torch.from_numpy(ids)] = torch.from_numpy(vectors).to(table)


def parameter_count(model: torch.nn.Module) -> int:
    """Numbers that are learned; shared ones count once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """The caller's random numbers are left as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _embed(settings: ModelSettings, vocab: int, table_width: int | None = None) -> WordVectors | OneHot:
    if settings.embed == "onehot":
        return OneHot(vocab=vocab)
    # a Transformer drops out after it has added positions
    dropout = 0.0 if settings.encoder == "transformer" else settings.dropout
    return WordVectors(
        vocab=vocab, width=settings.width, table_width=table_width, scale=settings.embed_scale, dropout=dropout
    )


def _how(encoder: Encoder, settings: ModelSettings) -> str:
    return settings.initialisation if isinstance(encoder, TransformerEncoder) else "xavier"


def _initialise(embed: nn.Module, encoder: Encoder, settings: ModelSettings) -> None:
    how = _how(encoder, settings)
    initialise_encoder(encoder, how)
    initialise_input(embed, how)
