"""Positions beyond the length of training: what each kind of them is worth there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.bricks.losses import vocabulary_losses
from glassformer.config.say import Say, silent
from glassformer.data.packing.masking import NOTHING
from glassformer.data.packing.shards import Ids
from glassformer.experiments.models import brief_training, train_briefly
from glassformer.families.build import build_model
from glassformer.families.infer import infer_config
from glassformer.families.prepare import prepare
from glassformer.models.language_model import LanguageModel
from glassformer.tasks.language_model import answers

KINDS = {"learned": "learned", "sine": "sine and cosine", "rotary": "rotary", "none": "none"}
"""Positions by their setting, and in words."""
BOUND = ("learned",)
"""These have no vector beyond the context."""
CONTEXT, FURTHER, UPDATES = 64, 4, 400
TEXTS = 256
DATA = "docstrings"


def loss_beyond_context(
    *,
    data: str,
    width: int,
    layers: int,
    heads: int,
    updates: int,
    seed: int,
    device: torch.device,
    context: int = CONTEXT,
    texts: int = TEXTS,
    kinds: Sequence[str] = tuple(KINDS),
    say: Say = silent,
) -> dict[str, list[float]]:
    """With each kind of positions, a Transformer learns from short texts, by character, and reads longer ones.

    By kind in words: the mean loss at each position of these, in nats per character.
    """
    model = {"width": width, "layers": layers, "heads": heads, "context": context}
    chosen: dict[str, Any] = {
        "data.path": data,
        "task": "language-model",
        "tokenizer.kind": "char",
        **{f"model.{key}": value for key, value in model.items()},
        **brief_training(updates, seed),
    }
    config, table = infer_config({}, chosen, silent)
    prepared = prepare(config, silent, rows=table)
    task: Any = prepared.task
    found = {}
    for kind in kinds:
        say(f"positions: {KINDS[kind]}, {updates:,} updates on texts of {context} characters")
        settings = replace(config, model=replace(config.model, positions=kind))
        built: Any = build_model(settings, prepared)
        train_briefly(built, task, config.training, device)
        length = context if kind in BOUND else FURTHER * context
        ids = task.parts["validation"].ids
        found[KINDS[kind]] = loss_by_position(built, ids, length, texts, start=task.start).tolist()
    return found


@torch.inference_mode()
def loss_by_position(
    model: LanguageModel, ids: Ids, length: int, texts: int, *, start: int | None = None
) -> NDArray[np.float64]:
    """Over stretches of the text, evenly spread: how surprising each of their characters is; START is no character."""
    spread = np.linspace(0, len(ids) - length - 1, texts).astype(int)
    rows = np.stack([ids[first : first + length + 1] for first in spread]).astype(np.int64)
    block = torch.from_numpy(rows).to(model.head.weight.device)
    features = model.features(block[:, :-1])
    following = answers(block, start)
    losses = vocabulary_losses(
        features.flatten(0, 1), model.head.weight, following.flatten(), bias=model.head.bias
    ).view(texts, length)
    asked = following != NOTHING
    return (losses.double().masked_fill(~asked, 0.0).sum(0) / asked.sum(0)).cpu().numpy()
