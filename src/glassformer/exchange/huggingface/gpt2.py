"""GPT-2: learned positions, layer norm before each part, biases everywhere, one matrix for queries, keys and values."""

from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Choices,
    ConfigValues,
    ParsedConfig,
    Unsupported,
    head_task,
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
from glassformer.exchange.huggingface.matching import Match, concatenated, linear, same, transposed

THEIRS: Choices = {
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False,),
}
"""Settings of theirs that ours can be."""
OURS: Choices = {
    **CAUSAL,
    "model.positions": ("learned",),
    "model.norm": ("layer",),
    "model.bias": (True,),
    "model.attention_bias": (True,),
    "model.feed_bias": (True,),
    "model.qk_norm": (False,),
    "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
}
"""Settings of ours that it has."""


class Gpt2(Architecture):
    model_type = "gpt2"
    name = "GPT-2"
    tasks: ClassVar = {"GPT2LMHeadModel": LANGUAGE_MODEL, "GPT2ForSequenceClassification": CLASSIFICATION}
    base = "transformer."

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(THEIRS)
        width, heads = values.size("n_embd", 768), values.size("n_head", 12)
        if width % heads:
            raise Unsupported(f"config.json: n_head {heads} does not divide n_embd {width}")
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
        tied = values.boolean("tie_word_embeddings", True)
        return with_causal_head(body, values, tied=tied, table="transformer.wte.weight")

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        body = "transformer"
        matches = [
            same("embed.table.weight", f"{body}.wte.weight"),
            same("encoder.positions.table.weight", f"{body}.wpe.weight"),
        ]
        for layer in range(model.layers):
            ours, theirs = f"encoder.blocks.{layer}", f"{body}.h.{layer}"
            parts = [f"{ours}.attend.{part}" for part in ("query", "key", "value")]
            sizes = [model.width] * 3
            matches += [
                *linear(f"{ours}.around_attend.norm", f"{theirs}.ln_1", bias=True),
                concatenated(
                    [f"{part}.weight" for part in parts], f"{theirs}.attn.c_attn.weight", sizes, transpose=True
                ),
                concatenated([f"{part}.bias" for part in parts], f"{theirs}.attn.c_attn.bias", sizes),
                *_transposed_linear(f"{ours}.attend.output", f"{theirs}.attn.c_proj"),
                *linear(f"{ours}.around_feed.norm", f"{theirs}.ln_2", bias=True),
                *_transposed_linear(f"{ours}.feed.input", f"{theirs}.mlp.c_fc"),
                *_transposed_linear(f"{ours}.feed.output", f"{theirs}.mlp.c_proj"),
            ]
        head = causal_head(model, self.tasks[architecture])
        return [*matches, *linear("encoder.norm", f"{body}.ln_f", bias=True), *head]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model, task = config.model, head_task(config.task)
        require_plain_heads(config, {**OURS, **CAUSAL_HEADS[task]}, self.name)
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
            "tie_word_embeddings": task == LANGUAGE_MODEL and bool(model.tied),
        }


def _transposed_linear(ours: str, theirs: str) -> list[Match]:
    """GPT-2 keeps the matrices of its linear maps transposed."""
    return [transposed(f"{ours}.weight", f"{theirs}.weight"), same(f"{ours}.bias", f"{theirs}.bias")]
