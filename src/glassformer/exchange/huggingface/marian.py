"""Marian: the translator of 2017, whose positions are waves, all sines before all cosines."""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import ConfigValues, ParsedConfig, Unsupported, short
from glassformer.exchange.huggingface.bart import STACKS, Seq2SeqArchitecture
from glassformer.exchange.huggingface.matching import Match, Tensors


class Marian(Seq2SeqArchitecture):
    model_type = "marian"
    name = "Marian"
    tasks: ClassVar = {"MarianMTModel": TRANSLATION}
    own: ClassVar = {"model.positions": ("sine-halves", "sine"), "model.embed_norm": (False,)}
    fixed: ClassVar = {
        "share_encoder_decoder_embeddings": (True, None),
        "normalize_embedding": (False, None),
        "static_position_embeddings": (True, None),
    }
    settings: ClassVar = {"positions": "sine-halves", "embed_norm": False}

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        vocab, targets = values.get("vocab_size"), values.get("decoder_vocab_size")
        if targets not in (None, vocab):
            raise Unsupported(
                f"Marian with decoder_vocab_size {short(targets)} beside vocab_size {short(vocab)} is not supported: "
                "only with the same"
            )
        values.require(self.fixed)
        tables = tuple(f"model.{stack}.embed_positions." for stack in STACKS)  # both sides compute them
        return replace(super().read(values, architecture), ignored=tables)

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        matches = super().matches(model, architecture)
        return [_reordered(match, model.width) for match in matches] if model.positions == "sine" else matches

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        values = super().write(config, vocab)
        fixed = {"share_encoder_decoder_embeddings": True, "static_position_embeddings": True}
        return {**values, "decoder_vocab_size": values["vocab_size"], **fixed}


def _reordered(match: Match, width: int) -> Match:
    """A match between models whose numbers between the layers stand in another order.

    Here a sine and a cosine take turns; there all sines come first. What stands where between the layers is nobody's
    concern but theirs who add to it or read of it: with their rows and columns in the other order, all is as it was.
    """
    there = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    back = there.argsort()

    def to_ours(tensors: Tensors) -> Tensors:
        return [_reorder(tensor, back, name) for tensor, name in zip(match.to_ours(tensors), match.ours, strict=True)]

    def to_theirs(tensors: Tensors) -> Tensors:
        return match.to_theirs(
            [_reorder(tensor, there, name) for tensor, name in zip(tensors, match.ours, strict=True)]
        )

    return replace(match, to_ours=to_ours, to_theirs=to_theirs)


def _reorder(tensor: Tensor, order: Tensor, name: str) -> Tensor:
    axis = _axis(name)
    return tensor if axis is None else tensor.index_select(axis, order.to(tensor.device))


def _axis(name: str) -> int | None:
    """Along which axis a weight of ours lies beside the numbers between the layers, if it does."""
    part, kind = name.split(".")[-2:]
    if part in ("norm", "embed_norm", "output"):  # they write there, number by number
        return 0
    reads = part in ("table", "query", "key", "value", "input")
    return 1 if reads and kind == "weight" else None
