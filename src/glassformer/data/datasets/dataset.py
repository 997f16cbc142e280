"""Description of a data set, embedded or of the hub: columns, and functions that make or read its rows or images."""

import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Row = tuple[str, ...]
"""A value for each column."""

Images = tuple[NDArray[np.uint8], list[str]]
"""Pixels (N×H×W×C, 0 to 255), and the class of each image."""

Links = list[tuple[int, int]]
"""Pairs of positions of words in a text, counted from 0: from one word to another."""
Relations = Mapping[str, Links]
"""Links of a text by relation, such as subject, object or antecedent."""

Span = tuple[int, int]
"""Characters [start, end) of a text."""


class Alignment(NamedTuple):
    """A pair of texts with the links between a span of the source and a span of the target."""

    source: str
    target: str
    source_spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]
    sure: frozenset[tuple[int, int]]
    """Links that an aligner should make: numbers of a source span and a target span."""
    possible: frozenset[tuple[int, int]] = frozenset()
    """Links that are neither required nor wrong."""


HUB = "hf:"
"""Prefix of the names of data sets of the Hugging Face hub."""


@dataclass(frozen=True)
class Dataset:
    """Facts about a data set that are known before it is built, and the functions that build it with each call."""

    summary: str
    rows: Callable[..., Iterable[Row]]
    """Returns the rows for parameters by name, the same rows each time; raises `DataError` for a data set of images."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """The parameters and their defaults."""
    columns: tuple[str, ...] = ("text",)
    test: Callable[..., Iterable[Row]] | None = None
    """Returns the rows of the test set; None if the data set has none of its own."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Largest value of a parameter, if it is limited."""
    images: Callable[[], Images] | None = None
    """Returns the pixels and classes of a data set of images."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Initial values of settings for this data set, by dotted key."""
    links: Callable[..., Iterable[tuple[str, Relations]]] | None = None
    """Returns texts outside the training data with annotated links between their words."""
    alignments: Callable[..., Iterable[Alignment]] | None = None
    """Returns pairs outside the training data with gold alignments."""
    note: str = ""
    """Message on omitted columns."""


def is_hub(path_or_name: str) -> bool:
    """Return whether a name is that of a data set of the hub."""
    return path_or_name.startswith(HUB)


T = TypeVar("T")


def distinct(draw: Callable[[], T], rows: int, seen: set[Any], key: Callable[[T], Any], space: int = -1) -> Iterator[T]:
    """Yield rows whose keys differ from each other and from those in `seen`, to which they are added.

    `space`: the number of possible keys; once all of them were seen, they may occur again.
    """
    for _ in range(rows):
        if len(seen) == space:
            seen.clear()
        while key(row := draw()) in seen:
            pass
        seen.add(key(row))
        yield row


@functools.cache
def load_facts(name: str) -> dict[str, Any]:
    """Return the words, sentences and settings in the file `name`.toml beside this module."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))
