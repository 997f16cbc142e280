"""The data sets that come along: listed without being built, made anew wherever Python runs, nothing to download."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from glassformer.config.errors import DataError, unknown
from glassformer.data.datasets.dataset import Dataset, Row, is_hub, load_facts
from glassformer.data.datasets.dates import date_alignments, date_rows, date_test_rows
from glassformer.data.datasets.generated import (
    add_pairs,
    add_rows,
    balance_rows,
    copy_rows,
    post_rows,
    recall_rows,
    reverse_pairs,
    reverse_rows,
    sense_rows,
)
from glassformer.data.datasets.hub import open_hub
from glassformer.data.datasets.linked import pronoun_links, pronoun_rows, subject_object_links, subject_object_rows
from glassformer.data.datasets.opinions import opinion_rows, opinion_test_rows
from glassformer.data.datasets.samples import (
    diabetes_rows,
    digit_images,
    docstrings,
    iris_rows,
    mnist_images,
    review_rows,
    sources,
)


def _texts(build: Callable[..., Iterable[str]]) -> Callable[..., Iterator[Row]]:
    """Documents as rows of one column."""
    return lambda **values: ((text,) for text in build(**values))


def _no_rows(name: str) -> Iterator[Row]:
    raise DataError(f"the data set '{name}' holds images, and texts or a table are wanted (see `glassformer data`)")


MAKERS: dict[str, dict[str, Callable[..., Any]]] = {
    "docstrings": {"rows": _texts(docstrings)},
    "stdlib": {"rows": _texts(sources)},
    "copy": {"rows": _texts(copy_rows)},
    "reverse": {"rows": _texts(reverse_rows)},
    "add": {"rows": _texts(add_rows)},
    "recall": {"rows": _texts(recall_rows)},
    "pronouns": {"rows": _texts(pronoun_rows), "links": pronoun_links},
    "subject-object": {"rows": _texts(subject_object_rows), "links": subject_object_links},
    "senses": {"rows": sense_rows},
    "balance": {"rows": balance_rows},
    "reverse-pairs": {"rows": reverse_pairs},
    "add-pairs": {"rows": add_pairs},
    "dates": {"rows": date_rows, "test": date_test_rows, "alignments": date_alignments},
    "opinions": {"rows": opinion_rows, "test": opinion_test_rows},
    "posts": {"rows": post_rows},
    "reviews": {"rows": review_rows},
    "diabetes": {"rows": diabetes_rows},
    "iris": {"rows": iris_rows},
    "digits": {"rows": functools.partial(_no_rows, "digits"), "images": digit_images},
    "mnist5k": {"rows": functools.partial(_no_rows, "mnist5k"), "images": mnist_images},
}
"""The functions that make the rows, test rows, links, alignments or images of each data set."""


def _described(name: str) -> Dataset:
    """Return a data set with its description in embedded.toml."""
    facts = load_facts("embedded")
    about = {**facts["datasets"][name], **MAKERS[name]}
    settings = facts["settings"][about.pop("settings")] if "settings" in about else {}
    columns = tuple(about.pop("columns", ["text"]))
    return Dataset(**about, columns=columns, settings=settings)


DATASETS = {name: _described(name) for name in MAKERS}
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
