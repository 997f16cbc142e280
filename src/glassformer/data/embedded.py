"""The data sets that come along: listed without being built, made anew wherever Python runs, nothing to download."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from glassformer.config.errors import DataError
from glassformer.config.names import unknown
from glassformer.data.exact import add_rows, copy_rows, recall_rows, reverse_rows
from glassformer.data.python_text import docstrings, sources


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is built."""

    summary: str
    build: Callable[..., Iterable[str]]
    """The parameters by name → the documents, the same ones each time."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """With their defaults."""


ROWS = {"rows": 2000, "seed": 0}
LETTERS = {**ROWS, "shortest": 3, "longest": 8}

DATASETS: dict[str, DatasetInfo] = {
    "docstrings": DatasetInfo(
        "English: what the Python standard library says of itself, a document a module", docstrings
    ),
    "stdlib": DatasetInfo("code: the Python standard library's source, a document a module", sources),
    "copy": DatasetInfo("letters, then the same again: abcd>abcd", copy_rows, LETTERS),
    "reverse": DatasetInfo("letters, then the same backwards: abcd>dcba", reverse_rows, LETTERS),
    "add": DatasetInfo("sums of two whole numbers: 27+45=72", add_rows, {**ROWS, "digits": 2}),
    "recall": DatasetInfo(
        "a letter and its digit, `distance` other pairs, then the letter asked again: k7c1f3?k7",
        recall_rows,
        {**ROWS, "distance": 8},
    ),
}


def open_dataset(spec: str) -> Callable[[], Iterable[str]]:
    """`name` or `name:key=value,key=value`, checked now and built when called."""
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
        values[key] = int(value)
    if values.get("shortest", 0) > values.get("longest", 0):
        raise DataError(f"{name}:shortest {values['shortest']} is more than {name}:longest {values['longest']}")
    return lambda: info.build(**values)
