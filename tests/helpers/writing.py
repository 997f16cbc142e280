"""Language models with strong opinions, and what they write when everything is computed again for each token."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from glassformer.config.presets import STYLES
from glassformer.config.resolve import resolve
from glassformer.decoding.options import Sampling
from glassformer.decoding.sampling import SamplingPlan, SamplingRows, choose
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from helpers.running import CAUSAL, tiny
from helpers.support import ready, tokens

SAMPLED = Sampling(0.9, top_k=8, top_p=0.95, repetition_penalty=1.2)
VOCAB, CONTEXT = 13, 16

VARIANTS: list[dict[str, Any]] = [
    *({"encoder": name} for name in CAUSAL),
    *({"encoder": "transformer", "model__style": style} for style in STYLES),
    {"encoder": "transformer", "model__positions": "onehot"},
    {"encoder": "lstm", "model__cells": 9},
    {"encoder": "window", "model__window": 20},
]
every_model = pytest.mark.parametrize("flags", VARIANTS, ids=lambda flags: "-".join(map(str, flags.values())))


def model_of(encoder: str = "transformer", **flags: Any) -> LanguageModel:
    """With strong opinions, and small biases, the same for every prompt: one that never changes shows little."""
    settings = resolve({}, tiny(encoder, **flags)).model
    assert settings.context == CONTEXT
    model = ready(build_language_model(settings, vocab=VOCAB), seed=7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(2 if weight.dim() > 1 else 0.5 if name.endswith("bias") else 1)
    return model


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return tokens(length, vocab=VOCAB, seed=seed).tolist()


def by_hand(
    model: LanguageModel,
    prompt: Sequence[int],
    how: Sampling,
    most: int,
    *,
    end: int | None = None,
    never: Sequence[int] = (),
    seed: int = 0,
) -> list[int]:
    """Every token from the whole text before it, computed anew. Where the encoder holds only so many tokens, and the
    text has become longer, its last half of that many is what it reads from then on.
    """
    text = list(prompt)
    limit = model.encoder.limit
    first = 0 if limit is None or len(text) <= limit else len(text) - limit // 2
    generator = torch.Generator().manual_seed(seed)
    while len(text) < len(prompt) + most:
        if limit is not None and len(text) - first > limit:
            first = len(text) - limit // 2
        with torch.no_grad():
            scores = model(torch.tensor([text[first:]]))[:, -1]
        scores[:, list(never)] = -torch.inf
        seen = torch.zeros(1, VOCAB, dtype=torch.bool)
        seen[0, text] = True
        draw = torch.rand(1, 1, generator=generator)
        text.append(int(choose(scores, SamplingRows.of([how]), SamplingPlan.of([how]), draw, seen)))
        if text[-1] == end:
            break
    return text[len(prompt) :]
