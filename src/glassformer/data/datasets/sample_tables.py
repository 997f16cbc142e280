"""Tables of measured numbers that many books use, from the package scikit-learn."""

import importlib
from typing import Any

from glassformer.config.errors import DataError

DIABETES_COLUMNS = (
    "age", "sex", "bmi", "blood_pressure", "cholesterol", "ldl", "hdl", "cholesterol_per_hdl", "log_triglycerides",
    "glucose", "progression",
)  # fmt: skip
IRIS_COLUMNS = ("sepal_length", "sepal_width", "petal_length", "petal_width", "species")


def diabetes_rows() -> list[tuple[str, ...]]:
    """A patient a row: ten measurements as they were taken, and how far the illness had gone a year later."""
    data = needed("sklearn.datasets", "scikit-learn", "diabetes").load_diabetes(scaled=False)
    return [
        (*map(_written, measured), _written(progression))
        for measured, progression in zip(data.data.tolist(), data.target.tolist(), strict=True)
    ]


def iris_rows() -> list[tuple[str, ...]]:
    """A flower a row: four lengths in centimetres, and its species."""
    data = needed("sklearn.datasets", "scikit-learn", "iris").load_iris()
    return [
        (*map(_written, measured), str(data.target_names[species]))
        for measured, species in zip(data.data.tolist(), data.target.tolist(), strict=True)
    ]


def needed(module: str, package: str, dataset: str) -> Any:
    """A module of a package that only some data sets need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(
            f"the data set '{dataset}' needs the package {package}, which is not here: "
            "pip install 'glassformer[samples]'"
        ) from None


def _written(value: float) -> str:
    """59, not 59.0."""
    return repr(value).removesuffix(".0")
