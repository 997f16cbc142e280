"""Names of tasks, kinds of examples, sizes and styles, and the initial values of settings."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.config.errors import refuse_unknown

VERSION = "0.1.0"
"""Version of glassformer, which runs record."""

INFERENCE_PRECISIONS = ("fp32", "bf16", "int8")
"""Precision of the weights of a loaded run; `training.precision` is that of training."""

LANGUAGE_MODEL, CLASSIFICATION, REGRESSION = "language-model", "classification", "regression"
MULTILABEL, TRANSLATION, MASKED, VECTORS = "multilabel", "translation", "masked-language-model", "vectors"
TASKS = (LANGUAGE_MODEL, MASKED, CLASSIFICATION, MULTILABEL, REGRESSION, TRANSLATION, VECTORS)
"""All tasks. `vectors` cannot be trained; it is the task of imported models with a vector per text."""
TRAINABLE = tuple(task for task in TASKS if task != VECTORS)
DEFAULT_TASK = LANGUAGE_MODEL
"""Task if neither the user nor the data selects one."""
DECODER_TASK = TRANSLATION
"""Task with a decoder."""
PACKED = (LANGUAGE_MODEL, MASKED)
"""Tasks that read a corpus as one sequence of tokens."""
LABELLING = (CLASSIFICATION, MULTILABEL, REGRESSION)
"""Tasks with an answer per example."""

CLASS, LABEL_SET, NUMBER = "class", "label-set", "number"
"""Kinds of labels: one class, several labels, or a number."""
ANY_LABEL = "any"
"""Kind of labels that depends on the data; possibly no labels."""
LABEL_KINDS = {CLASSIFICATION: CLASS, MULTILABEL: LABEL_SET, REGRESSION: NUMBER}
"""Kind of labels by task; other tasks have none."""
TASK_OF_LABELS: dict[str | None, str] = {None: LANGUAGE_MODEL, **{kind: task for task, kind in LABEL_KINDS.items()}}
"""Task that the labels of a table, or their absence, suggest."""

OWN_TASKS: dict[str, str] = {}
"""Tasks of users, and the built-in task whose settings each one has."""


def add_task(name: str, like: str) -> None:
    refuse_unknown("task", like, TASKS)
    OWN_TASKS[name] = like


def is_known_task(name: object) -> bool:
    """Return whether a task is built in or registered."""
    return name in TASKS or name in OWN_TASKS


def settings_task(name: str) -> str:
    """Return the built-in task whose settings a task has."""
    refuse_unknown("task", name, (*TASKS, *OWN_TASKS))
    return OWN_TASKS.get(name, name)


def reads_stream(task: str) -> bool:
    """Return whether a task reads a corpus as one sequence of tokens."""
    return settings_task(task) in PACKED


def predicts_next_token(task: str) -> bool:
    return settings_task(task) == LANGUAGE_MODEL


def predicts_hidden_tokens(task: str) -> bool:
    return settings_task(task) == MASKED


def labels_examples(task: str) -> bool:
    """Return whether a task has an answer per example."""
    return settings_task(task) in LABELLING


def pools_tokens(task: str) -> bool:
    """Return whether the models of a task pool the vectors of tokens."""
    return settings_task(task) in (*LABELLING, VECTORS)


def has_decoder(task: str) -> bool:
    """Return whether the models of a task have a decoder."""
    return settings_task(task) == TRANSLATION


TEXT, TABLE, IMAGE, MIXED = "text", "table", "image", "mixed"
"""Kinds of examples: a text, a row of numbers and categories, an image, or several of these."""
KINDS = (TEXT, TABLE, IMAGE, MIXED)
"""All kinds of examples."""


def read_settings(file: str) -> dict[str, Any]:
    """Return the tables of a TOML file of this package."""
    return tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))


def dotted(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of several sections by dotted key."""
    return {f"{section}.{name}": value for section, settings in sections.items() for name, value in settings.items()}


_DEFAULTS = read_settings("defaults.toml")
SIZES: dict[str, dict[str, int]] = _DEFAULTS["sizes"]
STYLES: dict[str, dict[str, Any]] = _DEFAULTS["styles"]
CPU_TRANSLATION = "translation on a CPU"
"""Key of an encoder's defaults that apply only to translation on a CPU."""
STARTS = {kind: dotted(sections) for kind, sections in _DEFAULTS["starts"].items()}
"""Initial values of settings by dotted key: by kind of examples for labels and numbers, and for translation."""

FEWEST_EPOCHS, MOST_EPOCHS = 2, 10
"""Default range of epochs for labelled data."""
MOST_EPOCHS_OF_NUMBERS = 200
"""Default maximum for tables and images, which often have few examples."""


def label_kind_of(task: str | None) -> str | None:
    """Return the kind of labels of a task; None if it has no labels, any if the task is unknown."""
    return ANY_LABEL if task is None else LABEL_KINDS.get(settings_task(task))


def style_of(name: str) -> dict[str, Any]:
    refuse_unknown("style", name, STYLES)
    return STYLES[name]


BLEU_TOKENIZERS = ("13a", "char", "zh", "intl", "ja-mecab")
"""Tokenizers of sacreBLEU that need no download; `ja-mecab` needs `pip install 'sacrebleu[ja]'`."""
