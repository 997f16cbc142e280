"""GPT-2: learned positions, layer norm before each part, biases everywhere, one matrix for queries, keys and values."""

from collections.abc import Mapping
from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, LABELLING, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Reading,
    Unsupported,
    differs,
    number,
    only,
    truth,
    whole_number,
    word,
)
from glassformer.exchange.huggingface.causal import HEADS, PLAIN, READER, ends, with_head
from glassformer.exchange.huggingface.matching import Match, joined, linear, same, turned

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}
"""Theirs → ours; the first of those that are one is written."""

ONLY: dict[str, tuple[Any, ...]] = {
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False,),
}
LIKE: dict[str, tuple[Any, ...]] = {
    **PLAIN,
    "model.positions": ("learned",),
    "model.norm": ("layer",),
    "model.bias": (True,),
    "model.attention_bias": (True,),
    "model.feed_bias": (True,),
    "model.qk_norm": (False,),
    "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
}


class Gpt2(Architecture):
    model_type = "gpt2"
    tasks: ClassVar = {"GPT2LMHeadModel": LANGUAGE_MODEL, "GPT2ForSequenceClassification": CLASSIFICATION}
    base = "transformer."

    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        only(config, ONLY, "GPT-2")
        width, heads = whole_number(config, "n_embd", default=768), whole_number(config, "n_head", default=12)
        if width % heads:
            raise Unsupported(f"config.json: n_head {heads} does not divide n_embd {width}")
        tied = truth(config, "tie_word_embeddings", default=True)
        settings = {
            "encoder": "transformer",
            "layers": whole_number(config, "n_layer", default=12),
            "heads": heads,
            "width": width,
            "hidden": whole_number(config, "n_inner", default=4 * width),
            "context": whole_number(config, "n_positions", default=1024),
            "vocab": whole_number(config, "vocab_size", default=50257),
            "activation": word(config, "activation_function", ACTIVATIONS, default="gelu_new", name="GPT-2"),
            "positions": "learned",
            "norm": "layer",
            "norm_eps": number(config, "layer_norm_epsilon", default=EPS["layer"], most=1.0),
            "bias": True,
            "qk_norm": False,
            "initialisation": "gpt2",
        }
        ignored = ("*.attn.bias", "*.attn.masked_bias")  # which tokens see which: both sides know
        return with_head(
            Reading(self.tasks[architecture], settings, ignored=ignored),
            config,
            "GPT-2",
            tied=tied,
            table="transformer.wte.weight",
        )

    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        body = "transformer"
        found = [
            same("embed.table.weight", f"{body}.wte.weight"),
            same("encoder.positions.table.weight", f"{body}.wpe.weight"),
        ]
        for layer in range(model.layers):
            ours, theirs = f"encoder.blocks.{layer}", f"{body}.h.{layer}"
            maps = [f"{ours}.attend.{part}" for part in ("query", "key", "value")]
            sizes = [model.width] * 3
            found += [
                *linear(f"{ours}.around_attend.norm", f"{theirs}.ln_1", bias=True),
                joined([f"{one}.weight" for one in maps], f"{theirs}.attn.c_attn.weight", sizes, turn=True),
                joined([f"{one}.bias" for one in maps], f"{theirs}.attn.c_attn.bias", sizes),
                *_turned_linear(f"{ours}.attend.output", f"{theirs}.attn.c_proj"),
                *linear(f"{ours}.around_feed.norm", f"{theirs}.ln_2", bias=True),
                *_turned_linear(f"{ours}.feed.input", f"{theirs}.mlp.c_fc"),
                *_turned_linear(f"{ours}.feed.output", f"{theirs}.mlp.c_proj"),
            ]
        return [*found, *linear("encoder.norm", f"{body}.ln_f", bias=True), *ends(model, task)]

    def write(self, config: Config, vocab: int) -> tuple[str, dict[str, Any]]:
        if config.task not in (LANGUAGE_MODEL, *LABELLING):
            raise Unsupported(f"GPT-2 does not learn {config.task}")
        model = config.model
        differs(config, {**LIKE, **(READER if config.task in LABELLING else HEADS)}, "GPT-2")
        assert model.head_width is not None
        if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
            raise Unsupported(
                f"GPT-2 has no model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads "
                f"{model.kv_heads}: only heads that share model.width {model.width}"
            )
        name = "GPT2ForSequenceClassification" if config.task in LABELLING else "GPT2LMHeadModel"
        return name, {
            "vocab_size": model.vocab or vocab,
            "n_positions": model.context,
            "n_embd": model.width,
            "n_layer": model.layers,
            "n_head": model.heads,
            "n_inner": model.hidden,
            "activation_function": next(theirs for theirs, ours in ACTIVATIONS.items() if ours == model.activation),
            "layer_norm_epsilon": model.norm_eps or EPS["layer"],
            "resid_pdrop": model.dropout,
            "embd_pdrop": model.dropout,
            "attn_pdrop": model.dropout,
            "tie_word_embeddings": config.task not in LABELLING and bool(model.tied),
        }


def _turned_linear(ours: str, theirs: str) -> list[Match]:
    """GPT-2 keeps the matrices of its linear maps transposed."""
    return [turned(f"{ours}.weight", f"{theirs}.weight"), same(f"{ours}.bias", f"{theirs}.bias")]
