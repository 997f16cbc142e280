"""Names as data: tasks, kinds of examples, sizes, styles of the one Transformer, and where settings start."""

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

SIZES: dict[str, dict[str, int]] = {
    "hand": {"layers": 1, "heads": 2, "width": 4, "hidden": 8},  # every number fits on paper
    "nano": {"layers": 3, "heads": 3, "width": 48},
    "tiny": {"layers": 4, "heads": 4, "width": 128},
    "small": {"layers": 6, "heads": 6, "width": 384},
    "base": {"layers": 6, "heads": 8, "width": 512},
    "large": {"layers": 12, "heads": 12, "width": 768},
    "huge": {"layers": 24, "heads": 16, "width": 1024},
    "giant": {"layers": 48, "heads": 25, "width": 1600},
}

STYLES: dict[str, dict[str, Any]] = {
    "classic": {
        "norm": "layer", "norm_order": "post", "positions": "sine", "activation": "relu", "bias": True,
        "qk_norm": False, "embed_scale": True, "embed_norm": False, "initialisation": "xavier",
    },
    "gpt2": {
        "norm": "layer", "norm_order": "pre", "positions": "learned", "activation": "gelu", "bias": True,
        "qk_norm": False, "embed_scale": False, "embed_norm": False, "initialisation": "gpt2", "tied": True,
    },
    "bert": {
        "norm": "layer", "norm_order": "post", "positions": "learned", "activation": "gelu", "bias": True,
        "qk_norm": False, "embed_scale": False, "embed_norm": True, "initialisation": "gpt2", "tied": True,
        "head_transform": True, "pool": "first", "head_layers": 1, "head_activation": "tanh",
    },
    "llama": {
        "norm": "rms", "norm_order": "pre", "positions": "rotary", "activation": "swiglu", "bias": False,
        "qk_norm": False, "embed_scale": False, "embed_norm": False, "initialisation": "gpt2",
    },
}  # fmt: skip


CPU_TRANSLATION = "translation on a CPU"
"""Key of an encoder's defaults that apply only to translation on a CPU."""
STARTS: dict[str, dict[str, Any]] = {
    TEXT: {
        "tokenizer.kind": "word",
        "tokenizer.lowercase": True,
        "tokenizer.min_count": 2,  # a word seen once teaches what an unknown word is like
        "model.context": 256,
        "model.dropout": 0.3,
        "training.batch_size": 32,
        "training.optimizer": "adamw",
        "training.lr": 2e-3,
    },
    TRANSLATION: {
        "tokenizer.kind": "bpe",
        "model.context": 128,
        "model.dropout": 0.2,
        "training.batch_tokens": 2048,
        "training.label_smoothing": 0.1,
        "training.validation_tokens": 8000,
        "training.steps": 3000,
    },
    IMAGE: {
        "model.dropout": 0.1,
        "training.batch_size": 32,
        "training.optimizer": "adamw",
        "training.lr": 2e-3,
    },
    TABLE: {
        "model.dropout": 0.0,
        "model.head_hidden": 64,
        "training.batch_size": 32,
        "training.optimizer": "adamw",
        "training.lr": 5e-3,
        "training.weight_decay": 0.01,
    },
}
"""Where settings start, by dotted key: for labels and numbers by the kind of examples, and for translation. Mixed
examples start as texts do; for these, it is what did best over three sets."""

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
