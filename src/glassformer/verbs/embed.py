"""Vectors out: a trained model as a feature extractor for texts and their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.config.errors import SettingError
from glassformer.data.examples import encode_examples
from glassformer.models.language_model import LanguageModel
from glassformer.models.reader import BagReader, Reader
from glassformer.tasks.labelling import device_of
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Embedded:
    """A text as vectors: one for all of it, and one for each of its tokens (up to the model's context)."""

    text: str
    vector: NDArray[np.float32]
    tokens: list[str]
    vectors: NDArray[np.float32]


@torch.no_grad()
def embed(
    model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], *, context: int, framed: bool
) -> list[Embedded]:
    """The vector of a text is what the model's head sees of it; of a language model, the mean over its tokens."""
    if not isinstance(model, LanguageModel | Reader | BagReader):
        raise SettingError(f"{type(model).__name__} is a model of one's own: what its vectors are, only it knows")
    device = device_of(model)
    examples = encode_examples(texts, np.zeros(len(texts)), tokenizer, context=context, framed=framed)
    found: dict[int, Embedded] = {}
    for rows, ids, mask in examples.batches():
        states, whole = _vectors(model, ids.to(device), mask.to(device))
        for place, row in enumerate(rows.tolist()):
            inner = [
                at
                for at, id in enumerate(ids[place, mask[place]].tolist())
                if id not in (tokenizer.start, tokenizer.end)
            ]
            mine = states[place, inner]
            vector = mine.sum(0) / max(1, len(inner)) if whole is None else whole[place]
            names = [tokenizer.token(int(ids[place, at])) for at in inner]
            found[row] = Embedded(texts[row], _array(vector), names, _array(mine))
    return [found[row] for row in range(len(texts))]


def _vectors(model: LanguageModel | Reader | BagReader, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    if isinstance(model, LanguageModel):
        return model.features(ids, mask), None
    return model.states(ids, mask), model.features(ids, mask)


def _array(vectors: Tensor) -> NDArray[np.float32]:
    return vectors.float().cpu().numpy()
