"""BERT: reads both ways, learned positions, a norm after the word vectors and after each part.

Each position also gets a vector that says whether it stands in the first or the second of two texts. Here a text stands
alone, so the first of them is part of every position; where a model goes out, the table of positions holds it, and
that of the two texts zeros. Folders of sentence-transformers say in files of their own how the vectors of a text's
tokens become the text's.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from glassformer.bricks.norm import EPS
from glassformer.config.errors import DataError
from glassformer.config.presets import CLASSIFICATION, MASKED, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    first_of,
    head_task,
    linear,
    linears,
    same,
    short,
)
from glassformer.exchange.huggingface.common import (
    POST_NORM,
    POST_NORM_ACTIVATIONS,
    POST_NORM_SETTINGS,
    activation_name,
    require_plain_heads,
    with_labels,
)
from glassformer.exchange.tokens.files import TokenFiles

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
"""The head's bias; the second where it is not tied, in files that have it."""
TABLE, WORDS = "embed.table.weight", "embeddings.word_embeddings.weight"
TEXTS = 2
"""Rows that the table of the first and the second text has in a model that goes out."""

POOLS = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
"""Theirs → ours."""
KINDS = ["Transformer", "Pooling", "Normalize"]
"""The modules that ours can be, in this order; the last may be missing."""
MODULES = "modules.json"


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
    theirs: ClassVar = {
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "is_encoder_decoder": (False, None),
    }
    ours: ClassVar = {
        **POST_NORM,
        "model.positions": ("learned",),
        "model.embed_norm": (True,),
        "model.embed_scale": (False,),
        "model.causal": (False,),
    }
    heads: ClassVar = {
        MASKED: {"model.head_transform": (True,)},
        VECTORS: {"model.pool": ("mean", "first", "max")},
        CLASSIFICATION: {
            "model.pool": ("first",),
            "model.head_layers": (1,),
            "model.head_activation": ("tanh",),
            "model.head_bias": (None, True),
        },
    }

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require(self.theirs)
        width, heads = values.width_and_heads("hidden_size", "num_attention_heads", (768, 12))
        body = {
            **POST_NORM_SETTINGS,
            "layers": values.size("num_hidden_layers", 12),
            "heads": heads,
            "width": width,
            "hidden": values.size("intermediate_size", 3072),
            "context": values.size("max_position_embeddings", 512),
            "vocab": values.size("vocab_size", 30522),
            "activation": values.choice("hidden_act", POST_NORM_ACTIVATIONS, "gelu"),
            "positions": "learned",
            "embed_norm": True,
            "norm_eps": values.number("layer_norm_eps", 1e-12, most=1.0),
            "dropout": values.dropout("hidden_dropout_prob"),
            "initialisation": "gpt2",
        }
        task = self.tasks[architecture]
        ignored = ("bert.embeddings.position_ids", "embeddings.position_ids")
        if task == MASKED:
            tied = values.boolean("tie_word_embeddings", True)
            repeated = {BIAS_OF_ITS_OWN: BIAS, "cls.predictions.decoder.weight": f"bert.{WORDS}"}
            return ParsedConfig(
                task,
                {**body, "tied": tied, "head_transform": True, "head_bias": True},
                ignored=(*ignored, "bert.pooler.", "pooler.", "cls.seq_relationship."),
                repeated=repeated if tied else {},
            )
        if task == VECTORS:
            note = "its pooler is left out: the vector of a text is the mean of its tokens', or what modules.json says"
            return ParsedConfig(
                task,
                {**body, "pool": "mean", "unit": False},
                ignored=(*ignored, "pooler.", "bert.pooler.", "cls."),
                notes={"*pooler.*": note},
            )
        head = {
            "pool": "first",
            "head_layers": 1,
            "head_hidden": width,
            "head_activation": "tanh",
            "head_bias": True,
            "word_dropout": 0.0,
        }
        return with_labels(ParsedConfig(task, {**body, **head}, ignored=(*ignored, "cls.")), values)

    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        task = self.tasks[architecture]
        body = "" if task == VECTORS else self.base
        words = f"{body}{WORDS}"
        matches = [
            _positions(f"{body}embeddings"),
            *linear("encoder.embed_norm", f"{body}embeddings.LayerNorm", bias=True),
        ]
        for layer in range(model.layers):
            matches += linears(f"encoder.blocks.{layer}", f"{body}encoder.layer.{layer}", PARTS)
        if task != MASKED:
            maps = {"head.hidden.0": "bert.pooler.dense", "head.output": "classifier"} if task == CLASSIFICATION else {}
            heads = [match for ours, theirs in maps.items() for match in linear(ours, theirs, bias=True)]
            return [same(TABLE, words), *matches, *heads]
        matches += linears("transform", "cls.predictions.transform", {"map": "dense", "norm": "LayerNorm"})
        if not model.tied:
            matches.append(same("head.weight", "cls.predictions.decoder.weight"))
        biases = (BIAS,) if model.tied else (BIAS_OF_ITS_OWN, BIAS)
        if not model.head_bias:  # theirs always has one: zeros
            return [first_of(TABLE, (words, *biases), lambda table: table.new_zeros(len(table))), *matches]
        # the first of their biases is what is added; the other, where there is one, is only there
        return [same(TABLE, words), first_of("head.bias", biases, lambda bias: bias, optional=biases[1:]), *matches]

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        model, task = config.model, head_task(config.task)
        require_plain_heads(model, self.name)
        if task == CLASSIFICATION and model.head_hidden != model.width:
            raise Unsupported(f"BERT has no model.head_hidden {model.head_hidden}: only model.width {model.width}")
        return {
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
            names += [alias.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for alias in names]
        return [*names[1:], *([BIAS] if name == BIAS_OF_ITS_OWN else [])]

    def folder_settings(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        return _sentence_settings(folder) if config.get("architectures") == ["BertModel"] else {}

    def extra_files(self, config: Config) -> dict[str, Any]:
        return _sentence_files(config.model) if config.task == VECTORS else {}


def _positions(theirs: str) -> Match:
    """Positions, with the vector of a first text in each of them."""
    texts = f"{theirs}.token_type_embeddings.weight"
    return Match(
        ("encoder.positions.table.weight",),
        (f"{theirs}.position_embeddings.weight", texts),
        lambda tensors: [tensors[0] + tensors[1][0]],
        lambda tensors: [tensors[0], tensors[0].new_zeros(TEXTS, tensors[0].shape[1])],
        any_rows=(texts,),
    )


def _sentence_settings(folder: Path) -> dict[str, Any]:
    """Settings, by dotted key, that `modules.json` and what it names say; none where there is no such file."""
    files = TokenFiles(folder)
    text = files.text(MODULES)
    if text is None:
        return {}
    try:
        modules = json.loads(text)
        kinds, paths = ([str(module[key]) for module in modules] for key in ("type", "path"))
    except (ValueError, RecursionError, TypeError, KeyError):
        raise DataError(
            f"{folder / MODULES} is damaged: it holds no list of modules, each with type and path"
        ) from None
    names = [kind.split(".")[-1] for kind in kinds]
    if names not in (KINDS, KINDS[:2]):
        odd = next((name for name in names if name not in KINDS), ", ".join(names))
        raise Unsupported(f"{folder / MODULES}: {short(odd)} is not supported: only {', '.join(KINDS)}, in this order")
    pooling = files.json(f"{paths[1]}/config.json")
    if pooling is None:
        raise DataError(f"{folder / MODULES} names a Pooling module, but {short(paths[1])} holds no config.json")
    return {"model.pool": _pool(pooling, folder / paths[1] / "config.json"), "model.unit": len(names) == len(KINDS)}


def _pool(pooling: dict[str, Any], source: Path) -> str:
    """The one way of pooling, which files say as a name, or as the one truth among many."""
    chosen = [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in pooling.items()
        if value is True and key.startswith("pooling_mode_")
    ]
    if isinstance(pooling.get("pooling_mode"), str):
        chosen = [pooling["pooling_mode"]]
    if len(chosen) != 1 or chosen[0] not in POOLS:
        what = " and ".join(map(short, chosen)) or "nothing"
        raise Unsupported(f"{source}: pooling by {what} is not supported: only by one of {', '.join(POOLS)}")
    return POOLS[chosen[0]]


def _sentence_files(model: ModelSettings) -> dict[str, Any]:
    """The files that say how a run of ours pools: by their names, what is in each as JSON."""
    theirs = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "lasttoken": "lasttoken"}
    kinds = KINDS if model.unit else KINDS[:2]
    paths = ["" if number == 0 else f"{number}_{kind}" for number, kind in enumerate(kinds)]
    return {
        MODULES: [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ],
        "sentence_bert_config.json": {"max_seq_length": model.context, "do_lower_case": False},
        f"{paths[1]}/config.json": {
            "word_embedding_dimension": model.width,
            **{f"pooling_mode_{theirs[name]}": ours == model.pool for name, ours in POOLS.items()},
        },
    }
