"""From settings to a model with its first weights."""

import torch

from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.config.sections import ModelSettings
from glassformer.encoders.registry import Place, build_encoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.initialise import initialise_encoder, initialise_vectors
from glassformer.models.language_model import LanguageModel


def build_language_model(settings: ModelSettings, *, vocab: int, seed: int = 0) -> LanguageModel:
    """The same settings and seed give the same weights; the caller's random numbers are left as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        embed: WordVectors | OneHot = OneHot(vocab=vocab)
        if settings.embed == "vectors":
            # a Transformer drops out after it has added positions
            dropout = 0.0 if settings.encoder == "transformer" else settings.dropout
            embed = WordVectors(vocab=vocab, width=settings.width, scale=settings.embed_scale, dropout=dropout)
        encoder = build_encoder(settings, Place(input_width=embed.width, causal=True))
        model = LanguageModel(
            embed=embed, encoder=encoder, vocab=vocab, context=settings.context, tied=bool(settings.tied)
        )
        how = settings.initialisation if isinstance(encoder, TransformerEncoder) else "xavier"
        initialise_encoder(encoder, how)
        if isinstance(embed, WordVectors):
            initialise_vectors(embed.table.weight, how)
        if not settings.tied:
            initialise_vectors(model.head.weight, how)
    return model


def parameter_count(model: torch.nn.Module) -> int:
    """Numbers that are learned; shared ones count once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
