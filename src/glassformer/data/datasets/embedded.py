"""The embedded data sets. Listing them builds none, and building one needs no download."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from glassformer.config.errors import DataError, unknown
from glassformer.data.datasets import dates, generated, linked, opinions, samples
from glassformer.data.datasets.dataset import Dataset, Row, is_hub, load_facts
from glassformer.data.datasets.hub import open_hub


def _texts(build: Callable[..., Iterable[str]]) -> Callable[..., Iterator[Row]]:
    """Return a function that yields documents as rows of one column."""
    return lambda **values: ((text,) for text in build(**values))


def _no_rows(name: str) -> Iterator[Row]:
    raise DataError(f"the data set '{name}' contains images, not texts or a table (see `glassformer data`)")


MAKERS: dict[str, dict[str, Callable[..., Any]]] = {
    "docstrings": {"rows": _texts(samples.docstrings)},
    "stdlib": {"rows": _texts(samples.sources)},
    "copy": {"rows": _texts(generated.copy_rows)},
    "reverse": {"rows": _texts(generated.reverse_rows)},
    "add": {"rows": _texts(generated.add_rows)},
    "recall": {"rows": _texts(generated.recall_rows)},
    "pronouns": {"rows": _texts(linked.pronoun_rows), "links": linked.pronoun_links},
    "subject-object": {"rows": _texts(linked.subject_object_rows), "links": linked.subject_object_links},
    "senses": {"rows": generated.sense_rows},
    "balance": {"rows": generated.balance_rows},
    "reverse-pairs": {"rows": generated.reverse_pairs},
    "add-pairs": {"rows": generated.add_pairs},
    "dates": {"rows": dates.date_rows, "test": dates.date_test_rows, "alignments": dates.date_alignments},
    "opinions": {"rows": opinions.opinion_rows, "test": opinions.opinion_test_rows},
    "posts": {"rows": generated.post_rows},
    "reviews": {"rows": samples.review_rows},
    "diabetes": {"rows": samples.diabetes_rows},
    "iris": {"rows": samples.iris_rows},
    "digits": {"rows": functools.partial(_no_rows, "digits"), "images": samples.digit_images},
    "mnist5k": {"rows": functools.partial(_no_rows, "mnist5k"), "images": samples.mnist_images},
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
    """Return the data set `name`, `name:key=value,key=value` or hf:NAME; its rows are made when they are read."""
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
        least, most = 0 if key in ("seed", "distance", "verbs") else 1, info.most.get(key)
        if not value.isascii() or not value.isdigit() or int(value) < least or (most and int(value) > most):
            limits = f"at least {least}" + (f" and at most {most:,}" if most else "")
            raise DataError(f"{name}:{key} wants a whole number, {limits}, not '{value}'")
        values[key] = int(value)
    if values.get("shortest", 0) > values.get("longest", 0):
        raise DataError(f"{name}:shortest {values['shortest']} is more than {name}:longest {values['longest']}")
    makers = {"rows": info.rows, "test": info.test, "links": info.links, "alignments": info.alignments}
    built: dict[str, Any] = {key: functools.partial(make, **values) for key, make in makers.items() if make}
    return replace(info, **built)
