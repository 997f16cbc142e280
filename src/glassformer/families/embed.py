"""Vectors out: a trained model as a feature extractor for texts and their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.pooling import UnitLength
from glassformer.config.errors import SettingError, silent
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Features
from glassformer.data.features.texts import encode_examples
from glassformer.families.model_input import Example
from glassformer.families.predict import inputs_of, part_of
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.token_model import Seq2Seq, TokenModel
from glassformer.tasks.labelling import device_of
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Embedded:
    """A text as a vector, and where asked for its tokens, each with a vector of its own."""

    text: str
    vector: NDArray[np.float32]
    tokens: list[str] | None = None
    vectors: NDArray[np.float32] | None = None


@torch.no_grad()
def embed(
    model: nn.Module, tokenizer: Tokenizer, config: Config, texts: Sequence[str], *, tokens: bool
) -> list[Embedded]:
    """The vector of a text is what the model's head sees of it, or what it is made to give; of a language model or of a
    translator's encoder, the mean over its tokens.
    """
    if not isinstance(model, TokenModel | Seq2Seq | Predictor | BagPredictor):
        raise SettingError(f"{type(model).__name__} is a model of one's own: what its vectors are, only it knows")
    device = device_of(model)
    translated = isinstance(model, Seq2Seq)
    examples = encode_examples(
        texts,
        np.zeros(len(texts)),
        tokenizer,
        context=config.model.context,
        framed=config.framed or translated,
        translated=translated,
    )
    marks = torch.tensor(sorted(tokenizer.roles.marks), device=device)
    found: dict[int, Embedded] = {}
    for rows, (ids, mask) in examples.batches():
        ids, mask = ids.to(device), mask.to(device)
        inside = mask & ~torch.isin(ids, marks)
        states, whole = _vectors(model, ids, mask, inside)
        for place, row in enumerate(rows.tolist()):
            vector = whole[place].float().cpu().numpy()
            if not tokens:
                found[row] = Embedded(texts[row], vector)
                continue
            names = [tokenizer.token(id) for id in ids[place, inside[place]].tolist()]
            found[row] = Embedded(texts[row], vector, names, states[place, inside[place]].float().cpu().numpy())
    return [found[row] for row in range(len(texts))]


@torch.no_grad()
def embed_examples(model: nn.Module, features: Features, config: Config, examples: Sequence[Example]) -> list[Embedded]:
    """Of examples that are more than texts: what the model's head sees of each."""
    if not isinstance(model, Predictor):
        raise SettingError(f"{type(model).__name__} is a model of one's own: what its vectors are, only it knows")
    device = device_of(model)
    inputs = inputs_of(features, config, part_of(features, config, examples, silent), silent)
    found: dict[int, Embedded] = {}
    for rows, tensors in inputs.batches():
        whole = model.features(*(tensor.to(device) for tensor in tensors)).float().cpu().numpy()
        found |= {row: Embedded(inputs.texts[row], whole[place]) for place, row in enumerate(rows.tolist())}
    return [found[row] for row in range(len(inputs))]


def _vectors(
    model: TokenModel | Seq2Seq | Predictor | BagPredictor,
    ids: Tensor,
    mask: Tensor,
    inside: Tensor,
) -> tuple[Tensor, Tensor]:
    """Of each token, and of each text."""
    if isinstance(model, Predictor | BagPredictor):
        states = model.states(ids, mask)
        pooled: Tensor = model.pool(states, mask)
        head: nn.Module = model.head
        return states, head(pooled) if isinstance(head, UnitLength) else pooled
    states = model.states(ids, mask) if isinstance(model, TokenModel) else model.encode(ids, mask).states
    return states, (states * inside.unsqueeze(-1)).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
