"""What several architectures share: settings that have no other value in them, heads for tokens, and labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MULTILABEL, REGRESSION
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Choices,
    ConfigValues,
    Match,
    ParsedConfig,
    Unsupported,
    same,
    short,
)
from glassformer.tasks.answers import Answers, Classes, Labels

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
POST_NORM_ACTIVATIONS = {"gelu": "gelu", **ACTIVATIONS}

CAUSAL: Choices = {
    "model.encoder": ("transformer",),
    "model.embed": ("vectors",),
    "model.embed_scale": (False,),
    "model.norm_order": ("pre",),
    "model.embed_norm": (False,),
    "model.residual": (True,),
    "model.feed_forward": (True,),
    "model.feed_layers": (2,),
    "model.scores": ("query-key",),
    "model.scale": (True,),
    "model.causal_mask": (True,),
    "model.output_projection": (True,),
}
"""Settings of ours that those have which read a text from left to right (GPT-2, Llama, Qwen3)."""
CAUSAL_HEADS: Mapping[str, Choices] = {
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
"""Settings of ours that their heads have, by task."""

POST_NORM: Choices = {
    "data.kind": ("text",),
    "model.encoder": ("transformer",),
    "model.norm_order": ("post",),
    "model.norm": ("layer",),
    "model.embed": ("vectors",),
    "model.embed_width": (None,),
    "model.bias": (True,),
    "model.attention_bias": (True,),
    "model.feed_bias": (True,),
    "model.qk_norm": (False,),
    "model.residual": (True,),
    "model.feed_forward": (True,),
    "model.feed_layers": (2,),
    "model.scores": ("query-key",),
    "model.scale": (True,),
    "model.output_projection": (True,),
    "model.activation": tuple(dict.fromkeys(POST_NORM_ACTIVATIONS.values())),
}
"""Settings of ours that those have whose norms stand after each part (BERT, BART, Marian)."""
POST_NORM_SETTINGS: Mapping[str, Any] = {
    "encoder": "transformer",
    "norm": "layer",
    "norm_order": "post",
    "bias": True,
    "qk_norm": False,
}
"""Settings that follow for a model that comes in."""

PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTILABEL,
    "regression": REGRESSION,
}
MOST = 2**20
"""Labels of a file that is no file of labels any more."""


def require_plain_heads(model: ModelSettings, name: str) -> None:
    """Refuse a run of ours whose heads do not share the width as theirs do."""
    if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
        raise Unsupported(
            f"{name} has no model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads "
            f"{model.kv_heads}: only heads that share model.width {model.width}"
        )


def activation_name(model: ModelSettings) -> str:
    return next(theirs for theirs, ours in POST_NORM_ACTIVATIONS.items() if ours == model.activation)


def with_causal_head(body: ParsedConfig, values: ConfigValues, *, tied: bool, table: str) -> ParsedConfig:
    """A body with its head: that of a language model, or that of a classifier with its labels.

    `table`: their name for the word vectors, which a tied head may repeat.
    """
    if body.task == LANGUAGE_MODEL:
        repeated = {"lm_head.weight": table} if tied else {}
        return replace(body, settings={**body.settings, "tied": tied}, repeated=repeated)
    settings = {**body.settings, "causal": True, "pool": "last", "head_layers": 0, "head_bias": False}
    return with_labels(replace(body, settings=settings), values)


def causal_head(model: ModelSettings, task: str) -> list[Match]:
    """The head: of a language model one matrix, unless it is the word vectors'; of a classifier one without bias."""
    if task == CLASSIFICATION:
        return [same("head.output.weight", "score.weight")]
    return [] if model.tied else [same("head.weight", "lm_head.weight")]


def with_labels(body: ParsedConfig, values: ConfigValues) -> ParsedConfig:
    """What a model of theirs says of a text: one score is a number, several are classes unless they say otherwise."""
    names = _names(values)
    problem = values.get("problem_type", "regression" if len(names) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in PROBLEMS:
        only = ", ".join(PROBLEMS)
        raise Unsupported(f"{values.name} with problem_type {short(problem)} is not supported: only {only}")
    task = PROBLEMS[problem]
    if task == REGRESSION:
        if len(names) != 1:
            raise Unsupported(f"{values.name} that says {len(names)} numbers of a text is not supported: only one")
        return replace(body, task=task, labels={"mean": 0.0, "spread": 1.0})
    if task == MULTILABEL:
        return replace(body, task=task, labels={"labels": names})
    if len(names) < 2:
        raise Unsupported(f"{values.name} with one class is not supported: there is nothing to choose from")
    return replace(body, task=task, labels=names, loss="softmax")


def _names(values: ConfigValues) -> list[str]:
    """Labels by their numbers; transformers counts two where nobody says."""
    by_number = values.get("id2label")
    if by_number is None:
        return [f"LABEL_{number}" for number in range(values.size("num_labels", 2, MOST))]
    if not isinstance(by_number, dict) or not 0 < len(by_number) <= MOST:
        raise Unsupported("config.json: id2label must hold a name for each number of a label")
    names = [by_number.get(str(number)) for number in range(len(by_number))]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise Unsupported(f"config.json: id2label must name {len(names)} different labels, by the numbers from 0")
    return [str(name) for name in names]


def label_settings(answers: Answers) -> dict[str, Any]:
    """What config.json says of the labels of a run of ours."""
    task = CLASSIFICATION if isinstance(answers, Classes) else MULTILABEL if isinstance(answers, Labels) else REGRESSION
    names = answers.names if isinstance(answers, Classes | Labels) else ("LABEL_0",)
    return {
        "problem_type": next(problem for problem, learned in PROBLEMS.items() if learned == task),
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
