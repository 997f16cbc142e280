"""Loggers of training runs, and environment variables to set before other packages are imported. Imports no torch."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from glassformer.config.errors import MissingPackage, Misuse, refuse_unknown

LOGGERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Each is the name of its package and of its extra too."""
VARIABLE = "GLASSFORMER_LOG_TO"
"""Names in the environment: for the trainings of `compare` and `tune`, which are processes of their own."""

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
    """`tensorboard,mlflow`, or a list of names; unset, what the environment says. None: nobody has said anything."""
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
    """What to install, where a logger's package is not there; a folder of its name, such as `wandb`, is none."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return f"--log-to {name} needs {name}: pip install 'glassformer[{name}]'"
    return None


@contextmanager
def logging_to(given: str | Iterable[str] | None) -> Iterator[None]:
    """Trainings inside, and in the processes that are started there, log to these."""
    before, names = os.environ.get(VARIABLE), logger_names(given)
    if names is not None:
        os.environ[VARIABLE] = ",".join(names)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
