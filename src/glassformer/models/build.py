"""From settings to a model with its first weights. The same settings and seed give the same weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.multilayer import Bias, MultilayerPerceptron
from glassformer.bricks.pooling import make_pool
from glassformer.config.errors import SettingError
from glassformer.config.sections import ModelSettings
from glassformer.encoders.base import Encoder
from glassformer.encoders.registry import Place, build_encoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.initialise import initialise_bag, initialise_encoder, initialise_head, initialise_vectors
from glassformer.models.language_model import LanguageModel
from glassformer.models.reader import BagReader, Reader


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


def build_reader(settings: ModelSettings, *, vocab: int, outputs: int, seed: int = 0) -> Reader | BagReader:
    """A classifier or regressor."""
    with _own_random_numbers(seed):
        return _bag(settings, vocab, outputs) if settings.encoder == "bag" else _reader(settings, vocab, outputs)


def _reader(settings: ModelSettings, vocab: int, outputs: int) -> Reader:
    embed = _embed(settings, vocab, settings.embed_width)
    encoder = build_encoder(settings, Place(input_width=embed.width, causal=False))
    head = MultilayerPerceptron(
        width=encoder.width,
        out=outputs,
        layers=settings.head_layers,
        hidden=settings.head_hidden,
        dropout=settings.dropout,
    )
    model = Reader(
        embed=embed,
        encoder=encoder,
        pool=make_pool(settings.pool, width=encoder.width, both_ways=settings.bidirectional),
        head=head,
        word_dropout=settings.word_dropout,
    )
    _initialise(embed, encoder, settings)
    initialise_head(head)
    if isinstance(embed, WordVectors) and settings.vectors_frozen:
        embed.table.weight.requires_grad_(False)
    return model


def _bag(settings: ModelSettings, vocab: int, outputs: int) -> BagReader:
    linear = settings.head_layers == 0
    first = outputs if linear else settings.head_hidden
    bag = BagOfWords(
        vocab=vocab,
        out=first,
        ngrams=settings.ngrams,
        buckets=settings.buckets,
        weighting=settings.weighting,
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


def put_vectors(model: Reader, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Word vectors from elsewhere into the rows `ids` of a model's table, as they are."""
    assert isinstance(model.embed, WordVectors)
    table = model.embed.table.weight
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


def _initialise(embed: WordVectors | OneHot, encoder: Encoder, settings: ModelSettings) -> None:
    how = _how(encoder, settings)
    initialise_encoder(encoder, how)
    if isinstance(embed, WordVectors):
        initialise_vectors(embed.table.weight, how)
