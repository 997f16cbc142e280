"""Names as data: tasks, kinds of examples, sizes, styles of the one Transformer, and where settings start."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.config.errors import refuse_unknown

VERSION = "0.1.0"
"""The version of this glassformer; runs say which one made them."""

INFERENCE_PRECISIONS = ("fp32", "bf16", "int8")
"""What weights may be in where a run is used; how it is trained is `training.precision`."""

LANGUAGE_MODEL, CLASSIFICATION, REGRESSION = "language-model", "classification", "regression"
MULTILABEL, TRANSLATION, MASKED, VECTORS = "multilabel", "translation", "masked-language-model", "vectors"
TASKS = (LANGUAGE_MODEL, MASKED, CLASSIFICATION, MULTILABEL, REGRESSION, TRANSLATION, VECTORS)
"""`vectors` is not learned here: it is what a model does that was made elsewhere to give a vector for each text."""
TRAINABLE = tuple(task for task in TASKS if task != VECTORS)
DEFAULT_TASK = LANGUAGE_MODEL
"""The task where neither a person nor the data names one."""
DECODER_TASK = TRANSLATION
"""The task of ours in which a decoder writes."""
PACKED = (LANGUAGE_MODEL, MASKED)
"""The tasks that read a corpus as one long row of tokens."""
LABELLING = (CLASSIFICATION, MULTILABEL, REGRESSION)
"""The tasks that say something of a whole example."""

CLASS, LABEL_SET, NUMBER = "class", "label-set", "number"
"""What a label is: one of some classes, several labels at once, or a number."""
ANY_LABEL = "any"
"""Whichever of these the labels look like; or none, where there are none."""
LABEL_KINDS = {CLASSIFICATION: CLASS, MULTILABEL: LABEL_SET, REGRESSION: NUMBER}
"""The labels that a task learns; a task that is not here learns without any."""
TASK_OF_LABELS: dict[str | None, str] = {None: LANGUAGE_MODEL, **{kind: task for task, kind in LABEL_KINDS.items()}}
"""The task that the labels of a table suggest, or their absence."""

OWN_TASKS: dict[str, str] = {}
"""Tasks of one's own, and the task of ours whose settings each has."""


def add_task(name: str, like: str) -> None:
    refuse_unknown("task", like, TASKS)
    OWN_TASKS[name] = like


def is_known_task(name: object) -> bool:
    """Whether it is one of ours, or was registered."""
    return name in TASKS or name in OWN_TASKS


def settings_task(name: str) -> str:
    """The task of ours whose settings a task has: itself, unless it is a person's own."""
    refuse_unknown("task", name, (*TASKS, *OWN_TASKS))
    return OWN_TASKS.get(name, name)


def reads_stream(task: str) -> bool:
    """Whether a task, ours or one like it, reads a corpus as one long row of tokens."""
    return settings_task(task) in PACKED


def predicts_next_token(task: str) -> bool:
    return settings_task(task) == LANGUAGE_MODEL


def predicts_hidden_tokens(task: str) -> bool:
    return settings_task(task) == MASKED


def labels_examples(task: str) -> bool:
    """Whether it says something of a whole example."""
    return settings_task(task) in LABELLING


def pools_tokens(task: str) -> bool:
    """Whether its models pool the vectors of a text's tokens."""
    return settings_task(task) in (*LABELLING, VECTORS)


def has_decoder(task: str) -> bool:
    """Whether a second model writes what the first has read."""
    return settings_task(task) == TRANSLATION


TEXT, TABLE, IMAGE, MIXED = "text", "table", "image", "mixed"
KINDS = (TEXT, TABLE, IMAGE, MIXED)
"""What an example is: a text, a row of numbers and categories, an image, or several of these at once."""


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
"""Where settings start, by dotted key: for labels and numbers by the kind of examples, and for translation."""

FEWEST_EPOCHS, MOST_EPOCHS = 2, 10
"""How often to go through labelled data where nobody says."""
MOST_EPOCHS_OF_NUMBERS = 200
"""The same for tables and images, of which few are often all there are."""


def label_kind_of(task: str | None) -> str | None:
    """The labels that a task learns, None where it learns without; as long as the task is open, any."""
    return ANY_LABEL if task is None else LABEL_KINDS.get(settings_task(task))


def style_of(name: str) -> dict[str, Any]:
    refuse_unknown("style", name, STYLES)
    return STYLES[name]


BLEU_TOKENIZERS = ("13a", "char", "zh", "intl", "ja-mecab")
"""Tokenizers of sacreBLEU that need no download; `ja-mecab` needs `pip install 'sacrebleu[ja]'`."""
