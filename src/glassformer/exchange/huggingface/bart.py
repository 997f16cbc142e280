"""BART: a translator with learned positions, and a norm after the word vectors of both sides."""

from typing import ClassVar

import torch

from glassformer.config.presets import TRANSLATION
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.matching import Match, Several, linear
from glassformer.exchange.huggingface.seq2seq import STACKS, Seq2SeqArchitecture

UNUSED = 2
"""Rows before the first position in its tables."""


class Bart(Seq2SeqArchitecture):
    model_type = "bart"
    name = "BART"
    tasks: ClassVar = {"BartForConditionalGeneration": TRANSLATION}
    own: ClassVar = {"model.positions": ("learned",), "model.embed_norm": (True,)}
    fixed: ClassVar = {
        "normalize_embedding": (True, None),
        "static_position_embeddings": (False, None),
        "extra_pos_embeddings": (UNUSED, None),
    }
    settings: ClassVar = {"positions": "learned", "embed_norm": True}

    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        found = super().matches(model, task, architecture)
        for stack in STACKS:
            found.append(_positions(f"{stack}.positions.table.weight", f"model.{stack}.embed_positions.weight"))
            found += linear(f"{stack}.embed_norm", f"model.{stack}.layernorm_embedding", bias=True)
        return found


def _positions(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), _used, _after_unused)


def _used(tensors: Several) -> Several:
    return [tensors[0][UNUSED:]]


def _after_unused(tensors: Several) -> Several:
    (table,) = tensors
    return [torch.cat([table.new_zeros(UNUSED, table.shape[1]), table])]
