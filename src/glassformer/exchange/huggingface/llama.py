"""Llama, and Qwen3, which differs by the norm of queries and keys: rotary positions, RMS norm, a gated feed-forward."""

from dataclasses import replace
from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.errors import SettingError
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings, Scaling
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    linear,
    linears,
    same,
    short,
)
from glassformer.exchange.huggingface.common import CAUSAL, CAUSAL_HEADS, causal_head, with_causal_head

NORMS = {"around_attend.norm": "input_layernorm", "around_feed.norm": "post_attention_layernorm"}
ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
FEED = {"input": "gate_proj", "gate": "up_proj", "output": "down_proj"}
QK_NORMS = {"query_norm": "q_norm", "key_norm": "k_norm"}


class Llama(Architecture):
    model_type = "llama"
    name = "Llama"
    tasks: ClassVar = {"LlamaForCausalLM": LANGUAGE_MODEL, "LlamaForSequenceClassification": CLASSIFICATION}
    base = "model."
    theirs: ClassVar[Choices] = {"partial_rotary_factor": (1.0, None), "is_encoder_decoder": (False,)}
    ours: ClassVar[Choices] = {
        **CAUSAL,
        "model.positions": ("rotary",),
        "model.norm": ("rms",),
        "model.activation": ("swiglu",),
        "model.qk_norm": (False,),
        "model.attention_bias": (False, True),
    }
    heads: ClassVar = CAUSAL_HEADS
    usual_head: int | None = None
    """The width of a head where config.json does not say."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(self.theirs)
        width, heads = values.size("hidden_size"), values.size("num_attention_heads")
        if values.get("head_dim") is None and self.usual_head is None and width % heads:
            raise Unsupported(f"config.json: num_attention_heads {heads} does not divide hidden_size {width}")
        base, scaling = _rotary(values)
        settings = {
            "encoder": "transformer",
            "layers": values.size("num_hidden_layers"),
            "heads": heads,
            "width": width,
            "head_width": values.size("head_dim", self.usual_head or max(1, width // heads)),
            "kv_heads": values.size("num_key_value_heads", heads),
            "hidden": values.size("intermediate_size"),
            "context": values.size("max_position_embeddings", 2048),
            "vocab": values.size("vocab_size"),
            "activation": values.choice("hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu"),
            "positions": "rotary",
            "rotary_base": base,
            "rotary_scaling": scaling,
            "norm": "rms",
            "norm_eps": values.number("rms_norm_eps", EPS["rms"], most=1.0),
            "bias": False,
            "attention_bias": values.boolean("attention_bias", False),
            "feed_bias": values.boolean("mlp_bias", False),
            "qk_norm": False,
            "initialisation": "gpt2",
        }
        ignored = ("*.rotary_emb.inv_freq",)  # which both sides compute
        body = ParsedConfig(self.tasks[architecture], settings, ignored=ignored)
        return with_causal_head(
            body, values, tied=values.boolean("tie_word_embeddings", False), table="model.embed_tokens.weight"
        )

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        matches = [same("embed.table.weight", "model.embed_tokens.weight")]
        for layer in range(model.layers):
            ours, theirs = f"encoder.blocks.{layer}", f"model.layers.{layer}"
            attend, attention = f"{ours}.attend", f"{theirs}.self_attn"
            matches += [
                *linears(ours, theirs, NORMS, bias=False),
                *linears(attend, attention, ATTENTION, bias=bool(model.attention_bias)),
                *linears(f"{ours}.feed", f"{theirs}.mlp", FEED, bias=bool(model.feed_bias)),
                *linears(attend, attention, QK_NORMS if model.qk_norm else {}, bias=False),
            ]
        head = causal_head(model, self.tasks[architecture])
        return [*matches, *linear("encoder.norm", "model.norm", bias=False), *head]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model = config.model
        if self.usual_head is None and model.width % model.heads:  # though its heads may be of any width
            raise Unsupported(
                f"{self.name} has no model.heads {model.heads} with model.width {model.width}: only what divides it"
            )
        scaling = None if model.rotary_scaling is None else rope_scaling(Scaling.read(model.rotary_scaling))
        return {
            "vocab_size": model.vocab or vocab,
            "max_position_embeddings": model.context,
            "hidden_size": model.width,
            "intermediate_size": model.hidden,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_width,
            "hidden_act": "silu",
            "rms_norm_eps": model.norm_eps or EPS["rms"],
            "attention_bias": bool(model.attention_bias),
            "attention_dropout": model.dropout,
            "tie_word_embeddings": config.task == LANGUAGE_MODEL and bool(model.tied),
            # the base and the scaling, said in both ways: transformers 5 reads the first, older ones the others
            "rope_parameters": {"rope_theta": model.rotary_base, **(scaling or {"rope_type": "default"})},
            "rope_theta": model.rotary_base,
            "rope_scaling": scaling,
            "mlp_bias": bool(model.feed_bias),
        }


class Qwen3(Llama):
    model_type = "qwen3"
    name = "Qwen3"
    tasks: ClassVar = {"Qwen3ForCausalLM": LANGUAGE_MODEL, "Qwen3ForSequenceClassification": CLASSIFICATION}
    theirs: ClassVar = {"use_sliding_window": (False, None), **Llama.theirs}
    ours: ClassVar = {**Llama.ours, "model.qk_norm": (True,), "model.feed_bias": (False,)}
    usual_head = 128

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        kinds = values.get("layer_types") or []
        if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
            raise Unsupported(f"Qwen3 with layer_types {short(kinds)} is not supported: only with full_attention")
        parsed = super().read(values, architecture)
        return replace(parsed, settings={**parsed.settings, "feed_bias": False, "qk_norm": True})

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        values = super().write(config, vocab)
        del values["mlp_bias"]  # of which its config.json knows nothing
        return {**values, "use_sliding_window": False}


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
