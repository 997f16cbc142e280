"""What a data set is, wherever it comes from: columns, and rows or images that are made or read when asked for."""

import functools
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = tuple[str, ...]
"""A value for each column."""

Images = tuple[NDArray[np.uint8], list[str]]
"""N×H×W×C, from 0 to 255, and the class of each."""

Links = list[tuple[int, int]]
"""Words of a text that belong together, counted from 0: from which to which."""
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
"""What the name of a data set of the Hugging Face hub begins with."""


@dataclass(frozen=True)
class Dataset:
    """What is known of a data set before it is built, and what builds it anew with each call."""

    summary: str
    rows: Callable[..., Iterable[Row]]
    """The parameters by name → the rows, the same ones each time; where there are images instead, refused."""
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
    links: Callable[..., Iterable[tuple[str, Relations]]] | None = None
    """Texts outside the training data with annotated links between their words."""
    alignments: Callable[..., Iterable[Alignment]] | None = None
    """Pairs outside the training data with gold alignments."""
    note: str = ""
    """What is left out, in words for a person."""


def is_hub(path_or_name: str) -> bool:
    """Whether it names a data set of the hub; by its name alone."""
    return path_or_name.startswith(HUB)


@functools.cache
def load_facts(name: str) -> dict[str, Any]:
    """Return the words, sentences and settings in the file `name`.toml beside this module."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))
