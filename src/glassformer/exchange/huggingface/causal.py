"""Models that read a text from left to right: GPT-2; Llama; and Qwen3, which also normalises queries and keys.

GPT-2 has learned positions, layer norm before each sublayer, and one matrix for queries, keys and values. Llama has
rotary positions, RMS norm and a gated feed-forward network.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch

from glassformer.bricks.norm import EPS
from glassformer.config.errors import SettingError
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings, Scaling
from glassformer.exchange.huggingface.architecture import (
    ACTIVATIONS,
    BLOCK,
    Architecture,
    Choices,
    ConfigValues,
    Entry,
    Match,
    ParsedConfig,
    Unsupported,
    activation,
    boolean,
    module_names,
    norm_eps,
    optional_size,
    short,
    size,
    with_labels,
    written,
)


class CausalArchitecture(Architecture):
    """A language model, or a classifier that reads the last token."""

    ours: ClassVar[Choices] = {
        **BLOCK,
        "model.embed_scale": (False,),
        "model.norm_order": ("pre",),
        "model.embed_norm": (False,),
        "model.causal_mask": (True,),
    }
    heads: ClassVar[Mapping[str, Choices]] = {
        LANGUAGE_MODEL: {"model.head_bias": (None, False)},
        CLASSIFICATION: {
            "data.kind": ("text",),
            "model.causal": (True,),
            "model.pool": ("last",),
            "model.head_layers": (0,),
            "model.head_bias": (False,),
            "model.embed_width": (None,),
        },
    }
    head_names: ClassVar = module_names("causal", "heads")
    tied: bool
    """Whether the head of a language model is tied if config.json does not say."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        parsed = super().read(values, architecture)
        if parsed.task != LANGUAGE_MODEL:
            return with_labels(parsed, values)
        tied = values.boolean("tie_word_embeddings", self.tied)
        repeated = {"lm_head.weight": self.their_name("embed.table.weight", self.base)} if tied else {}
        return replace(parsed, settings={**parsed.settings, "tied": tied}, repeated=repeated)

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        tied = config.task == LANGUAGE_MODEL and bool(config.model.tied)
        return {**super().write(config, vocab), "tie_word_embeddings": tied}


class Gpt2(CausalArchitecture):
    model_type = "gpt2"
    name = "GPT-2"
    tasks: ClassVar = {"GPT2LMHeadModel": LANGUAGE_MODEL, "GPT2ForSequenceClassification": CLASSIFICATION}
    theirs: ClassVar = {
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False, None),
        "is_encoder_decoder": (False,),
    }
    ours: ClassVar = {
        **CausalArchitecture.ours,
        "model.positions": ("learned",),
        "model.norm": ("layer",),
        "model.bias": (True,),
        "model.attention_bias": (True,),
        "model.feed_bias": (True,),
        "model.qk_norm": (False,),
        "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
    }
    entries: ClassVar = (
        size("vocab_size", "vocab", 50257),
        size("n_positions", "context", 1024),
        size("n_embd", "width", 768),
        size("n_layer", "layers", 12),
        size("n_head", "heads", 12),
        Entry("n_inner", "hidden", lambda values: values.size("n_inner", 4 * values.size("n_embd", 768))),
        activation("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps("layer_norm_epsilon", EPS["layer"], EPS["layer"]),
        *written("dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"),
    )
    base = "transformer."
    body: ClassVar = module_names("gpt2", "body")
    transposed: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "attn.c_attn": ("attend.query", "attend.key", "attend.value"),
        "attn.c_proj": ("attend.output",),
        "mlp.c_fc": ("feed.input",),
        "mlp.c_proj": ("feed.output",),
    }
    """Its linear maps, whose matrices are stored transposed, and the maps of ours that each holds side by side."""
    ignored = ("*.attn.bias", "*.attn.masked_bias")
    """Causal masks, which both sides compute."""
    tied = True

    def special_matches(self, model: ModelSettings, task: str, base: str) -> list[Match]:
        return [
            match
            for layer in range(model.layers)
            for theirs, parts in self.transposed.items()
            for match in _transposed([f"encoder.blocks.{layer}.{part}" for part in parts], f"{base}h.{layer}.{theirs}")
        ]


def _transposed(ours: list[str], theirs: str) -> list[Match]:
    """Match linear maps of one size, which GPT-2 stores side by side."""
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


class Llama(CausalArchitecture):
    model_type = "llama"
    name = "Llama"
    tasks: ClassVar = {"LlamaForCausalLM": LANGUAGE_MODEL, "LlamaForSequenceClassification": CLASSIFICATION}
    theirs: ClassVar[Choices] = {"partial_rotary_factor": (1.0, None), "is_encoder_decoder": (False,)}
    ours: ClassVar[Choices] = {
        **CausalArchitecture.ours,
        "model.positions": ("rotary",),
        "model.norm": ("rms",),
        "model.activation": ("swiglu",),
        "model.bias": (False, True),
        "model.qk_norm": (False,),
        "model.attention_bias": (False, True),
    }
    shared_entries: ClassVar = (
        size("vocab_size", "vocab"),
        size("max_position_embeddings", "context", 2048),
        size("hidden_size", "width"),
        size("intermediate_size", "hidden"),
        size("num_hidden_layers", "layers"),
        size("num_attention_heads", "heads"),
        optional_size("num_key_value_heads", "kv_heads"),
        activation("hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu"),
        norm_eps("rms_norm_eps", EPS["rms"], EPS["rms"]),
        boolean("attention_bias", "attention_bias", False),
        *written("dropout", "attention_dropout"),
    )
    """Entries of Llama and of its relatives."""
    entries: ClassVar = (
        *shared_entries,
        optional_size("head_dim", "head_width"),
        boolean("mlp_bias", "feed_bias", False),
    )
    base = "model."
    body: ClassVar = module_names("llama", "body")
    ignored = ("*.rotary_emb.inv_freq",)
    """Frequencies, which both sides compute."""
    tied = False

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        parsed = super().read(values, architecture)
        base, scaling = _rotary(values)
        return replace(parsed, settings={**parsed.settings, "rotary_base": base, "rotary_scaling": scaling})

    def check_heads(self, model: ModelSettings) -> None:
        if model.width % model.heads:  # though heads may have any width
            raise Unsupported(
                f"{self.name} has no model.heads {model.heads} with model.width {model.width}: only what divides it"
            )

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model = config.model
        scaling = None if model.rotary_scaling is None else rope_scaling(Scaling.read(model.rotary_scaling))
        return {
            **super().write(config, vocab),
            # the base and the scaling in both forms: transformers 5 reads the first, older versions the others
            "rope_parameters": {"rope_theta": model.rotary_base, **(scaling or {"rope_type": "default"})},
            "rope_theta": model.rotary_base,
            "rope_scaling": scaling,
        }


class Qwen3(Llama):
    model_type = "qwen3"
    name = "Qwen3"
    tasks: ClassVar = {"Qwen3ForCausalLM": LANGUAGE_MODEL, "Qwen3ForSequenceClassification": CLASSIFICATION}
    theirs: ClassVar = {"use_sliding_window": (False, None), **Llama.theirs}
    ours: ClassVar = {**Llama.ours, "model.qk_norm": (True,), "model.feed_bias": (False,)}
    entries: ClassVar = (*Llama.shared_entries, size("head_dim", "head_width", 128))
    constants: ClassVar = {"use_sliding_window": False}

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        kinds = values.get("layer_types") or []
        if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
            raise Unsupported(f"Qwen3 with layer_types {short(kinds)} is not supported: only with full_attention")
        return super().read(values, architecture)

    def check_heads(self, model: ModelSettings) -> None:
        """Accept any heads: their width is an entry of config.json."""


def _rotary(values: ConfigValues) -> tuple[float, str | None]:
    """The base, and how positions are slowed, as our setting says it. transformers 5 writes both in one object."""
    rope_object = values.get("rope_scaling") or values.get("rope_parameters") or {}
    if not isinstance(rope_object, dict):
        raise Unsupported(f"config.json: rope_parameters is {short(rope_object)}, but must be an object")
    rope = ConfigValues({"rope_theta": values.get("rope_theta"), **rope_object}, values.name)
    rope.require(Llama.theirs)
    base = rope.number("rope_theta", 10_000.0)
    kind = rope_object.get("rope_type", rope_object.get("type", "default"))
    if kind == "default":
        return base, None
    if kind not in ("linear", "llama3"):
        only = "only with default, linear or llama3"
        raise Unsupported(f"{values.name} with rope_type {short(kind)} is not supported: {only}")
    scaling = f"{kind}:{rope.number('factor', most=1e6)}"
    if kind == "llama3":
        low, high = (rope.number(f"{end}_freq_factor", most=1e6) for end in ("low", "high"))
        scaling += f":{low}:{high}:{rope.size('original_max_position_embeddings')}"
    try:
        return base, str(Scaling.read(scaling))
    except SettingError as error:
        raise Unsupported(f"config.json: {error}") from None


def rope_scaling(scaling: Scaling) -> dict[str, Any]:
    """How positions are slowed, in the words of config.json."""
    values: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        values |= {
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.context,
        }
    return values
