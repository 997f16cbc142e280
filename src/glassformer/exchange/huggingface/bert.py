"""BERT: reads both ways, learned positions, a norm after the word vectors and after each part.

Each position also gets a vector that says whether it stands in the first or the second of two texts. Here a text stands
alone, so the first of them is part of every position; where a model goes out, the table of positions holds it, and
that of the two texts zeros.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, LABELLING, MASKED, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Reading,
    Unsupported,
    number,
    only,
    truth,
    whole_number,
    word,
)
from glassformer.exchange.huggingface.labels import read_labels
from glassformer.exchange.huggingface.matching import Match, Several, linear, same
from glassformer.exchange.huggingface.post_norm import (
    ACTIVATIONS,
    SETTINGS,
    activation_name,
    dropout_of,
    maps,
    must_be_like,
)
from glassformer.exchange.huggingface.sentences import sentence_files, sentence_settings

ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
}
BODY: dict[str, tuple[Any, ...]] = {
    "model.positions": ("learned",),
    "model.embed_norm": (True,),
    "model.embed_scale": (False,),
    "model.causal": (False,),
}
HEADS: dict[str, dict[str, tuple[Any, ...]]] = {
    MASKED: {"model.head_transform": (True,)},
    VECTORS: {"model.pool": ("mean", "first", "max")},
    CLASSIFICATION: {
        "model.pool": ("first",),
        "model.head_layers": (1,),
        "model.head_activation": ("tanh",),
        "model.head_bias": (None, True),
    },
}
"""By task, settings of ours that their heads have."""

PARTS = {
    "attend.query": "attention.self.query",
    "attend.key": "attention.self.key",
    "attend.value": "attention.self.value",
    "attend.output": "attention.output.dense",
    "around_attend.norm": "attention.output.LayerNorm",
    "feed.input": "intermediate.dense",
    "feed.output": "output.dense",
    "around_feed.norm": "output.LayerNorm",
}
BIAS, BIAS_OF_ITS_OWN = "cls.predictions.bias", "cls.predictions.decoder.bias"
"""Of the head; the second where it is not tied, in files that have it."""
TEXTS = 2
"""Rows that the table of the first and the second text has in a model that goes out."""


class Bert(Architecture):
    model_type = "bert"
    tasks: ClassVar = {
        "BertForMaskedLM": MASKED,
        "BertForPreTraining": MASKED,
        "BertForSequenceClassification": CLASSIFICATION,
        "BertModel": VECTORS,
    }
    base = "bert."

    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        only(config, ONLY, "BERT")
        width = whole_number(config, "hidden_size", default=768)
        heads = whole_number(config, "num_attention_heads", default=12)
        if width % heads:
            raise Unsupported(f"config.json: num_attention_heads {heads} does not divide hidden_size {width}")
        settings = {
            **SETTINGS,
            "layers": whole_number(config, "num_hidden_layers", default=12),
            "heads": heads,
            "width": width,
            "hidden": whole_number(config, "intermediate_size", default=3072),
            "context": whole_number(config, "max_position_embeddings", default=512),
            "vocab": whole_number(config, "vocab_size", default=30522),
            "activation": word(config, "hidden_act", ACTIVATIONS, default="gelu", name="BERT"),
            "positions": "learned",
            "embed_norm": True,
            "norm_eps": number(config, "layer_norm_eps", default=1e-12, most=1.0),
            "dropout": dropout_of(config, "hidden_dropout_prob"),
            "initialisation": "gpt2",
        }
        ignored = ("bert.embeddings.position_ids", "embeddings.position_ids")
        reading = Reading(self.tasks[architecture], settings, ignored=ignored)
        if reading.task == MASKED:
            return _masked(reading, truth(config, "tie_word_embeddings", default=True))
        if reading.task == VECTORS:
            pooler = ("pooler.", "bert.pooler.", "cls.")
            note = "its pooler is left out: the vector of a text is the mean of its tokens', or what modules.json says"
            settings |= {"pool": "mean", "unit": False}
            return replace(reading, settings=settings, ignored=(*ignored, *pooler), notes={"*pooler.*": note})
        found = read_labels(config, "BERT")
        settings |= {
            "pool": "first",
            "head_layers": 1,
            "head_hidden": width,
            "head_activation": "tanh",
            "head_bias": True,
            "word_dropout": 0.0,
        }
        return replace(
            reading,
            task=found.task,
            settings=settings,
            labels=found.labels,
            loss=found.loss,
            ignored=(*ignored, "cls."),
        )

    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        body = "" if architecture == "BertModel" else self.base
        words = f"{body}embeddings.word_embeddings.weight"
        found = [
            _positions(f"{body}embeddings"),
            *linear("encoder.embed_norm", f"{body}embeddings.LayerNorm", bias=True),
        ]
        for layer in range(model.layers):
            found += maps(f"encoder.blocks.{layer}", f"{body}encoder.layer.{layer}", PARTS)
        if task == VECTORS:
            return [same("embed.table.weight", words), *found]
        if task in LABELLING:
            pooler = linear("head.hidden.0", "bert.pooler.dense", bias=True)
            return [same("embed.table.weight", words), *found, *pooler, *linear("head.output", "classifier", bias=True)]
        head = "cls.predictions"
        found += maps("transform", f"{head}.transform", {"map": "dense", "norm": "LayerNorm"})
        biases: tuple[str, ...] = (BIAS,)
        if not model.tied:
            found.append(same("head.weight", f"{head}.decoder.weight"))
            biases = (BIAS_OF_ITS_OWN, BIAS)
        if model.head_bias:
            return [same("embed.table.weight", words), _bias(biases), *found]
        return [_without_bias(words, biases), *found]

    def write(self, config: Config, vocab: int) -> tuple[str, dict[str, Any]]:
        model, task = config.model, CLASSIFICATION if config.task in LABELLING else config.task
        if task not in HEADS:
            raise Unsupported(f"BERT does not learn {config.task}")
        must_be_like(config, {**BODY, **HEADS[task]}, "BERT")
        if task == CLASSIFICATION and model.head_hidden != model.width:
            raise Unsupported(f"BERT has no model.head_hidden {model.head_hidden}: only model.width {model.width}")
        name = {MASKED: "BertForMaskedLM", VECTORS: "BertModel"}.get(task, "BertForSequenceClassification")
        return name, {
            "vocab_size": model.vocab or vocab,
            "max_position_embeddings": model.context,
            "type_vocab_size": TEXTS,
            "hidden_size": model.width,
            "intermediate_size": model.hidden,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "hidden_act": activation_name(model),
            "layer_norm_eps": model.norm_eps or EPS["layer"],
            "hidden_dropout_prob": model.dropout,
            "attention_probs_dropout_prob": model.dropout,
            "position_embedding_type": "absolute",
            "tie_word_embeddings": task != MASKED or bool(model.tied),
        }

    def aliases(self, name: str) -> list[str]:
        """Files of a body alone leave its name away; the oldest ones call the two numbers of a norm gamma and beta."""
        names = [name, *super().aliases(name)]
        if ".LayerNorm." in name:
            names += [one.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for one in names]
        return [*names[1:], *([BIAS] if name == BIAS_OF_ITS_OWN else [])]

    def beside(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        return sentence_settings(folder) if config.get("architectures") == ["BertModel"] else {}

    def files(self, config: Config) -> dict[str, Any]:
        return sentence_files(config.model) if config.task == VECTORS else {}


def _masked(reading: Reading, tied: bool) -> Reading:
    repeated = {BIAS_OF_ITS_OWN: BIAS, "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"}
    return replace(
        reading,
        settings={**reading.settings, "tied": tied, "head_transform": True, "head_bias": True},
        ignored=(*reading.ignored, "bert.pooler.", "pooler.", "cls.seq_relationship."),
        repeated=repeated if tied else {},
    )


def _positions(theirs: str) -> Match:
    """Positions, with the vector of a first text in each of them."""

    def to_ours(tensors: Several) -> Several:
        positions, texts = tensors
        return [positions + texts[0]]

    def to_theirs(tensors: Several) -> Several:
        (positions,) = tensors
        return [positions, positions.new_zeros(TEXTS, positions.shape[1])]

    texts = f"{theirs}.token_type_embeddings.weight"
    names = (f"{theirs}.position_embeddings.weight", texts)
    return Match(("encoder.positions.table.weight",), names, to_ours, to_theirs, any_rows=(texts,))


def _bias(theirs: tuple[str, ...]) -> Match:
    """The first of theirs is what is added; the other, where there is one, is only there."""

    def to_theirs(tensors: Several) -> Several:
        return [tensors[0]] * len(theirs)

    return Match(("head.bias",), theirs, _first, to_theirs, absent=theirs[1:])


def _without_bias(words: str, theirs: tuple[str, ...]) -> Match:
    """Their head always has a bias; ours without one is theirs with zeros."""

    def to_theirs(tensors: Several) -> Several:
        return [tensors[0], *[tensors[0].new_zeros(len(tensors[0]))] * len(theirs)]

    return Match(("embed.table.weight",), (words, *theirs), _first, to_theirs)


def _first(tensors: Several) -> Several:
    return tensors[:1]
