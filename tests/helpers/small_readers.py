"""Small models that read: texts with every encoder, rows, images, and all of them at once."""

from typing import Any

import torch
from torch import Tensor

from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT
from glassformer.config.resolve import resolve, used_keys
from glassformer.models.build import build_language_model, build_predictor
from glassformer.models.inputs import Shape
from glassformer.models.modules import BagPredictor, LanguageModel, Predictor
from helpers.kinds import config_of
from helpers.support import numbers, randomise, tokens

VOCAB, T = 13, 7
SMALL: dict[str, Any] = {
    "width": 12, "layers": 2, "heads": 2, "context": 17, "kernel": 3, "window": 4, "head_hidden": 11,
}  # fmt: skip
SHAPES = {
    TEXT: Shape(vocab=VOCAB),
    TABLE: Shape(numbers=2, categories=(4, 3)),
    IMAGE: Shape(image=(3, 11, 7)),
    MIXED: Shape(vocab=VOCAB, numbers=2, categories=(4, 3), image=(3, 11, 7)),
}
WORDS = (tokens(1, T, vocab=VOCAB), torch.ones(1, T, dtype=torch.bool))
COLUMNS = (numbers(1, 2, dtype=torch.float32), torch.tensor([[3, 1]]))
PIXELS = (numbers(1, 3, 11, 7, dtype=torch.float32),)
INPUTS: dict[str, tuple[Tensor, ...]] = {
    TEXT: WORDS, TABLE: COLUMNS, IMAGE: PIXELS, MIXED: (*WORDS, *COLUMNS, *PIXELS),
}  # fmt: skip


def reader_of(encoder: str, kind: str = TEXT, outputs: int = 3, **flags: Any) -> Any:
    """With random weights, in use; a bag knows its frequencies."""
    config = config_of(kind, encoder)
    used = {key: value for key, value in SMALL.items() if config.idle(f"model.{key}") is None}
    settings = {f"model__{key}": value for key, value in {**used, **flags}.items()}
    config = config_of(kind, encoder, **settings)
    model: Predictor | BagPredictor = build_predictor(config.model, shape=SHAPES[kind], outputs=outputs)
    model = randomise(model).eval()
    if isinstance(model, BagPredictor):
        model.bag.learn_frequencies([(tokens(5, T, vocab=VOCAB, seed=9), None)])
    return model


def writer_of(encoder: str, **flags: Any) -> LanguageModel:
    used = {key: value for key, value in SMALL.items() if key in used_keys(encoder) and key != "head_hidden"}
    settings = {f"model.{key}": value for key, value in {"encoder": encoder, **used, **flags}.items()}
    return randomise(build_language_model(resolve({}, settings).model, vocab=VOCAB)).eval()
