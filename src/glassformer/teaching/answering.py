"""A student in this process: what a notebook has defined, asked for by name; what goes wrong is one line."""

import traceback
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from glassformer.config.errors import error_line, out_of_memory
from glassformer.teaching.exercise import StudentError, run_module

INSTALLED = (str(Path(__file__).parents[1]), "/site-packages/", "/lib/python", "<frozen")
"""How the files begin, or what they hold, that no student wrote."""
OUT_OF_MEMORY = "runs out of memory"
LONGEST = 200
"""Characters of an error that are said."""


class NotAllowed(ImportError):
    """An import that a submission may not make."""


class Here:
    """A student whose names are these."""

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

    def run_module(
        self, name: str, build: Mapping[str, Any], weights: Mapping[str, Tensor], args: tuple[Any, ...], learn: bool
    ) -> Any:
        build_module = self._callable(name)
        try:
            module = build_module(**build)
        except (Exception, SystemExit) as error:
            raise StudentError(f"cannot be built: {what_happened(error)}") from None
        if not isinstance(module, nn.Module):
            raise StudentError(f"{name} is no nn.Module")
        _put_weights(module, weights)
        try:
            return run_module(module, deepcopy(args), learn=learn)
        except (Exception, SystemExit) as error:
            raise StudentError(what_happened(error)) from None

    def _callable(self, name: str) -> Any:
        value = self.value(name)
        if not callable(value):
            raise StudentError(f"{name} is {type(value).__name__}, not something to call")
        return value


def _put_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    own = module.state_dict()
    missing, more = sorted(weights.keys() - own.keys()), sorted(own.keys() - weights.keys())
    if missing or more:
        said = [f"has no {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(more)} too many"] * bool(more)
        raise StudentError(f"its weights are not those asked for: it {' and '.join(said)}"[:LONGEST])
    for name, weight in weights.items():
        if own[name].shape != weight.shape:
            raise StudentError(f"{name} has the shape {list(own[name].shape)}, not {list(weight.shape)}")
    module.load_state_dict(dict(weights))


def what_happened(error: BaseException) -> str:
    """What a student's code raised, and where, in one line."""
    if isinstance(error, NotImplementedError):
        return "is still to be written"
    if isinstance(error, SystemExit):
        return "ends the program (SystemExit)"
    if isinstance(error, NotAllowed):
        said = str(error)
    else:
        said = OUT_OF_MEMORY if out_of_memory(error) else f"raises {error_line(error)}"
    short = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    return short + _where(error.__traceback__)


def _where(trace: TracebackType | None) -> str:
    """The last line of the student's own; what is installed is not theirs."""
    own = [frame for frame in traceback.extract_tb(trace) if not any(sign in frame.filename for sign in INSTALLED)]
    if not own or own[-1].lineno is None:
        return ""
    last = own[-1]
    cell = f"{last.filename[1:-1]}, " if last.filename.startswith("<") else ""
    inside = "" if last.name.startswith("<") else f" of {last.name}"
    return f" ({cell}line {last.lineno}{inside})"
