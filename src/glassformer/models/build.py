"""Construction of models from settings, with initial weights. The same settings and seed give the same weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import WordVectors
from glassformer.bricks.feed_forward import ACTIVATION_MODULES, Bias, MultilayerPerceptron
from glassformer.bricks.norm import make_norm
from glassformer.bricks.pooling import UnitLength, make_pool
from glassformer.config.errors import SettingError
from glassformer.config.model_section import CNN, LAYERWISE, Bag, Linear, ModelSettings, SequenceSettings
from glassformer.config.presets import LANGUAGE_MODEL, MASKED, TRANSLATION, VECTORS
from glassformer.config.resolve import CANNOT_WRITE
from glassformer.encoders.base import Encoder, init_map
from glassformer.encoders.convolutional import IdentityEncoder
from glassformer.encoders.registry import Place, build_encoder
from glassformer.models.inputs import (
    ColumnTokens,
    ImageTokens,
    Input,
    MixedTokens,
    Shape,
    TokenVectors,
    build_input,
    embed_tokens,
    rows_of,
    words_of,
)
from glassformer.models.modules import (
    BagPredictor,
    LanguageModel,
    MaskedLanguageModel,
    Predictor,
    Seq2Seq,
    TextPredictor,
    TokenModel,
    Transform,
)
from glassformer.models.weights import initialise_bag, initialise_head, initialise_input, initialise_scores


def build_language_model(model_settings: ModelSettings, *, vocab: int, seed: int = 0) -> LanguageModel:
    settings = _of_sequences(model_settings, LANGUAGE_MODEL)
    with _own_random_numbers(seed):
        model = LanguageModel(**_parts(settings, vocab, causal=True))
        _initialise_tokens(model, settings)
    return model


def build_masked_model(model_settings: ModelSettings, *, vocab: int, seed: int = 0) -> MaskedLanguageModel:
    settings = _of_sequences(model_settings, MASKED)
    with _own_random_numbers(seed):
        parts = _parts(settings, vocab, causal=False)
        transform = None
        if settings.head_transform:
            width = parts["encoder"].width
            norm = make_norm(settings.norm, width, bias=bool(settings.bias), eps=settings.norm_eps)
            transform = Transform(width=width, activation=settings.activation, norm=norm)
        model = MaskedLanguageModel(transform=transform, **parts)
        _initialise_tokens(model, settings)
        if transform is not None:
            init_map(transform.map, settings.initialisation)
    return model


def _of_sequences(settings: ModelSettings, task: str) -> SequenceSettings:
    if not isinstance(settings, SequenceSettings):
        raise SettingError(f"{settings.encoder} {CANNOT_WRITE.get(task, 'keeps no vector for each token')}")
    return settings


def _parts(settings: SequenceSettings, vocab: int, *, causal: bool) -> dict[str, Any]:
    """Return the modules of a model that scores tokens."""
    vocab = rows_of(settings, vocab)
    embed = embed_tokens(settings, vocab)
    return {
        "embed": embed,
        "encoder": build_encoder(settings, Place(input_width=embed.width, causal=causal)),
        "vocab": vocab,
        "context": settings.context,
        "tied": settings.tied,
        "bias": bool(settings.head_bias),
    }


def _initialise_tokens(model: TokenModel, settings: SequenceSettings) -> None:
    _initialise(model.embed, model.encoder, settings)
    initialise_scores(model.head, settings.initialisation, tied=settings.tied)


def build_vectors(model_settings: ModelSettings, *, vocab: int, seed: int = 0) -> TextPredictor:
    """Build a model that returns a vector for each text."""
    settings = _of_sequences(model_settings, VECTORS)
    with _own_random_numbers(seed):
        embed = embed_tokens(settings, rows_of(settings, vocab))
        encoder = build_encoder(settings, Place(input_width=embed.width, causal=settings.causal))
        pool = make_pool(settings.pool, width=encoder.width, both_ways=settings.bidirectional)
        _initialise(embed, encoder, settings)
    return TextPredictor(embed=embed, encoder=encoder, pool=pool, head=UnitLength() if settings.unit else nn.Identity())


def build_seq2seq(model_settings: ModelSettings, *, source_vocab: int, target_vocab: int, seed: int = 0) -> Seq2Seq:
    """Build an encoder of the source and a decoder that generates the target."""
    settings = _of_sequences(model_settings, TRANSLATION)
    source_vocab, target_vocab = rows_of(settings, source_vocab), rows_of(settings, target_vocab)
    if settings.shared and source_vocab != target_vocab:
        raise SettingError(f"model.shared needs one vocabulary for both sides, not {source_vocab} and {target_vocab}")
    if settings.shared and settings.embed == "onehot":
        raise SettingError("model.shared needs model.embed vectors: one-hot vectors have no weights to share")
    writing = settings.for_decoder()
    scale = settings.embed_scale or writing.embed_scale
    with _own_random_numbers(seed):
        embed_source = embed_tokens(settings, source_vocab, scale=scale)
        embed_target = embed_tokens(writing, target_vocab, scale=scale)
        if settings.shared and isinstance(embed_source, WordVectors) and isinstance(embed_target, WordVectors):
            embed_source.table = embed_target.table
        layerwise = settings.attention == LAYERWISE
        encoder = build_encoder(settings, Place(input_width=embed_source.width, causal=False, layerwise=layerwise))
        place = Place(
            input_width=embed_target.width,
            causal=True,
            memory_width=encoder.width,
            memory_pool=encoder.summary_pool,
            layerwise=layerwise,
        )
        decoder = build_encoder(writing, place)
        model = Seq2Seq(
            embed_source=embed_source,
            encoder=encoder,
            embed_target=embed_target,
            decoder=decoder,
            vocab=target_vocab,
            tied=settings.tied,
            bias=bool(settings.head_bias),
        )
        _initialise(embed_source, encoder, settings)
        _initialise(embed_target, decoder, writing)
        initialise_scores(model.head, writing.initialisation, tied=settings.tied)
    return model


def build_predictor(
    settings: ModelSettings, *, outputs: int, vocab: int = 0, shape: Shape | None = None, seed: int = 0
) -> Predictor | BagPredictor:
    """Return a classifier or regressor for examples of this shape; `vocab` suffices for texts."""
    shape = shape or Shape(vocab=vocab)
    with _own_random_numbers(seed):
        return _bag(settings, shape, outputs) if isinstance(settings, Bag) else _predictor(settings, shape, outputs)


def _predictor(settings: ModelSettings, shape: Shape, outputs: int) -> Predictor:
    embed = build_input(settings, shape)
    tokens = None if isinstance(embed, TokenVectors) else embed.tokens
    encoder = _reading_encoder(settings, embed)
    if settings.pool == "flatten" and tokens is None:
        raise SettingError("model.pool flatten needs as many vectors of every example, and texts are of any length")
    pooled = encoder.width * (tokens or 1) if settings.pool == "flatten" else encoder.width
    head = _head(settings, pooled, outputs, settings.head_layers)
    _initialise(embed, encoder, settings)
    initialise_head(head, linear=isinstance(settings, Linear))
    words = words_of(embed)
    if words is not None and settings.vectors_frozen:
        words.table.weight.requires_grad_(False)
    pool = make_pool(settings.pool, width=encoder.width, both_ways=settings.bidirectional)
    if isinstance(embed, TokenVectors):
        return TextPredictor(embed=embed, encoder=encoder, pool=pool, head=head, word_dropout=settings.word_dropout)
    return Predictor(embed=embed, encoder=encoder, pool=pool, head=head)


def _head(settings: ModelSettings, width: int, outputs: int, layers: int) -> MultilayerPerceptron:
    return MultilayerPerceptron(
        width=width,
        out=outputs,
        layers=layers,
        hidden=settings.head_hidden,
        activation=settings.head_activation,
        bias=settings.head_bias is not False,
        dropout=settings.dropout,
    )


def _reading_encoder(settings: ModelSettings, embed: Input) -> Encoder:
    """Return the encoder; the identity for inputs that need no further encoding.

    These are convolutions of an image, and rows or images as one vector.
    """
    convolved = isinstance(settings, CNN) and isinstance(embed, ImageTokens)
    if convolved or not isinstance(settings, SequenceSettings):
        return IdentityEncoder(width=embed.width, causal=False)
    if isinstance(embed, MixedTokens):  # the context is the text's
        settings = replace(settings, context=embed.beside + (settings.context if embed.words is not None else 0))
    elif isinstance(embed, ColumnTokens | ImageTokens):
        settings = replace(settings, context=embed.tokens)
    return build_encoder(settings, Place(input_width=embed.width, causal=settings.causal))


def _bag(settings: Bag, shape: Shape, outputs: int) -> BagPredictor:
    if settings.words and shape.space is None:
        raise SettingError("model.words counts words in a text of characters, and its tokenizer knows no space")
    linear, biased = settings.head_layers == 0, settings.head_bias is not False
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
    head: nn.Module = Bias(first) if biased else nn.Identity()
    if not linear:
        rest = _head(settings, first, outputs, settings.head_layers - 1)
        initialise_head(rest)
        activation = ACTIVATION_MODULES[settings.head_activation]()
        head = nn.Sequential(head, activation, nn.Dropout(settings.dropout), rest)
    initialise_bag(bag, linear=linear)
    return BagPredictor(bag=bag, head=head)


def put_vectors(model: Predictor, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Copy pretrained word vectors into the rows `ids` of a model's table."""
    words = words_of(model.embed)
    assert words is not None
    table = words.table.weight
    if vectors.shape[1] != table.shape[1]:
        width = vectors.shape[1]
        raise SettingError(f"model.vectors have width {width}, not {table.shape[1]}: set model.embed_width {width}")
    with torch.no_grad():
        table[torch.from_numpy(ids)] = torch.from_numpy(vectors).to(table)


def parameter_count(model: torch.nn.Module) -> int:
    """Return the number of parameters; shared ones count once."""
    return sum(weight.numel() for weight in model.parameters())


def learned_count(model: torch.nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def sized(parameters: int, learned: int) -> str:
    """Return a description of a model's size."""
    return f"{parameters:,} parameters" + (f", {learned:,} of them learned" if learned < parameters else "")


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """Seed the random numbers within the context; restore the caller's afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _initialise(embed: nn.Module, encoder: Encoder, settings: ModelSettings) -> None:
    encoder.init_weights(settings.initialisation)
    initialise_input(embed, settings.initialisation)
