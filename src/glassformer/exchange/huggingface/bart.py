"""BART and Marian: an encoder and a decoder of like blocks, one table of word vectors for all.

Marian is the translator of 2017, whose positions are waves, all sines before all cosines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.sections import ATTENTIONS, ModelSettings
from glassformer.exchange.huggingface.architecture import (
    ACTIVATIONS,
    POST_NORM,
    Architecture,
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Tensors,
    Unsupported,
    activation,
    boolean,
    dropout,
    first_of,
    module_names,
    short,
    size,
    written,
)

WORDS, BIAS = "model.shared.weight", "final_logits_bias"
STACKS = ("encoder", "decoder")
UNUSED = 2
"""Rows before the first position in BART's tables."""


class Seq2SeqArchitecture(Architecture):
    theirs: ClassVar[Choices] = {
        "is_encoder_decoder": (True, None),
        "normalize_before": (False, None),
        "add_final_layer_norm": (False, None),
        "tie_word_embeddings": (True, None),
    }
    ours: ClassVar[Choices] = {
        **POST_NORM,
        "model.decoder": ("transformer",),
        "model.shared": (True,),
        "model.tied": (True,),
        "model.norm_eps": (None, 1e-5),
        "model.attention": ATTENTIONS,
    }
    initialisation = "xavier"
    entries: ClassVar = (
        size("vocab_size", "vocab"),
        size("max_position_embeddings", "context", 1024),
        size("d_model", "width", 1024),
        size("encoder_layers", "layers", 12),
        size("decoder_layers", "decoder_layers", 12),
        size("encoder_attention_heads", "heads", 16),
        size("encoder_ffn_dim", "hidden", 4096),
        activation("activation_function", ACTIVATIONS, "gelu"),
        boolean("scale_embedding", "embed_scale", False),
        dropout("dropout"),
        *written("heads", "decoder_attention_heads"),
        *written("hidden", "decoder_ffn_dim"),
        *written("dropout", "attention_dropout"),
    )
    constants: ClassVar[Mapping[str, Any]] = {
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "forced_eos_token_id": None,  # if it is missing, transformers assumes the id of another vocabulary
    }
    body: ClassVar = module_names("bart", "body")

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        for key, default in (("attention_heads", 16), ("ffn_dim", 4096)):
            encoder, decoder = (values.size(f"{stack}_{key}", default) for stack in STACKS)
            if encoder != decoder:
                raise Unsupported(
                    f"{values.name} with encoder_{key} {encoder} and decoder_{key} {decoder} is not supported: only "
                    "with the same"
                )
        parsed = super().read(values, architecture)
        repeated = dict.fromkeys(["lm_head.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS)], WORDS)
        return replace(parsed, settings={**parsed.settings, "head_bias": True}, repeated=repeated)

    def special_matches(self, model: ModelSettings, task: str, base: str) -> list[Match]:
        if model.head_bias:  # theirs may be missing
            head = Match(
                ("head.bias",),
                (BIAS,),
                lambda tensors: [tensors[0][0]],
                lambda tensors: [tensors[0].unsqueeze(0)],
                optional=(BIAS,),
            )
        else:  # theirs always has one: zeros
            head = first_of("embed_source.table.weight", (WORDS, BIAS), lambda words: words.new_zeros(1, len(words)))
        return [head]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        if not config.model.shared:  # which nobody can set where each side has tokens of its own
            raise Unsupported(f"{self.name} has no model.shared false: only true")
        return super().write(config, vocab)


class Bart(Seq2SeqArchitecture):
    """Learned positions, and a norm after the word vectors of both sides."""

    model_type = "bart"
    name = "BART"
    tasks: ClassVar = {"BartForConditionalGeneration": TRANSLATION}
    ours: ClassVar = {**Seq2SeqArchitecture.ours, "model.positions": ("learned",), "model.embed_norm": (True,)}
    theirs: ClassVar = {
        **Seq2SeqArchitecture.theirs,
        "normalize_embedding": (True, None),
        "static_position_embeddings": (False, None),
        "extra_pos_embeddings": (UNUSED, None),
    }

    def special_matches(self, model: ModelSettings, task: str, base: str) -> list[Match]:
        positions = [
            Match(
                (f"{stack}.positions.table.weight",),
                (f"model.{stack}.embed_positions.weight",),
                lambda tensors: [tensors[0][UNUSED:]],
                lambda tensors: [torch.cat([tensors[0].new_zeros(UNUSED, tensors[0].shape[1]), tensors[0]])],
            )
            for stack in STACKS
        ]
        return [*super().special_matches(model, task, base), *positions]


class Marian(Seq2SeqArchitecture):
    model_type = "marian"
    name = "Marian"
    tasks: ClassVar = {"MarianMTModel": TRANSLATION}
    ours: ClassVar = {
        **Seq2SeqArchitecture.ours,
        "model.positions": ("sine-halves", "sine"),
        "model.embed_norm": (False,),
    }
    theirs: ClassVar = {
        "share_encoder_decoder_embeddings": (True, None),
        "normalize_embedding": (False, None),
        "static_position_embeddings": (True, None),
        **Seq2SeqArchitecture.theirs,
    }
    constants: ClassVar = {
        **Seq2SeqArchitecture.constants,
        "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True,
    }
    ignored = tuple(f"model.{stack}.embed_positions." for stack in STACKS)
    """Waves, which both sides compute."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        vocab, targets = values.get("vocab_size"), values.get("decoder_vocab_size")
        if targets not in (None, vocab):
            raise Unsupported(
                f"Marian with decoder_vocab_size {short(targets)} beside vocab_size {short(vocab)} is not supported: "
                "only with the same"
            )
        return super().read(values, architecture)

    def matches(self, ours: Iterable[str], model: ModelSettings, architecture: str) -> list[Match]:
        matches = super().matches(ours, model, architecture)
        return [_reordered(match, model.width) for match in matches] if model.positions == "sine" else matches

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        values = super().write(config, vocab)
        return {**values, "decoder_vocab_size": values["vocab_size"]}


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
