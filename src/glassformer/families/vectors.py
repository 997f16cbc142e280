"""Vectors of examples, with a trained model as the feature extractor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from glassformer.bricks.capabilities import capability
from glassformer.config.errors import SettingError
from glassformer.config.messages import listening, silent
from glassformer.config.progress import counting_on, progress_of
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Features
from glassformer.data.features.texts import Examples, encode_examples
from glassformer.data.io.table import ROWS_AT_ONCE, Table, prefetch
from glassformer.families.predict import inputs_of, part_of
from glassformer.families.requests import Embedded, Example
from glassformer.models.capabilities import HasDecoder, HasVectors
from glassformer.models.modules import device_of
from glassformer.tasks.labelling import compute_rows, fast_tokens
from glassformer.text.tokenizer import Tokenizer


@torch.no_grad()
def embed(
    model: nn.Module, tokenizer: Tokenizer, config: Config, texts: Sequence[str], *, tokens: bool
) -> list[Embedded]:
    """Return the vector of each text, as `HasVectors.text_vectors` defines it.

    This is the feature vector of a predictor, or the mean over the tokens of a language model or a translator's
    encoder.
    """
    _with_vectors(model)
    translated = capability(model, HasDecoder) is not None

    def encode(some: Sequence[str]) -> Examples:
        framed, none = config.framed or translated, np.zeros(len(some))
        context = config.model.context
        return encode_examples(some, none, tokenizer, context=context, framed=framed, translated=translated)

    encoded = map(encode, (texts[first : first + ROWS_AT_ONCE] for first in range(0, len(texts), ROWS_AT_ONCE)))
    ready = prefetch(encoded) if len(texts) > ROWS_AT_ONCE else encoded
    found: list[Embedded] = []
    for examples in ready:
        with counting_on(len(found), len(texts), "text"):
            found += _embedded(model, tokenizer, examples, tokens=tokens)
    return found


def _with_vectors(model: nn.Module) -> HasVectors:
    if (known := capability(model, HasVectors)) is None:
        raise SettingError("this run is a model of your own: glassformer does not know its vectors")
    return known


def _embedded(model: nn.Module, tokenizer: Tokenizer, examples: Examples, *, tokens: bool) -> list[Embedded]:
    """Return the vectors of some texts, in their order."""
    device, texts = device_of(model), examples.texts
    marks = torch.tensor(sorted(tokenizer.roles.marks), device=device)
    by_row: dict[int, Embedded] = {}
    progress = progress_of("text")
    progress(0, len(texts))
    for rows, (ids, mask) in examples.batches(fast_tokens(examples, model)):
        ids, mask = ids.to(device), mask.to(device)
        inside = mask & ~torch.isin(ids, marks)
        states, whole = _with_vectors(model).text_vectors(ids, mask, inside)
        for place, (row, vector) in enumerate(zip(rows.tolist(), whole.float().cpu().numpy(), strict=True)):
            if not tokens:
                by_row[row] = Embedded(texts[row], vector)
                continue
            names = [tokenizer.token(id) for id in ids[place, inside[place]].tolist()]
            by_row[row] = Embedded(texts[row], vector, names, states[place, inside[place]].float().cpu().numpy())
        progress(len(by_row), len(texts))
    return [by_row[row] for row in range(len(texts))]


@torch.no_grad()
def embed_examples(
    model: nn.Module, features: Features, config: Config, examples: Sequence[Example] | Table
) -> list[Embedded]:
    """Return the vector that the model's head reads for each example, for examples that are not only text."""
    known = _with_vectors(model)
    with listening(silent):
        inputs = inputs_of(features, config, part_of(features, config, examples))
    vectors = compute_rows(inputs, known.features, device_of(model), fast_tokens(inputs, model)).numpy()
    return [Embedded(text, vector) for text, vector in zip(inputs.texts, vectors, strict=True)]
