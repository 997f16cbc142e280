"""The data sets that come along: listed without being built, made anew wherever Python runs, nothing to download."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from glassformer.config.errors import DataError, unknown
from glassformer.data.datasets.dataset import Dataset, Row, is_hub
from glassformer.data.datasets.dates import COLUMNS as PAIR
from glassformer.data.datasets.dates import LANGUAGES, date_alignments, date_rows, date_test_rows
from glassformer.data.datasets.exact import (
    add_pairs,
    add_rows,
    balance_rows,
    copy_rows,
    recall_rows,
    reverse_pairs,
    reverse_rows,
)
from glassformer.data.datasets.hub import open_hub
from glassformer.data.datasets.opinions import opinion_rows, opinion_test_rows
from glassformer.data.datasets.posts import COLUMNS as POST_COLUMNS
from glassformer.data.datasets.posts import post_rows
from glassformer.data.datasets.pronouns import pronoun_links, pronoun_rows
from glassformer.data.datasets.samples import (
    DIABETES_COLUMNS,
    IRIS_COLUMNS,
    diabetes_rows,
    digit_images,
    docstrings,
    iris_rows,
    mnist_images,
    review_rows,
    sources,
)
from glassformer.data.datasets.senses import COLUMNS as SENSE_COLUMNS
from glassformer.data.datasets.senses import sense_rows
from glassformer.data.datasets.subject_object import subject_object_links, subject_object_rows


def _texts(build: Callable[..., Iterable[str]]) -> Callable[..., Iterator[Row]]:
    """Documents as rows of one column."""
    return lambda **values: ((text,) for text in build(**values))


def _no_rows(name: str) -> Iterator[Row]:
    raise DataError(
        f"the data set '{name}' holds images, and texts or a table are wanted here: `glassformer data` lists others"
    )


LETTER_BY_LETTER = {"tokenizer.kind": "char", "model.context": 64, "model.width": 96, "training.steps": 1400}
WORD_BY_WORD = {
    "tokenizer.kind": "word",
    "model.context": 64,
    "model.layers": 2,
    "model.width": 64,
    "training.steps": 800,
    "training.lr": 6e-3,
}
HEADS_ALONE = {
    "tokenizer.kind": "char",
    "model.context": 18,
    "model.layers": 1,
    "model.heads": 2,
    "model.width": 24,
    "model.pool": "last",
    "model.word_dropout": 0.0,
    "model.feed_forward": False,
    "model.norm": "none",
    "model.qk_norm": False,
    "model.positions": "none",
    "model.initialisation": "xavier",
    "training.lr": 0.03,
    "training.steps": 1000,
}
"""Attention and nothing else that is not linear: what one head cannot do, no other part does for it."""
TWO_HEADS = {
    **WORD_BY_WORD,
    "data.documents_apart": True,
    "model.context": 48,
    "model.layers": 1,
    "model.heads": 2,
    "training.steps": 400,
}
"""One layer with two heads. Documents are kept apart, so that a sentence has one subject and one object to find."""
ROWS = {"rows": 2000, "seed": 0}
LETTERS = {**ROWS, "shortest": 3, "longest": 8}
LABELLED = ("text", "label")
PICTURED = ("image", "label")

DATASETS: dict[str, Dataset] = {
    "docstrings": Dataset(
        "English: what the Python standard library says of itself, a document a module", _texts(docstrings)
    ),
    "stdlib": Dataset("code: the Python standard library's source, a document a module", _texts(sources)),
    "copy": Dataset("letters, then the same again: abcd>abcd", _texts(copy_rows), LETTERS),
    "reverse": Dataset("letters, then the same backwards: abcd>dcba", _texts(reverse_rows), LETTERS),
    "add": Dataset("sums of two whole numbers: 27+45=72", _texts(add_rows), {**ROWS, "digits": 2}),
    "recall": Dataset(
        "a letter and its digit, `distance` other pairs, then the letter asked again: k7c1f3?k7",
        _texts(recall_rows),
        {**ROWS, "distance": 8},
    ),
    "pronouns": Dataset(
        "stories of a woman and a man, each with one deed: what follows she or he depends on whose name stands before",
        _texts(pronoun_rows),
        {"rows": 6000, "seed": 0},
        settings=WORD_BY_WORD,
        links=pronoun_links,
    ),
    "subject-object": Dataset(
        "sentences about visits: the present depends on the subject and the object; one head learns to find each "
        "(look --links subject-object)",
        _texts(subject_object_rows),
        {"rows": 4000, "seed": 0},
        settings=TWO_HEADS,
        links=subject_object_links,
    ),
    "senses": Dataset(
        "texts with a word of two meanings (bank, bat, spring …) and its sense, which the words before it show; "
        "verbs=1 adds bank as a verb: they should not bank on the result",
        sense_rows,
        {"rows": 6000, "seed": 0, "verbs": 0},
        SENSE_COLUMNS,
        most={"verbs": 1},
        settings=WORD_BY_WORD,
    ),
    "balance": Dataset(
        "letters, balanced or one-sided: abba or aaba; a layer of attention and nothing else cannot tell with one "
        "head, and can with two (--model transformer --model.heads 1)",
        balance_rows,
        ROWS,
        LABELLED,
        settings=HEADS_ALONE,
    ),
    "reverse-pairs": Dataset(
        "pairs: letters, and the same backwards: abcd → dcba",
        reverse_pairs,
        LETTERS,
        PAIR,
        settings=LETTER_BY_LETTER,
    ),
    "add-pairs": Dataset(
        "pairs: a sum, and what it makes: 27+45 → 72",
        add_pairs,
        {**ROWS, "digits": 2},
        PAIR,
        settings=LETTER_BY_LETTER,
    ),
    "dates": Dataset(
        "pairs: dates as people write them in many languages → 2024-05-31; `rows` to learn from, a quarter as many for "
        "the test, in other years",
        date_rows,
        {"rows": 12_000, "seed": 0, "languages": 30},
        PAIR,
        date_test_rows,
        {"rows": 500_000, "languages": len(LANGUAGES)},
        settings=LETTER_BY_LETTER,
        alignments=date_alignments,
    ),
    "opinions": Dataset(
        "restaurants, positive or negative: words alone cannot tell, their order can; `rows` to learn from, a quarter "
        "as many for the test, in other templates and on other things",
        opinion_rows,
        {"rows": 12_000, "seed": 0},
        LABELLED,
        opinion_test_rows,
    ),
    "posts": Dataset(
        "social-media posts with hour, followers, hashtags and links: did they go viral? as far as one can know",
        post_rows,
        {"rows": 6000, "seed": 0},
        POST_COLUMNS,
    ),
    "reviews": Dataset(
        "film reviews that people wrote, positive or negative; needs pip install 'glassformer[samples]'",
        review_rows,
        columns=LABELLED,
    ),
    "diabetes": Dataset(
        "442 patients: ten measurements, and the illness's progression in a year, a number; needs pip install "
        "'glassformer[samples]'",
        diabetes_rows,
        columns=DIABETES_COLUMNS,
    ),
    "iris": Dataset(
        "150 flowers: four lengths in cm, and the species, one of three; needs pip install 'glassformer[samples]'",
        iris_rows,
        columns=IRIS_COLUMNS,
    ),
    "digits": Dataset(
        "images: 1,797 handwritten digits, 8×8, grey; needs pip install 'glassformer[samples]'",
        functools.partial(_no_rows, "digits"),
        columns=PICTURED,
        images=digit_images,
    ),
    "mnist5k": Dataset(
        "images: 5,000 handwritten digits, 28×28, grey; needs pip install 'glassformer[samples]'",
        functools.partial(_no_rows, "mnist5k"),
        columns=PICTURED,
        images=mnist_images,
    ),
}

LINKED_DATASETS = [name for name, info in DATASETS.items() if info.links or info.alignments]
"""Data sets that `look --links` takes by name."""


def open_dataset(spec: str) -> Dataset:
    """`name` or `name:key=value,key=value`, checked now and built when its rows are asked for; or hf:NAME, a hub's."""
    if is_hub(spec):
        return open_hub(spec)
    name, _, given = spec.partition(":")
    if name not in DATASETS:
        raise DataError(unknown("data set", name, DATASETS))
    info = DATASETS[name]
    values = dict(info.parameters)
    for pair in filter(None, given.split(",")):
        key, _, value = pair.partition("=")
        if key not in values:
            none = f"data set '{name}' has no parameters, so not '{key}'"
            raise DataError(unknown(f"parameter of data set '{name}'", key, values) if values else none)
        least = 0 if key in ("seed", "distance", "verbs") else 1
        if not value.isascii() or not value.isdigit() or int(value) < least:
            raise DataError(f"{name}:{key} wants a whole number, at least {least}, not '{value}'")
        if int(value) > (most := info.most.get(key, int(value))):
            raise DataError(f"{name}:{key} wants a whole number, at most {most:,}, not '{value}'")
        values[key] = int(value)
    if values.get("shortest", 0) > values.get("longest", 0):
        raise DataError(f"{name}:shortest {values['shortest']} is more than {name}:longest {values['longest']}")
    makers = {"rows": info.rows, "test": info.test, "links": info.links, "alignments": info.alignments}
    built: dict[str, Any] = {key: functools.partial(make, **values) for key, make in makers.items() if make}
    return replace(info, **built)
