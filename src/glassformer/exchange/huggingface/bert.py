"""BERT and its relatives RoBERTa, XLM-RoBERTa and DistilBERT: bidirectional encoders with learned positions.

They normalise the word vectors and the output of each sublayer. BERT and RoBERTa add a vector to each token to mark
which of two texts it belongs to. A model here reads one text, so the import adds the first of these vectors to every
position; an export writes zeros for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.bricks.norm import EPS
from glassformer.config.presets import CLASSIFICATION, MASKED, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    ACTIVATIONS,
    POST_NORM,
    Architecture,
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    activation,
    dropout,
    first_of,
    head_task,
    module_names,
    norm_eps,
    size,
    with_labels,
    written,
)

TOKEN_TYPES = 2
"""Rows of the table of token types in an exported model."""


class Bert(Architecture):
    model_type = "bert"
    name = "BERT"
    tasks: ClassVar = {
        "BertForMaskedLM": MASKED,
        "BertForPreTraining": MASKED,
        "BertForSequenceClassification": CLASSIFICATION,
        "BertModel": VECTORS,
    }
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
            "model.head_bias": (True, None),
        },
    }
    entries: ClassVar = (
        size("vocab_size", "vocab", 30522),
        size("max_position_embeddings", "context", 512),
        size("hidden_size", "width", 768),
        size("intermediate_size", "hidden", 3072),
        size("num_hidden_layers", "layers", 12),
        size("num_attention_heads", "heads", 12),
        activation("hidden_act", ACTIVATIONS, "gelu"),
        norm_eps("layer_norm_eps", 1e-12, EPS["layer"]),
        dropout("hidden_dropout_prob"),
        *written("dropout", "attention_probs_dropout_prob"),
    )
    constants: ClassVar[Mapping[str, Any]] = {"type_vocab_size": TOKEN_TYPES, "position_embedding_type": "absolute"}
    base = "bert."
    body: ClassVar = module_names("bert", "body")
    head_names: ClassVar = module_names("bert", "heads")
    biases: tuple[str, ...] = ("cls.predictions.bias", "cls.predictions.decoder.bias")
    """Names of the bias of a masked language model's head; an untied head uses the second one, if there are two."""
    unused: ClassVar[Mapping[str, tuple[str, ...]]] = {
        MASKED: ("bert.pooler.", "pooler.", "cls.seq_relationship."),
        VECTORS: ("bert.pooler.", "pooler.", "cls."),
        CLASSIFICATION: ("cls.",),
    }
    """Prefixes of weights that files may contain but the model does not use, by task."""
    unused_positions = 0
    """Rows before the first position."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        body = super().read(values, architecture)
        task, rows = body.task, body.settings["context"]
        if rows <= self.unused_positions:
            raise Unsupported(
                f"config.json: max_position_embeddings is {rows}, but {self.name} needs more than "
                f"{self.unused_positions}"
            )
        body = replace(
            body,
            settings={**body.settings, "context": rows - self.unused_positions},
            ignored=(f"{self.base}embeddings.position_ids", "embeddings.position_ids", *self.unused[task]),
        )
        if task == MASKED:
            tied, (bias, *second) = values.boolean("tie_word_embeddings", True), self.biases
            words = {f"{self.head_names['head']}.weight": self.their_name("embed.table.weight", self.base)}
            repeated = words | dict.fromkeys(second, bias) if tied else {}
            return replace(body, settings={**body.settings, "tied": tied, "head_bias": True}, repeated=repeated)
        if task == VECTORS:
            note = "its pooler is left out: the vector of a text is the mean of its tokens', or what modules.json says"
            return replace(body, settings={**body.settings, "unit": False}, notes={"*pooler.*": note})
        head = {"head_hidden": body.settings["width"], "word_dropout": 0.0}
        return with_labels(replace(body, settings={**body.settings, **head}), values)

    def special_matches(self, model: ModelSettings, task: str, base: str) -> list[Match]:
        matches = self.position_matches(f"{base}embeddings")
        if task != MASKED:
            return matches
        # An untied head adds the second bias, but files then contain the first one as well.
        first, *second = self.biases
        biases = (first,) if model.tied else (*second, first)
        if model.head_bias:
            return [*matches, first_of("head.bias", biases, lambda bias: bias, optional=biases[1:])]
        table = "embed.table.weight"  # theirs always has a bias: zeros
        names = (self.their_name(table, base), *biases)
        return [*matches, first_of(table, names, lambda words: words.new_zeros(len(words)))]

    def position_matches(self, embeddings: str) -> list[Match]:
        """Match the position vectors; the vector of a first text is part of each of them."""
        unused, types = self.unused_positions, f"{embeddings}.token_type_embeddings.weight"
        match = Match(
            ("encoder.positions.table.weight",),
            (f"{embeddings}.position_embeddings.weight", types),
            lambda tensors: [tensors[0][unused:] + tensors[1][0]],
            lambda tensors: [torch.cat([_zeros(unused, tensors[0]), tensors[0]]), _zeros(TOKEN_TYPES, tensors[0])],
            any_rows=(types,),
        )
        return [match]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model, task = config.model, head_task(config.task)
        if task == CLASSIFICATION and model.head_hidden != model.width:
            raise Unsupported(
                f"{self.name} has no model.head_hidden {model.head_hidden}: only model.width {model.width}"
            )
        return {
            **super().write(config, vocab),
            "max_position_embeddings": model.context + self.unused_positions,
            "tie_word_embeddings": task != MASKED or bool(model.tied),
        }

    def aliases(self, name: str) -> list[str]:
        """Return the other names of a weight: without the prefix of the body, and the oldest names of a norm's."""
        names = [name, *super().aliases(name)]
        if ".LayerNorm." in name:
            names += [alias.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for alias in names]
        return [*names[1:], *(self.biases[:1] if name in self.biases[1:] else ())]


class Roberta(Bert):
    """BERT with byte-level tokens; positions are counted from the row after that of the padding token."""

    model_type = "roberta"
    name = "RoBERTa"
    tasks: ClassVar = {
        "RobertaForMaskedLM": MASKED,
        "RobertaForSequenceClassification": CLASSIFICATION,
        "RobertaModel": VECTORS,
    }
    theirs: ClassVar = {**Bert.theirs, "pad_token_id": (1,)}
    heads: ClassVar = {**Bert.heads, MASKED: {**Bert.heads[MASKED], "model.activation": ("gelu",)}}
    base = "roberta."
    head_names: ClassVar = module_names("roberta", "heads")
    biases = ("lm_head.bias", "lm_head.decoder.bias")
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
    ours: ClassVar = {**Bert.ours, "model.norm_eps": (1e-12,)}
    heads: ClassVar = {
        **Bert.heads,
        CLASSIFICATION: {**Bert.heads[CLASSIFICATION], "model.head_activation": ("relu",)},
    }
    entries: ClassVar = (
        size("vocab_size", "vocab", 30522),
        size("max_position_embeddings", "context", 512),
        size("dim", "width", 768),
        size("hidden_dim", "hidden", 3072),
        size("n_layers", "layers", 6),
        size("n_heads", "heads", 12),
        activation("activation", ACTIVATIONS, "gelu"),
        dropout("dropout"),
        *written("dropout", "attention_dropout"),
    )
    constants: ClassVar = {"sinusoidal_pos_embds": False}
    base = "distilbert."
    body: ClassVar = module_names("distilbert", "body")
    head_names: ClassVar = module_names("distilbert", "heads")
    biases = ("vocab_projector.bias",)
    unused: ClassVar = {MASKED: (), VECTORS: ("vocab_",), CLASSIFICATION: ("vocab_",)}

    def position_matches(self, embeddings: str) -> list[Match]:
        return []


def _zeros(rows: int, table: Tensor) -> Tensor:
    return table.new_zeros(rows, table.shape[1])
