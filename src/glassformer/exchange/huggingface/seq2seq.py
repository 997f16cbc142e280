"""What BART and Marian share: an encoder and a decoder of like blocks, one table of word vectors for all."""

from collections.abc import Mapping
from typing import Any, ClassVar

from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Reading,
    Unsupported,
    only,
    short,
    truth,
    whole_number,
    word,
)
from glassformer.exchange.huggingface.matching import Match, Several, same
from glassformer.exchange.huggingface.post_norm import (
    ACTIVATIONS,
    SETTINGS,
    activation_name,
    dropout_of,
    maps,
    must_be_like,
)

ONLY: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True, None),
    "normalize_before": (False, None),
    "add_final_layer_norm": (False, None),
    "tie_word_embeddings": (True, None),
}
LIKE: dict[str, tuple[Any, ...]] = {
    "model.decoder": ("transformer",),
    "model.shared": (True,),
    "model.tied": (True,),
    "model.norm_eps": (None, 1e-5),
}

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
PARTS = {
    **{f"attend.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "around_attend.norm": "self_attn_layer_norm",
    "feed.input": "fc1",
    "feed.output": "fc2",
    "around_feed.norm": "final_layer_norm",
}
RECALL = {
    **{f"recall.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "around_recall.norm": "encoder_attn_layer_norm",
}
WORDS, BIAS = "model.shared.weight", "final_logits_bias"
STACKS = ("encoder", "decoder")


class Seq2SeqArchitecture(Architecture):
    name: str
    own: ClassVar[Mapping[str, tuple[Any, ...]]]
    """Settings of ours that this one has, beside those that both have."""
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]]
    """Settings of theirs that can have no other values."""
    settings: ClassVar[Mapping[str, Any]]
    """Those of ours that every one of them has."""

    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        only(config, {**ONLY, **self.fixed}, self.name)
        width = whole_number(config, "d_model", default=1024)
        heads = self._alike(config, "attention_heads", 16)
        if width % heads:
            raise Unsupported(f"config.json: encoder_attention_heads {heads} does not divide d_model {width}")
        layers = whole_number(config, "encoder_layers", default=12)
        settings = {
            **SETTINGS,
            **self.settings,
            "decoder": "transformer",
            "layers": layers,
            "decoder_layers": whole_number(config, "decoder_layers", default=12),
            "heads": heads,
            "width": width,
            "hidden": self._alike(config, "ffn_dim", 4096),
            "context": whole_number(config, "max_position_embeddings", default=1024),
            "vocab": whole_number(config, "vocab_size"),
            "activation": word(config, "activation_function", ACTIVATIONS, default="gelu", name=self.name),
            "embed_scale": truth(config, "scale_embedding", default=False),
            "dropout": dropout_of(config, "dropout"),
            "tied": True,
            "shared": True,
            "head_bias": True,
            "initialisation": "xavier",
        }
        repeated = dict.fromkeys(["lm_head.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS)], WORDS)
        return Reading(TRANSLATION, settings, repeated=repeated)

    def _alike(self, config: Mapping[str, Any], key: str, usual: int) -> int:
        """A size that both stacks have."""
        one, other = (whole_number(config, f"{stack}_{key}", default=usual) for stack in STACKS)
        if one != other:
            raise Unsupported(
                f"{self.name} with encoder_{key} {short(one)} and decoder_{key} {short(other)} is not supported: "
                "only with the same"
            )
        return one

    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        assert model.decoder_layers is not None
        found = _words(bias=bool(model.head_bias))
        for stack, layers in zip(STACKS, (model.layers, model.decoder_layers), strict=True):
            parts = PARTS if stack == "encoder" else {**PARTS, **RECALL}
            for layer in range(layers):
                found += maps(f"{stack}.blocks.{layer}", f"model.{stack}.layers.{layer}", parts)
        return found

    def write(self, config: Config, vocab: int) -> tuple[str, dict[str, Any]]:
        if config.task != TRANSLATION:
            raise Unsupported(f"{self.name} does not learn {config.task}")
        must_be_like(config, {**LIKE, **self.own}, self.name)
        model = config.model
        if not model.shared:  # which nobody can set where each side has tokens of its own
            raise Unsupported(f"{self.name} has no model.shared false: only true")
        sizes = {"attention_heads": model.heads, "ffn_dim": model.hidden}
        return next(iter(self.tasks)), {
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


def _words(*, bias: bool) -> list[Match]:
    """The word vectors, and the bias of the head, which files may lack; ours without one is theirs with zeros."""
    if bias:
        head = Match(("head.bias",), (BIAS,), _flat, _row, absent=(BIAS,))
        return [same("embed_source.table.weight", WORDS), head]
    return [Match(("embed_source.table.weight",), (WORDS, BIAS), _first, _with_zeros)]


def _flat(tensors: Several) -> Several:
    return [tensors[0][0]]


def _row(tensors: Several) -> Several:
    return [tensors[0].unsqueeze(0)]


def _first(tensors: Several) -> Several:
    return tensors[:1]


def _with_zeros(tensors: Several) -> Several:
    return [tensors[0], tensors[0].new_zeros(1, len(tensors[0]))]
