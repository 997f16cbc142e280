"""Estimators for scikit-learn: `gf.Classifier` and `gf.Regressor`, also in a `Pipeline` or a search."""

import io
import os
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.config.data_section import ALL_COLUMNS
from glassformer.config.errors import MissingPackage
from glassformer.config.presets import CLASSIFICATION, REGRESSION
from glassformer.data.io.memory import cell_text, frame_of, is_missing
from glassformer.data.wording import counted
from glassformer.families.load import load
from glassformer.families.predict import Prediction
from glassformer.verbs.train import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingPackage.needed("the class gf.Classifier or gf.Regressor", "scikit-learn", "sklearn") from None

TEXT, LABEL = "text", "label"


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators, which train with `train`.

    X is a list, an array or a Series of texts, or a DataFrame with columns of texts, numbers, categories and dates. The
    model reads every column of X. A column that it cannot read is an error.
    """

    _task: str

    def __init__(
        self,
        model: str = "transformer",
        *,
        size: str | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        minutes: float | None = None,
        lr: float | None = None,
        validation_fraction: float = 0.0,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        """Store the parameters.

        `validation_fraction`: share of the rows used to choose the best weights. At 0, all rows are for training and
        the last weights are kept. `settings`: further settings of `train`, by dotted key. `out`: folder of the run;
        unset, a temporary folder that is deleted together with this object.
        """
        self.model, self.size = model, size
        self.steps, self.epochs, self.minutes = steps, epochs, minutes
        self.lr, self.validation_fraction, self.seed = lr, validation_fraction, seed
        self.device, self.settings, self.out = device, settings, out

    def fit(self, X: Any, y: Any) -> Self:
        columns, answers = self._columns(X), self._answers(y)
        check_consistent_length(next(iter(columns.values())), answers)
        label = next(name for name in (LABEL, f"{LABEL} (y)") if name not in columns)
        out = self._own_folder() if self.out is None else Path(self.out)
        texts_alone = list(columns) == [TEXT]
        chosen = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        settings = {
            "task": self._task,
            "data.label": label,
            **({"data.text": TEXT} if texts_alone else {"data.extra_columns": ALL_COLUMNS}),
            "data.validation_fraction": chosen.pop("validation_fraction", 0.0),
            "data.test_fraction": 0.0,
            **chosen.pop("settings", {}),
        }
        rows = {**columns, label: answers.tolist()}
        run: dict[str, Any] = {**chosen, "out": out, "draft": self.out is None, "keep_data": False, "overwrite": True}
        train(rows, **{**run, **settings})
        self.loaded_: Any = load(out, self.device)
        return self

    def _own_folder(self) -> Path:
        """Return a temporary folder that is deleted together with this object."""
        folder = tempfile.mkdtemp(prefix="glassformer-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder, "run")

    def _answers(self, y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        _refuse_missing("y", y, "label")
        return column_or_1d(y, warn=True)

    def _columns(self, X: Any, *, reset: bool = True) -> dict[str, list[Any]]:
        """Return X as columns: one column of texts, the columns of a table, or x0, x1 … for an array of numbers."""
        if (texts := _texts(X)) is not None:
            return {TEXT: texts}
        if (frame := frame_of(X)) is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)  # raises if columns differ
            return {name: frame.values(name) for name in frame.names}
        least = 2 if reset else 1
        array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=least)
        return {f"x{number}": column.tolist() for number, column in enumerate(array.T)}

    def _predicted(self, X: Any) -> list[Prediction]:
        check_is_fitted(self)
        columns = self._columns(X, reset=False)
        if list(columns) == [TEXT]:
            return self.loaded_.predict(columns[TEXT])
        for name in self.loaded_.schema.ignored(columns):  # columns that `fit` dropped
            del columns[name]
        rows = zip(*columns.values(), strict=True)
        return self.loaded_.predict([dict(zip(columns, row, strict=True)) for row in rows])

    # --- pickling: the state contains the files of the run ---

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if (loaded := state.pop("loaded_", None)) is not None:
            packed, folder = io.BytesIO(), Path(loaded.run.path)
            with zipfile.ZipFile(packed, "w") as file:
                for path in sorted(folder.iterdir()):
                    if path.is_file():
                        file.write(path, path.name)
            state["run_files"] = packed.getvalue()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("run_files", None)
        super().__setstate__(state)
        if files is not None:
            folder = self._own_folder()
            with zipfile.ZipFile(io.BytesIO(files)) as packed:
                packed.extractall(folder)
            self.loaded_ = load(folder, self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loaded_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


class Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier of texts or of rows with scikit-learn's interface: `gf.Classifier("lstm").fit(texts, labels)`."""

    _task = CLASSIFICATION
    classes_: NDArray[Any]

    def _answers(self, y: Any) -> NDArray[Any]:
        answers = super()._answers(y)
        check_classification_targets(answers)
        self.classes_ = np.unique(answers)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}, and a classifier tells two or more apart")
        return answers

    def predict(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each row, in the order of `classes_`."""
        check_is_fitted(self)
        names = [cell_text(one, {}) for one in self.classes_]
        found = [one.probabilities or {} for one in self._predicted(X)]
        return np.array([[row[name] for name in names] for row in found])


class Regressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor on texts or on rows with scikit-learn's interface."""

    _task = REGRESSION

    def _answers(self, y: Any) -> NDArray[Any]:
        answers = super()._answers(y)
        assert_all_finite(answers, input_name="y")
        return answers

    def predict(self, X: Any) -> NDArray[np.float64]:
        return np.array([one.value for one in self._predicted(X)], np.float64)


def _texts(X: Any) -> list[str] | None:
    """Return the texts if X is a list, an array or a column that contains only texts, else None."""
    if isinstance(X, str) or not hasattr(X, "__len__") or hasattr(X, "columns") or hasattr(X, "toarray"):
        return None
    values = list(X.tolist() if hasattr(X, "tolist") else X)
    there = [one for one in values if not is_missing(one)]
    if all(isinstance(one, str) for one in there) and (there or None in values):
        _refuse_missing("X", values, "text")
    values = [row[0] if isinstance(row, list | tuple) and len(row) == 1 else row for row in values]
    return values if values and all(isinstance(one, str) for one in values) else None


def _refuse_missing(name: str, values: Any, what: str) -> None:
    """Raise `ValueError` if a list, an array or a column has missing values."""
    if isinstance(values, str) or not hasattr(values, "__len__"):
        return
    missing = sum(is_missing(one) for one in (values.tolist() if hasattr(values, "tolist") else values))
    if missing:
        raise ValueError(f"{name} holds {counted(missing, f'missing {what}')}: leave these rows away")
