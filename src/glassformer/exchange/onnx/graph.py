"""One graph of a model: what goes in, what comes out, how it is written, and how onnxruntime runs it."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxtyping
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.exchange.comparison import BATCH, LENGTH, SOURCE, Port
from glassformer.exchange.exporting import tensors_of

TRACED = {BATCH: 3, LENGTH: 5, SOURCE: 7}
"""Sizes of the axes where a model is traced; no two alike, so that none is taken for another."""
INSIDE = 2**31 - 2**24
"""Bytes of weights that one file can hold beside its graph; more lie in a file beside it."""


@dataclass(frozen=True)
class Graph:
    """A file: a module, the tensors it is called with, and the names of what it gives."""

    file: str
    module: nn.Module
    ports: tuple[Port, ...]
    outputs: Mapping[str, str]
    """What each is, by its name."""

    def write(self, folder: Path) -> None:
        """Write the file, and the one beside it that holds the weights where they are too many."""
        random = torch.Generator().manual_seed(0)
        inputs = tuple(port.example(TRACED, random) for port in self.ports)
        axes = tuple(
            {place: axis for place, axis in enumerate(port.axes) if isinstance(axis, str)} for port in self.ports
        )
        distinct = {id(tensor): tensor for tensor in tensors_of(self.module)}
        size = sum(tensor.numel() * tensor.element_size() for tensor in distinct.values())
        try:
            with torch.no_grad(), _quiet_tracing():
                from onnx_ir.passes.common import ClearMetadataAndDocStringPass

                program = torch.onnx.export(
                    self.module,
                    inputs,
                    dynamo=True,
                    dynamic_shapes=(axes,),
                    input_names=[port.name for port in self.ports],
                    output_names=list(self.outputs),
                    verbose=False,
                )
                assert program is not None
                ClearMetadataAndDocStringPass()(program.model)  # where in which file each node was made
                program.save(folder / self.file, external_data=size > INSIDE)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # the exporter raises whatever its parts raise
            raise Misuse(f"this model cannot be exported to ONNX: {_cause(error)}") from None


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = " ".join(str(error).split())
    return f"{type(error).__name__}: {lines[:300]}" if lines else type(error).__name__


class Session:
    """A written graph, as another program would run it."""

    def __init__(self, path: Path) -> None:
        onnxruntime = require_onnx()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library's own kinds of error are not public
            raise Misuse(f"{path} cannot be opened by onnxruntime: {_cause(error)}") from None
        self.inputs = [port.name for port in self._session.get_inputs()]

    def __call__(self, **inputs: Tensor) -> list[Tensor]:
        """What comes out, in its order. A graph that does not need an input has none of that name."""
        arrays = {name: value.cpu().numpy() for name, value in inputs.items() if name in self.inputs}
        return [torch.from_numpy(output) for output in self._session.run(None, arrays)]


def require_onnx() -> Any:
    """onnxruntime, and what torch needs beside it to write a graph; or one line that says what is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Misuse(f"ONNX needs {error.name}: pip install 'glassformer[onnx]'") from None
    return onnxruntime


@contextlib.contextmanager
def _quiet_tracing() -> Iterator[None]:
    """Tracing without what the exporter tells of its own affairs on stdout, as warnings, and in logs.

    And it follows a model with sizes that are symbols, which whoever checks shapes while they run would take for
    numbers.
    """
    logs, unchecked = logging.root.manager.disable, jaxtyping.config.jaxtyping_disable
    logging.disable(logging.CRITICAL)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logs)
        jaxtyping.config.update("jaxtyping_disable", unchecked)
