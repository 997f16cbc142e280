"""The package gguf, which not everyone needs: how each kind of number is written, and how to turn it back."""

import importlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import Misuse


class Kind(NamedTuple):
    """A way to write numbers: so many of them in so many bytes."""

    number: int
    name: str
    block: int
    bytes: int


@cache
def _package() -> Any:
    try:
        return importlib.import_module("gguf")
    except ImportError:
        raise Misuse("reading .gguf files needs gguf: pip install 'glassformer[gguf]'") from None


def kind_of(number: int) -> Kind | None:
    """The kind with this number in the file; None if the package knows none."""
    package = _package()
    try:
        kind = package.GGMLQuantizationType(number)
    except ValueError:
        return None
    return Kind(number, kind.name, *package.GGML_QUANT_SIZES[kind])


@cache
def readable(kind: Kind) -> bool:
    """Whether the package can turn a kind back; it says so only when it is asked to."""
    try:
        dequantise(np.zeros((1, kind.bytes), np.uint8), kind)
    except (NotImplementedError, ValueError):
        return False
    return True


def dequantise(rows: NDArray[np.uint8], kind: Kind) -> NDArray[np.float32]:
    """Bytes, as they lie in the file, in single precision: the last dimension grows or shrinks."""
    package = _package()
    with np.errstate(all="ignore"):  # damaged scales are no reason to warn: numbers that are none are found when used
        numbers: NDArray[np.float32] = package.dequantize(rows, package.GGMLQuantizationType(kind.number))
    return numbers
