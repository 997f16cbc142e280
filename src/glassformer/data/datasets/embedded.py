"""The data sets that come along: listed without being built, made anew wherever Python runs, nothing to download."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import DataError, unknown
from glassformer.data.datasets.dataset import Dataset, Images, Links, Row, is_hub
from glassformer.data.datasets.dates import COLUMNS as PAIR
from glassformer.data.datasets.dates import LANGUAGES, date_rows, date_test_rows
from glassformer.data.datasets.exact import add_pairs, add_rows, copy_rows, recall_rows, reverse_pairs, reverse_rows
from glassformer.data.datasets.hub import open_hub
from glassformer.data.datasets.opinions import opinion_rows, opinion_test_rows
from glassformer.data.datasets.posts import COLUMNS as POST_COLUMNS
from glassformer.data.datasets.posts import post_rows
from glassformer.data.datasets.pronouns import pronoun_links, pronoun_rows
from glassformer.data.datasets.python_text import docstrings, sources
from glassformer.data.datasets.samples import (
    DIABETES_COLUMNS,
    IRIS_COLUMNS,
    diabetes_rows,
    digit_images,
    iris_rows,
    mnist_images,
    review_rows,
)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is built."""

    summary: str
    build: Callable[..., Iterable[Row]] | None = None
    """The parameters by name → the rows, the same ones each time. None: there are images instead."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """The parameters and their defaults."""
    columns: tuple[str, ...] = ("text",)
    test: Callable[..., Iterable[Row]] | None = None
    """Rows that are always held out for the test, where a data set has its own."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The largest value of a parameter, where there is one."""
    images: Callable[[], Images] | None = None
    """Pixels and classes, the same ones each time, where a data set holds images."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Where settings start, by dotted key, for this data."""
    links: Callable[..., Iterable[tuple[str, Links]]] | None = None
    """Other texts, with the words of each that belong together, where that is known."""


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
ROWS = {"rows": 2000, "seed": 0}
LETTERS = {**ROWS, "shortest": 3, "longest": 8}
LABELLED = ("text", "label")
PICTURED = ("image", "label")

DATASETS: dict[str, DatasetInfo] = {
    "docstrings": DatasetInfo(
        "English: what the Python standard library says of itself, a document a module", _texts(docstrings)
    ),
    "stdlib": DatasetInfo("code: the Python standard library's source, a document a module", _texts(sources)),
    "copy": DatasetInfo("letters, then the same again: abcd>abcd", _texts(copy_rows), LETTERS),
    "reverse": DatasetInfo("letters, then the same backwards: abcd>dcba", _texts(reverse_rows), LETTERS),
    "add": DatasetInfo("sums of two whole numbers: 27+45=72", _texts(add_rows), {**ROWS, "digits": 2}),
    "recall": DatasetInfo(
        "a letter and its digit, `distance` other pairs, then the letter asked again: k7c1f3?k7",
        _texts(recall_rows),
        {**ROWS, "distance": 8},
    ),
    "pronouns": DatasetInfo(
        "stories of a woman and a man, each with one deed: what follows she or he depends on whose name stands before",
        _texts(pronoun_rows),
        {"rows": 6000, "seed": 0},
        settings=WORD_BY_WORD,
        links=pronoun_links,
    ),
    "reverse-pairs": DatasetInfo(
        "pairs: letters, and the same backwards: abcd → dcba",
        reverse_pairs,
        LETTERS,
        PAIR,
        settings=LETTER_BY_LETTER,
    ),
    "add-pairs": DatasetInfo(
        "pairs: a sum, and what it makes: 27+45 → 72",
        add_pairs,
        {**ROWS, "digits": 2},
        PAIR,
        settings=LETTER_BY_LETTER,
    ),
    "dates": DatasetInfo(
        "pairs: dates as people write them in many languages → 2024-05-31; `rows` to learn from, a quarter as many for "
        "the test, in other years",
        date_rows,
        {"rows": 12_000, "seed": 0, "languages": 30},
        PAIR,
        date_test_rows,
        {"rows": 500_000, "languages": len(LANGUAGES)},
        settings=LETTER_BY_LETTER,
    ),
    "opinions": DatasetInfo(
        "restaurants, positive or negative: words alone cannot tell, their order can; `rows` to learn from, a quarter "
        "as many for the test, in other templates and on other things",
        opinion_rows,
        {"rows": 12_000, "seed": 0},
        LABELLED,
        opinion_test_rows,
    ),
    "posts": DatasetInfo(
        "social-media posts with hour, followers, hashtags and links: did they go viral? as far as one can know",
        post_rows,
        {"rows": 6000, "seed": 0},
        POST_COLUMNS,
    ),
    "reviews": DatasetInfo(
        "film reviews that people wrote, positive or negative; needs pip install 'glassformer[samples]'",
        review_rows,
        columns=LABELLED,
    ),
    "diabetes": DatasetInfo(
        "442 patients: ten measurements, and the illness's progression in a year, a number; needs pip install "
        "'glassformer[samples]'",
        diabetes_rows,
        columns=DIABETES_COLUMNS,
    ),
    "iris": DatasetInfo(
        "150 flowers: four lengths in cm, and the species, one of three; needs pip install 'glassformer[samples]'",
        iris_rows,
        columns=IRIS_COLUMNS,
    ),
    "digits": DatasetInfo(
        "images: 1,797 handwritten digits, 8×8, grey; needs pip install 'glassformer[samples]'",
        columns=PICTURED,
        images=digit_images,
    ),
    "mnist5k": DatasetInfo(
        "images: 5,000 handwritten digits, 28×28, grey; needs pip install 'glassformer[samples]'",
        columns=PICTURED,
        images=mnist_images,
    ),
}


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
        least = 0 if key in ("seed", "distance") else 1
        if not value.isascii() or not value.isdigit() or int(value) < least:
            raise DataError(f"{name}:{key} wants a whole number, at least {least}, not '{value}'")
        if int(value) > (most := info.most.get(key, int(value))):
            raise DataError(f"{name}:{key} wants a whole number, at most {most:,}, not '{value}'")
        values[key] = int(value)
    if values.get("shortest", 0) > values.get("longest", 0):
        raise DataError(f"{name}:shortest {values['shortest']} is more than {name}:longest {values['longest']}")
    test = functools.partial(info.test, **values) if info.test else None
    rows = functools.partial(info.build, **values) if info.build else functools.partial(_no_rows, name)
    links = functools.partial(info.links, **values) if info.links else None
    return Dataset(name, info.columns, rows, test, info.images, info.settings, links)
