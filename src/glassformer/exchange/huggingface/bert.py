"""BERT and its relatives RoBERTa, XLM-RoBERTa and DistilBERT: bidirectional encoders with learned positions.

They normalise the word vectors and the output of each sublayer. BERT and RoBERTa add a vector to each token to mark
which of two texts it belongs to. A model here reads one text, so the import adds the first of these vectors to every
position; an export writes zeros for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, MASKED, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    first_of,
    head_task,
    linear,
    linears,
    same,
)
from glassformer.exchange.huggingface.common import (
    POST_NORM,
    POST_NORM_ACTIVATIONS,
    POST_NORM_SETTINGS,
    activation_name,
    require_plain_heads,
    with_labels,
)
from glassformer.exchange.huggingface.sentence_transformers import sentence_files, sentence_settings

TABLE, WORDS = "embed.table.weight", "embeddings.word_embeddings.weight"
POSITIONS = "encoder.positions.table.weight"
TOKEN_TYPES = 2
"""Rows of the table of token types in an exported model."""


@dataclass(frozen=True)
class MaskedHead:
    """Names of the weights of a masked language model's head."""

    transform: Mapping[str, str]
    """The map and the norm before the decoder: our name → theirs."""
    decoder: str
    """The map to the vocabulary, without `.weight`."""
    bias: str
    second_bias: str | None = None
    """Name of the bias of an untied head, in files that have it."""


class Bert(Architecture):
    model_type = "bert"
    name = "BERT"
    tasks: ClassVar = {
        "BertForMaskedLM": MASKED,
        "BertForPreTraining": MASKED,
        "BertForSequenceClassification": CLASSIFICATION,
        "BertModel": VECTORS,
    }
    base = "bert."
    theirs: ClassVar[Choices] = {
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "is_encoder_decoder": (False, None),
    }
    ours: ClassVar[Choices] = {
        **POST_NORM,
        "model.positions": ("learned",),
        "model.embed_norm": (True,),
        "model.embed_scale": (False,),
        "model.causal": (False,),
    }
    heads: ClassVar[Mapping[str, Choices]] = {
        MASKED: {"model.head_transform": (True,)},
        VECTORS: {"model.pool": ("mean", "first", "max")},
        CLASSIFICATION: {
            "model.pool": ("first",),
            "model.head_layers": (1,),
            "model.head_activation": ("tanh",),
            "model.head_bias": (None, True),
        },
    }
    layers = "encoder.layer"
    parts: ClassVar[Mapping[str, str]] = {
        "attend.query": "attention.self.query",
        "attend.key": "attention.self.key",
        "attend.value": "attention.self.value",
        "attend.output": "attention.output.dense",
        "around_attend.norm": "attention.output.LayerNorm",
        "feed.input": "intermediate.dense",
        "feed.output": "output.dense",
        "around_feed.norm": "output.LayerNorm",
    }
    """Parts of a block: ours → theirs."""
    classifier: ClassVar[Mapping[str, str]] = {"head.hidden.0": "bert.pooler.dense", "head.output": "classifier"}
    masked_head = MaskedHead(
        {"transform.map": "cls.predictions.transform.dense", "transform.norm": "cls.predictions.transform.LayerNorm"},
        "cls.predictions.decoder",
        "cls.predictions.bias",
        "cls.predictions.decoder.bias",
    )
    unused: ClassVar[Mapping[str, tuple[str, ...]]] = {
        MASKED: ("bert.pooler.", "pooler.", "cls.seq_relationship."),
        VECTORS: ("bert.pooler.", "pooler.", "cls."),
        CLASSIFICATION: ("cls.",),
    }
    """Prefixes of weights that files may contain but the model does not use, by task."""
    unused_positions = 0
    """Rows before the first position."""

    def sizes(self, values: ConfigValues) -> dict[str, Any]:
        """Return the settings of the body that differ from one model to the next."""
        width, heads = values.width_and_heads("hidden_size", "num_attention_heads", (768, 12))
        rows = values.size("max_position_embeddings", 512)
        if rows <= self.unused_positions:
            raise Unsupported(
                f"config.json: max_position_embeddings is {rows}, but {self.name} needs more than "
                f"{self.unused_positions}"
            )
        return {
            "layers": values.size("num_hidden_layers", 12),
            "heads": heads,
            "width": width,
            "hidden": values.size("intermediate_size", 3072),
            "context": rows - self.unused_positions,
            "activation": values.choice("hidden_act", POST_NORM_ACTIVATIONS, "gelu"),
            "norm_eps": values.number("layer_norm_eps", 1e-12, most=1.0),
            "dropout": values.dropout("hidden_dropout_prob"),
        }

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(self.theirs)
        body = {
            **POST_NORM_SETTINGS,
            **self.sizes(values),
            "vocab": values.size("vocab_size", 30522),
            "positions": "learned",
            "embed_norm": True,
            "initialisation": "gpt2",
        }
        task = self.tasks[architecture]
        ignored = (f"{self.base}embeddings.position_ids", "embeddings.position_ids", *self.unused[task])
        if task == MASKED:
            tied, head = values.boolean("tie_word_embeddings", True), self.masked_head
            settings = {**body, "tied": tied, "head_transform": True, "head_bias": True}
            repeated = {f"{head.decoder}.weight": f"{self.base}{WORDS}"}
            if head.second_bias is not None:
                repeated[head.second_bias] = head.bias
            return ParsedConfig(task, settings, ignored=ignored, repeated=repeated if tied else {})
        if task == VECTORS:
            note = "its pooler is left out: the vector of a text is the mean of its tokens', or what modules.json says"
            settings = {**body, "pool": "mean", "unit": False}
            return ParsedConfig(task, settings, ignored=ignored, notes={"*pooler.*": note})
        settings = {
            **body,
            "pool": "first",
            "head_layers": 1,
            "head_hidden": body["width"],
            "head_activation": self.heads[CLASSIFICATION]["model.head_activation"][0],
            "head_bias": True,
            "word_dropout": 0.0,
        }
        return with_labels(ParsedConfig(task, settings, ignored=ignored), values)

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        task = self.tasks[architecture]
        body = "" if task == VECTORS else self.base
        words = f"{body}{WORDS}"
        matches = [
            self.positions(f"{body}embeddings"),
            *linear("encoder.embed_norm", f"{body}embeddings.LayerNorm", bias=True),
        ]
        for layer in range(model.layers):
            matches += linears(f"encoder.blocks.{layer}", f"{body}{self.layers}.{layer}", self.parts)
        if task != MASKED:
            classifier = self.classifier if task == CLASSIFICATION else {}
            return [same(TABLE, words), *matches, *_linears(classifier)]
        head = self.masked_head
        matches += _linears(head.transform)
        if not model.tied:
            matches.append(same("head.weight", f"{head.decoder}.weight"))
        # An untied head adds the second bias, but files then contain the first one as well.
        second = () if model.tied or head.second_bias is None else (head.second_bias,)
        biases = (*second, head.bias)
        if not model.head_bias:  # theirs always has a bias: zeros
            return [first_of(TABLE, (words, *biases), lambda table: table.new_zeros(len(table))), *matches]
        return [same(TABLE, words), first_of("head.bias", biases, lambda bias: bias, optional=biases[1:]), *matches]

    def positions(self, embeddings: str) -> Match:
        """Match the position vectors; the vector of a first text is part of each of them."""
        unused, types = self.unused_positions, f"{embeddings}.token_type_embeddings.weight"
        return Match(
            (POSITIONS,),
            (f"{embeddings}.position_embeddings.weight", types),
            lambda tensors: [tensors[0][unused:] + tensors[1][0]],
            lambda tensors: [torch.cat([_zeros(unused, tensors[0]), tensors[0]]), _zeros(TOKEN_TYPES, tensors[0])],
            any_rows=(types,),
        )

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model, task = config.model, head_task(config.task)
        require_plain_heads(model, self.name)
        if task == CLASSIFICATION and model.head_hidden != model.width:
            raise Unsupported(
                f"{self.name} has no model.head_hidden {model.head_hidden}: only model.width {model.width}"
            )
        return {
            "vocab_size": model.vocab or vocab,
            "tie_word_embeddings": task != MASKED or bool(model.tied),
            **self.written_sizes(model),
        }

    def written_sizes(self, model: ModelSettings) -> dict[str, Any]:
        """Return the inverse of `sizes`: the entries of config.json for a model of ours."""
        return {
            "max_position_embeddings": model.context + self.unused_positions,
            "type_vocab_size": TOKEN_TYPES,
            "hidden_size": model.width,
            "intermediate_size": model.hidden,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "hidden_act": activation_name(model),
            "layer_norm_eps": model.norm_eps or EPS["layer"],
            "hidden_dropout_prob": model.dropout,
            "attention_probs_dropout_prob": model.dropout,
            "position_embedding_type": "absolute",
        }

    def aliases(self, name: str) -> list[str]:
        """Return the other names of a weight: without the prefix of the body, and the oldest names of a norm's."""
        names = [name, *super().aliases(name)]
        if ".LayerNorm." in name:
            names += [alias.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for alias in names]
        return [*names[1:], *([self.masked_head.bias] if name == self.masked_head.second_bias else [])]

    def folder_settings(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        return sentence_settings(folder) if config.get("architectures") == [self.name_for(VECTORS)] else {}

    def extra_files(self, config: Config) -> dict[str, Any]:
        return sentence_files(config.model) if config.task == VECTORS else {}


class Roberta(Bert):
    """BERT with byte-level tokens; positions are counted from the row after that of the padding token."""

    model_type = "roberta"
    name = "RoBERTa"
    tasks: ClassVar = {
        "RobertaForMaskedLM": MASKED,
        "RobertaForSequenceClassification": CLASSIFICATION,
        "RobertaModel": VECTORS,
    }
    base = "roberta."
    theirs: ClassVar = {**Bert.theirs, "pad_token_id": (1,)}
    heads: ClassVar = {**Bert.heads, MASKED: {**Bert.heads[MASKED], "model.activation": ("gelu",)}}
    classifier: ClassVar = {"head.hidden.0": "classifier.dense", "head.output": "classifier.out_proj"}
    masked_head = MaskedHead(
        {"transform.map": "lm_head.dense", "transform.norm": "lm_head.layer_norm"},
        "lm_head.decoder",
        "lm_head.bias",
        "lm_head.decoder.bias",
    )
    unused: ClassVar = {
        MASKED: ("roberta.pooler.", "pooler."),
        VECTORS: ("roberta.pooler.", "pooler.", "lm_head."),
        CLASSIFICATION: ("roberta.pooler.", "lm_head."),
    }
    unused_positions = 2
    """The row of the padding token (`pad_token_id` 1), and the one before it."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        if self.tasks[architecture] == MASKED:  # its head always uses GELU
            values.require({"hidden_act": ("gelu",)})
        return super().read(values, architecture)


class XlmRoberta(Roberta):
    model_type = "xlm-roberta"
    name = "XLM-RoBERTa"
    tasks: ClassVar = {f"XLM{name}": task for name, task in Roberta.tasks.items()}


class DistilBert(Bert):
    """BERT without token types, with half the layers and ReLU in the classifier's hidden layer."""

    model_type = "distilbert"
    name = "DistilBERT"
    tasks: ClassVar = {
        "DistilBertForMaskedLM": MASKED,
        "DistilBertForSequenceClassification": CLASSIFICATION,
        "DistilBertModel": VECTORS,
    }
    base = "distilbert."
    ours: ClassVar = {**Bert.ours, "model.norm_eps": (1e-12,)}
    heads: ClassVar = {
        **Bert.heads,
        CLASSIFICATION: {**Bert.heads[CLASSIFICATION], "model.head_activation": ("relu",)},
    }
    layers = "transformer.layer"
    parts: ClassVar = {
        "attend.query": "attention.q_lin",
        "attend.key": "attention.k_lin",
        "attend.value": "attention.v_lin",
        "attend.output": "attention.out_lin",
        "around_attend.norm": "sa_layer_norm",
        "feed.input": "ffn.lin1",
        "feed.output": "ffn.lin2",
        "around_feed.norm": "output_layer_norm",
    }
    classifier: ClassVar = {"head.hidden.0": "pre_classifier", "head.output": "classifier"}
    masked_head = MaskedHead(
        {"transform.map": "vocab_transform", "transform.norm": "vocab_layer_norm"},
        "vocab_projector",
        "vocab_projector.bias",
    )
    unused: ClassVar = {MASKED: (), VECTORS: ("vocab_",), CLASSIFICATION: ("vocab_",)}

    def sizes(self, values: ConfigValues) -> dict[str, Any]:
        width, heads = values.width_and_heads("dim", "n_heads", (768, 12))
        return {
            "layers": values.size("n_layers", 6),
            "heads": heads,
            "width": width,
            "hidden": values.size("hidden_dim", 3072),
            "context": values.size("max_position_embeddings", 512),
            "activation": values.choice("activation", POST_NORM_ACTIVATIONS, "gelu"),
            "norm_eps": 1e-12,
            "dropout": values.dropout("dropout"),
        }

    def positions(self, embeddings: str) -> Match:
        return same(POSITIONS, f"{embeddings}.position_embeddings.weight")

    def written_sizes(self, model: ModelSettings) -> dict[str, Any]:
        return {
            "max_position_embeddings": model.context,
            "dim": model.width,
            "hidden_dim": model.hidden,
            "n_layers": model.layers,
            "n_heads": model.heads,
            "activation": activation_name(model),
            "dropout": model.dropout,
            "attention_dropout": model.dropout,
            "sinusoidal_pos_embds": False,
        }


def _linears(names: Mapping[str, str]) -> list[Match]:
    """Match linear maps or norms with biases; `names`: our whole name → theirs."""
    return [match for ours, theirs in names.items() for match in linear(ours, theirs, bias=True)]


def _zeros(rows: int, table: Tensor) -> Tensor:
    return table.new_zeros(rows, table.shape[1])
