"""Evaluate student code in this process, for example the names that a notebook defines."""

import traceback
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from glassformer.config.errors import error_line, out_of_memory
from glassformer.teaching.exercise import ModuleCall, StudentError, run_module

INSTALLED = (str(Path(__file__).parents[1]), "/site-packages/", "/lib/python", "<frozen")
"""Path fragments of installed files, which are not the student's code."""
OUT_OF_MEMORY = "runs out of memory"
MAX_ERROR_CHARS = 200


class NotAllowed(ImportError):
    """Raised if a submission imports a forbidden module."""


class Here:
    """Student whose names are defined in this process."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def value(self, name: str) -> Any:
        if name not in self.names:
            raise StudentError(f"{name} is not defined")
        return self.names[name]

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        function = self._callable(name)
        try:
            return function(*deepcopy(args), **deepcopy(dict(kwargs)))
        except (Exception, SystemExit) as error:
            raise StudentError(what_happened(error)) from None

    def run_module(self, name: str, *call: Any) -> Any:
        asked, build_module = ModuleCall(*call), self._callable(name)
        try:
            module = build_module(**asked.build)
        except (Exception, SystemExit) as error:
            raise StudentError(f"cannot be built: {what_happened(error)}") from None
        if not isinstance(module, nn.Module):
            raise StudentError(f"{name} is not an nn.Module")
        _put_weights(module, asked.weights)
        try:
            return run_module(module, deepcopy(asked.args), learn=asked.learn)
        except (Exception, SystemExit) as error:
            raise StudentError(what_happened(error)) from None

    def _callable(self, name: str) -> Any:
        value = self.value(name)
        if not callable(value):
            raise StudentError(f"{name} is {type(value).__name__}, not something to call")
        return value


def _put_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    own = module.state_dict()
    missing, more = ", ".join(sorted(weights.keys() - own.keys())), ", ".join(sorted(own.keys() - weights.keys()))
    if missing or more:
        parts = filter(None, [missing and f"has no {missing}", more and f"has {more} too many"])
        raise StudentError(f"its weights are not those asked for: it {' and '.join(parts)}"[:MAX_ERROR_CHARS])
    for name, weight in weights.items():
        if own[name].shape != weight.shape:
            raise StudentError(f"{name} has the shape {list(own[name].shape)}, not {list(weight.shape)}")
    module.load_state_dict(dict(weights))


def what_happened(error: BaseException) -> str:
    """Return a one-line description of an exception in a student's code, with the line number."""
    if isinstance(error, NotImplementedError):
        return "is still to be written"
    if isinstance(error, SystemExit):
        return "ends the program (SystemExit)"
    text = OUT_OF_MEMORY if out_of_memory(error) else f"raises {error_line(error)}"
    text = str(error) if isinstance(error, NotAllowed) else text
    short = text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"
    return short + _where(error.__traceback__)


def _where(trace: TracebackType | None) -> str:
    """Return the location of the last frame that is the student's code; empty if there is none."""
    own = [frame for frame in traceback.extract_tb(trace) if not any(sign in frame.filename for sign in INSTALLED)]
    if not own or own[-1].lineno is None:
        return ""
    last = own[-1]
    cell = f"{last.filename[1:-1]}, " if last.filename.startswith("<") else ""
    inside = "" if last.name.startswith("<") else f" of {last.name}"
    return f" ({cell}line {last.lineno}{inside})"
