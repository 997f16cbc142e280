"""GPT-2: learned positions, layer norm before each part, biases everywhere, one matrix for queries, keys and values."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    ConfigValues,
    Match,
    ParsedConfig,
    linear,
    linears,
    same,
)
from glassformer.exchange.huggingface.common import (
    ACTIVATIONS,
    CAUSAL,
    CAUSAL_HEADS,
    activation_name,
    causal_head,
    require_plain_heads,
    with_causal_head,
)

NORMS = {"around_attend.norm": "ln_1", "around_feed.norm": "ln_2"}
MAPS = {
    "attn.c_attn": ("attend.query", "attend.key", "attend.value"),
    "attn.c_proj": ("attend.output",),
    "mlp.c_fc": ("feed.input",),
    "mlp.c_proj": ("feed.output",),
}
"""Its linear maps; the first is three of ours in one."""


class Gpt2(Architecture):
    model_type = "gpt2"
    name = "GPT-2"
    tasks: ClassVar = {"GPT2LMHeadModel": LANGUAGE_MODEL, "GPT2ForSequenceClassification": CLASSIFICATION}
    base = "transformer."
    theirs: ClassVar = {
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False, None),
        "is_encoder_decoder": (False,),
    }
    ours: ClassVar = {
        **CAUSAL,
        "model.positions": ("learned",),
        "model.norm": ("layer",),
        "model.bias": (True,),
        "model.attention_bias": (True,),
        "model.feed_bias": (True,),
        "model.qk_norm": (False,),
        "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
    }
    heads: ClassVar = CAUSAL_HEADS

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(self.theirs)
        width, heads = values.width_and_heads("n_embd", "n_head", (768, 12))
        settings = {
            "encoder": "transformer",
            "layers": values.size("n_layer", 12),
            "heads": heads,
            "width": width,
            "hidden": values.size("n_inner", 4 * width),
            "context": values.size("n_positions", 1024),
            "vocab": values.size("vocab_size", 50257),
            "activation": values.choice("activation_function", ACTIVATIONS, "gelu_new"),
            "positions": "learned",
            "norm": "layer",
            "norm_eps": values.number("layer_norm_epsilon", EPS["layer"], most=1.0),
            "bias": True,
            "qk_norm": False,
            "initialisation": "gpt2",
        }
        ignored = ("*.attn.bias", "*.attn.masked_bias")  # which tokens see which: both sides know
        body = ParsedConfig(self.tasks[architecture], settings, ignored=ignored)
        return with_causal_head(
            body, values, tied=values.boolean("tie_word_embeddings", True), table="transformer.wte.weight"
        )

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        body = "transformer"
        matches = [
            same("embed.table.weight", f"{body}.wte.weight"),
            same("encoder.positions.table.weight", f"{body}.wpe.weight"),
        ]
        for layer in range(model.layers):
            ours, theirs = f"encoder.blocks.{layer}", f"{body}.h.{layer}"
            matches += linears(ours, theirs, NORMS)
            for name, parts in MAPS.items():
                matches += _transposed([f"{ours}.{part}" for part in parts], f"{theirs}.{name}")
        head = causal_head(model, self.tasks[architecture])
        return [*matches, *linear("encoder.norm", f"{body}.ln_f", bias=True), *head]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model = config.model
        require_plain_heads(model, self.name)
        return {
            "vocab_size": model.vocab or vocab,
            "n_positions": model.context,
            "n_embd": model.width,
            "n_layer": model.layers,
            "n_head": model.heads,
            "n_inner": model.hidden,
            "activation_function": activation_name(model),
            "layer_norm_epsilon": model.norm_eps or EPS["layer"],
            "resid_pdrop": model.dropout,
            "embd_pdrop": model.dropout,
            "attn_pdrop": model.dropout,
            "tie_word_embeddings": config.task == LANGUAGE_MODEL and bool(model.tied),
        }


def _transposed(ours: Sequence[str], theirs: str) -> list[Match]:
    """GPT-2 keeps the matrices of its linear maps transposed, and some of one size end to end."""
    weights, biases = (tuple(f"{part}.{kind}" for part in ours) for kind in ("weight", "bias"))
    return [
        Match(
            weights,
            (f"{theirs}.weight",),
            lambda whole: whole[0].T.chunk(len(ours)),
            lambda parts: [torch.cat(list(parts)).T],
        ),
        Match(
            biases,
            (f"{theirs}.bias",),
            lambda whole: whole[0].chunk(len(ours)),
            lambda parts: [torch.cat(list(parts))],
        ),
    ]
