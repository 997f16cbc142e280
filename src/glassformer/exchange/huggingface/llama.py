"""Llama, and Qwen3, which differs by the norm of queries and keys: rotary positions, RMS norm, a gated feed-forward."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.errors import SettingError
from glassformer.config.presets import CLASSIFICATION, LABELLING, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.scaling import Scaling
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Reading,
    Unsupported,
    differs,
    number,
    only,
    short,
    truth,
    whole_number,
    word,
)
from glassformer.exchange.huggingface.causal import HEADS, PLAIN, READER, ends, with_head
from glassformer.exchange.huggingface.matching import Match, linear, same

ONLY: dict[str, tuple[Any, ...]] = {
    "partial_rotary_factor": (1.0, None),
    "is_encoder_decoder": (False,),
}
LIKE: dict[str, tuple[Any, ...]] = {
    **PLAIN,
    "model.positions": ("rotary",),
    "model.norm": ("rms",),
    "model.activation": ("swiglu",),
}
NAMES = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
FEEDS = {"input": "gate_proj", "gate": "up_proj", "output": "down_proj"}


class Llama(Architecture):
    model_type = "llama"
    name = "Llama"
    stem = "Llama"
    tasks: ClassVar = {"LlamaForCausalLM": LANGUAGE_MODEL, "LlamaForSequenceClassification": CLASSIFICATION}
    base = "model."
    own: ClassVar[Mapping[str, tuple[Any, ...]]] = {"model.qk_norm": (False,), "model.attention_bias": (False, True)}
    """Settings of ours that this one has, beside those that both have."""
    usual_head: int | None = None
    """The width of a head where config.json does not say."""

    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        only(config, ONLY, self.name)
        width, heads = whole_number(config, "hidden_size"), whole_number(config, "num_attention_heads")
        if config.get("head_dim") is None and self.usual_head is None and width % heads:
            raise Unsupported(f"config.json: num_attention_heads {heads} does not divide hidden_size {width}")
        base, scaling = _rotary(config, self.name)
        settings = {
            "encoder": "transformer",
            "layers": whole_number(config, "num_hidden_layers"),
            "heads": heads,
            "width": width,
            "head_width": whole_number(config, "head_dim", default=self.usual_head or max(1, width // heads)),
            "kv_heads": whole_number(config, "num_key_value_heads", default=heads),
            "hidden": whole_number(config, "intermediate_size"),
            "context": whole_number(config, "max_position_embeddings", default=2048),
            "vocab": whole_number(config, "vocab_size"),
            "activation": word(
                config, "hidden_act", {"silu": "swiglu", "swish": "swiglu"}, default="silu", name=self.name
            ),
            "positions": "rotary",
            "rotary_base": base,
            "rotary_scaling": scaling,
            "norm": "rms",
            "norm_eps": number(config, "rms_norm_eps", default=EPS["rms"], most=1.0),
            "bias": False,
            "attention_bias": truth(config, "attention_bias", default=False),
            "feed_bias": self._feed_bias(config),
            "qk_norm": False,
            "initialisation": "gpt2",
        }
        tied = truth(config, "tie_word_embeddings", default=False)
        ignored = ("*.rotary_emb.inv_freq",)  # which both sides compute
        reading = Reading(self.tasks[architecture], settings, ignored=ignored)
        return with_head(reading, config, self.name, tied=tied, table="model.embed_tokens.weight")

    def _feed_bias(self, config: Mapping[str, Any]) -> bool:
        return truth(config, "mlp_bias", default=False)

    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        found = [same("embed.table.weight", "model.embed_tokens.weight")]
        for layer in range(model.layers):
            ours, theirs = f"encoder.blocks.{layer}", f"model.layers.{layer}"
            found += [
                *linear(f"{ours}.around_attend.norm", f"{theirs}.input_layernorm", bias=False),
                *linear(f"{ours}.around_feed.norm", f"{theirs}.post_attention_layernorm", bias=False),
            ]
            for part, name in NAMES.items():
                bias = bool(model.attention_bias)
                found += linear(f"{ours}.attend.{part}", f"{theirs}.self_attn.{name}", bias=bias)
            for part, name in FEEDS.items():
                found += linear(f"{ours}.feed.{part}", f"{theirs}.mlp.{name}", bias=bool(model.feed_bias))
            if model.qk_norm:
                for part in ("query", "key"):
                    found += linear(f"{ours}.attend.{part}_norm", f"{theirs}.self_attn.{part[0]}_norm", bias=False)
        return [*found, *linear("encoder.norm", "model.norm", bias=False), *ends(model, task)]

    def write(self, config: Config, vocab: int) -> tuple[str, dict[str, Any]]:
        if config.task not in (LANGUAGE_MODEL, *LABELLING):
            raise Unsupported(f"{self.name} does not learn {config.task}")
        model = config.model
        differs(config, {**LIKE, **self.own, **(READER if config.task in LABELLING else HEADS)}, self.name)
        if self.usual_head is None and model.width % model.heads:  # though its heads may be of any width
            raise Unsupported(
                f"{self.name} has no model.heads {model.heads} with model.width {model.width}: only what divides it"
            )
        kind = "ForSequenceClassification" if config.task in LABELLING else "ForCausalLM"
        written = {
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
            "tie_word_embeddings": config.task not in LABELLING and bool(model.tied),
            **_rotary_said(model),
        }
        return f"{self.stem}{kind}", {**written, **self._also(model)}

    def _also(self, model: ModelSettings) -> dict[str, Any]:
        return {"mlp_bias": bool(model.feed_bias)}


class Qwen3(Llama):
    model_type = "qwen3"
    name = "Qwen3"
    stem = "Qwen3"
    tasks: ClassVar = {"Qwen3ForCausalLM": LANGUAGE_MODEL, "Qwen3ForSequenceClassification": CLASSIFICATION}
    own: ClassVar = {"model.qk_norm": (True,), "model.attention_bias": (False, True), "model.feed_bias": (False,)}
    usual_head = 128

    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        only(config, {"use_sliding_window": (False, None)}, self.name)
        kinds = config.get("layer_types") or []
        if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
            raise Unsupported(f"Qwen3 with layer_types {short(kinds)} is not supported: only with full_attention")
        reading = super().read(config, architecture)
        return replace(reading, settings={**reading.settings, "qk_norm": True})

    def _feed_bias(self, config: Mapping[str, Any]) -> bool:
        return False

    def _also(self, model: ModelSettings) -> dict[str, Any]:
        return {"use_sliding_window": False}


def _rotary(config: Mapping[str, Any], name: str) -> tuple[float, str | None]:
    """The base, and how positions are slowed, as our setting says it. transformers 5 writes both in one object."""
    said = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(said, dict):
        raise Unsupported(f"config.json: rope_parameters is {short(said)}, but must be an object")
    only(said, ONLY, name)
    base = number({"rope_theta": config.get("rope_theta"), **said}, "rope_theta", default=10_000.0)
    kind = said.get("rope_type", said.get("type", "default"))
    if kind == "default":
        return base, None
    if kind not in ("linear", "llama3"):
        raise Unsupported(f"{name} with rope_type {short(kind)} is not supported: only with default, linear or llama3")
    factor = number(said, "factor", most=1e6)
    try:
        if kind == "linear":
            return base, str(Scaling.read(f"linear:{factor}"))
        low, high = (number(said, f"{end}_freq_factor", most=1e6) for end in ("low", "high"))
        context = whole_number(said, "original_max_position_embeddings")
        return base, str(Scaling.read(f"llama3:{factor}:{low}:{high}:{context}"))
    except SettingError as error:
        raise Unsupported(f"config.json: {error}") from None


def _rotary_said(model: ModelSettings) -> dict[str, Any]:
    """Both ways to say it: transformers 5 reads the first, older ones the others."""
    scaled = None if model.rotary_scaling is None else scaling_said(Scaling.read(model.rotary_scaling))
    return {
        "rope_parameters": {"rope_theta": model.rotary_base, **(scaled or {"rope_type": "default"})},
        "rope_theta": model.rotary_base,
        "rope_scaling": scaled,
    }


def scaling_said(scaling: Scaling) -> dict[str, Any]:
    """In the words of config.json."""
    said: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        said |= {
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.context,
        }
    return said
