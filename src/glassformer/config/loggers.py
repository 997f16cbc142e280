"""Loggers of training runs, and environment variables to set before other packages are imported. Imports no torch."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from glassformer.config.errors import MissingPackage, Misuse, refuse_unknown

LOGGERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Names of the loggers, which are those of their packages and extras."""
VARIABLE = "GLASSFORMER_LOG_TO"
"""Environment variable with logger names for the training runs of `compare` and `tune`, which are child processes."""

OPT_OUT_VARIABLES = {
    "DO_NOT_TRACK": "1",  # respected by several packages, among them mlflow
    "GRADIO_ANALYTICS_ENABLED": "False",  # trackio
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, datasets, transformers
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime also stores a device id unless this is set before its import
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_ERROR_REPORTING": "false",
}
"""Environment variables that stop optional packages from reporting usage to their makers."""
WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that let users choose how threads wait."""


def disable_telemetry() -> None:
    """Set every variable that the user has not set; child processes inherit them."""
    for name, value in OPT_OUT_VARIABLES.items():
        os.environ.setdefault(name, value)


def wait_passively() -> None:
    """Let waiting threads sleep instead of spin, unless the user chose how they wait.

    OpenMP reads the variable when torch is imported. Child processes inherit it.
    """
    if not any(name in os.environ for name in WAITING_VARIABLES):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def logger_names(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the logger names of `tensorboard,mlflow` or a list; by default those of the environment.

    None if neither is set.
    """
    if given is None:
        given = os.environ.get(VARIABLE)
    if given is None:
        return None
    words = given.split(",") if isinstance(given, str) else list(given)
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    for name in names:
        refuse_unknown("logger", name, LOGGERS, Misuse)
        if missing := missing_package(name):
            raise MissingPackage(missing)
    return names


def missing_package(name: str) -> str | None:
    """Return how to install the package of a logger; None if it is installed.

    A folder with its name, such as `wandb`, does not count as a package.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return f"--log-to {name} needs {name}: pip install 'glassformer[{name}]'"
    return None


@contextmanager
def logging_to(given: str | Iterable[str] | None) -> Iterator[None]:
    """Use these loggers for training runs within the context and in its child processes."""
    before, names = os.environ.get(VARIABLE), logger_names(given)
    if names is not None:
        os.environ[VARIABLE] = ",".join(names)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
