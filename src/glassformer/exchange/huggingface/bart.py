"""BART and Marian: an encoder and a decoder of like blocks, one table of word vectors for all.

Marian is the translator of 2017, whose positions are waves, all sines before all cosines.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.sections import ATTENTIONS, ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Tensors,
    Unsupported,
    first_of,
    linear,
    linears,
    same,
    short,
)
from glassformer.exchange.huggingface.common import (
    POST_NORM,
    POST_NORM_ACTIVATIONS,
    POST_NORM_SETTINGS,
    activation_name,
    require_plain_heads,
)

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
PARTS = {
    **{f"attend.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "around_attend.norm": "self_attn_layer_norm",
    "feed.input": "fc1",
    "feed.output": "fc2",
    "around_feed.norm": "final_layer_norm",
}
CROSS_ATTENTION = {
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "around_cross_attention.norm": "encoder_attn_layer_norm",
}
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
    settings: ClassVar[dict[str, Any]]
    """Settings of ours that every model of this one has."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(self.theirs)
        _common_size(values, "attention_heads", 16)
        width, heads = values.width_and_heads("d_model", "encoder_attention_heads", (1024, 16))
        settings = {
            **POST_NORM_SETTINGS,
            **self.settings,
            "decoder": "transformer",
            "layers": values.size("encoder_layers", 12),
            "decoder_layers": values.size("decoder_layers", 12),
            "heads": heads,
            "width": width,
            "hidden": _common_size(values, "ffn_dim", 4096),
            "context": values.size("max_position_embeddings", 1024),
            "vocab": values.size("vocab_size"),
            "activation": values.choice("activation_function", POST_NORM_ACTIVATIONS, "gelu"),
            "embed_scale": values.boolean("scale_embedding", False),
            "dropout": values.dropout("dropout"),
            "tied": True,
            "shared": True,
            "head_bias": True,
            "initialisation": "xavier",
        }
        repeated = dict.fromkeys(["lm_head.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS)], WORDS)
        return ParsedConfig(TRANSLATION, settings, repeated=repeated)

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        matches = _word_vectors(bias=bool(model.head_bias))
        for stack, layers in zip(STACKS, (model.layers, model.decoder_layers), strict=True):
            parts = PARTS if stack == "encoder" else {**PARTS, **CROSS_ATTENTION}
            for layer in range(layers):
                matches += linears(f"{stack}.blocks.{layer}", f"model.{stack}.layers.{layer}", parts)
        return matches

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model = config.model
        require_plain_heads(model, self.name)
        if not model.shared:  # which nobody can set where each side has tokens of its own
            raise Unsupported(f"{self.name} has no model.shared false: only true")
        sizes = {"attention_heads": model.heads, "ffn_dim": model.hidden}
        return {
            "vocab_size": model.vocab or vocab,
            "max_position_embeddings": model.context,
            "d_model": model.width,
            "encoder_layers": model.layers,
            "decoder_layers": model.decoder_layers,
            **{f"{stack}_{key}": value for stack in STACKS for key, value in sizes.items()},
            "activation_function": activation_name(model),
            "scale_embedding": model.embed_scale,
            "dropout": model.dropout,
            "attention_dropout": model.dropout,
            "is_encoder_decoder": True,
            "tie_word_embeddings": True,
            "forced_eos_token_id": None,  # unsaid, it would be the usual one of some other vocabulary
        }


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
    settings: ClassVar = {"positions": "learned", "embed_norm": True}

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        matches = super().matches(model, architecture)
        for stack in STACKS:
            positions = Match(
                (f"{stack}.positions.table.weight",),
                (f"model.{stack}.embed_positions.weight",),
                lambda tensors: [tensors[0][UNUSED:]],
                lambda tensors: [torch.cat([tensors[0].new_zeros(UNUSED, tensors[0].shape[1]), tensors[0]])],
            )
            matches.append(positions)
            matches += linear(f"{stack}.embed_norm", f"model.{stack}.layernorm_embedding", bias=True)
        return matches


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
    settings: ClassVar = {"positions": "sine-halves", "embed_norm": False}

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        vocab, targets = values.get("vocab_size"), values.get("decoder_vocab_size")
        if targets not in (None, vocab):
            raise Unsupported(
                f"Marian with decoder_vocab_size {short(targets)} beside vocab_size {short(vocab)} is not supported: "
                "only with the same"
            )
        tables = tuple(f"model.{stack}.embed_positions." for stack in STACKS)  # both sides compute them
        return replace(super().read(values, architecture), ignored=tables)

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        matches = super().matches(model, architecture)
        return [_reordered(match, model.width) for match in matches] if model.positions == "sine" else matches

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        values = super().write(config, vocab)
        fixed = {"share_encoder_decoder_embeddings": True, "static_position_embeddings": True}
        return {**values, "decoder_vocab_size": values["vocab_size"], **fixed}


def _common_size(values: ConfigValues, key: str, default: int) -> int:
    """A size that both stacks have."""
    encoder, decoder = (values.size(f"{stack}_{key}", default) for stack in STACKS)
    if encoder != decoder:
        raise Unsupported(
            f"{values.name} with encoder_{key} {short(encoder)} and decoder_{key} {short(decoder)} is not supported: "
            "only with the same"
        )
    return encoder


def _word_vectors(*, bias: bool) -> list[Match]:
    """The word vectors, and the bias of the head, which files may lack; ours without one is theirs with zeros."""
    table = "embed_source.table.weight"
    if not bias:
        return [first_of(table, (WORDS, BIAS), lambda words: words.new_zeros(1, len(words)))]
    head = Match(
        ("head.bias",),
        (BIAS,),
        lambda tensors: [tensors[0][0]],
        lambda tensors: [tensors[0].unsqueeze(0)],
        optional=(BIAS,),
    )
    return [same(table, WORDS), head]


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
