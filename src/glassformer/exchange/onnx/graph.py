"""One graph of a model: what goes in, what comes out, and how it is written and asked."""

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

BATCH, LENGTH, SOURCE = "batch", "length", "source_length"
"""Axes of any size."""
TRACED = {BATCH: 3, LENGTH: 5, SOURCE: 7}
"""Their sizes where a model is followed; no two alike, so that none is taken for another."""
INSIDE = 2**31 - 2**24
"""Bytes of weights that one file can hold beside its graph; more lie in a file beside it."""


@dataclass(frozen=True)
class Port:
    """A tensor that goes in."""

    name: str
    axes: tuple[int | str, ...]
    """Sizes; those that may be any are names."""
    kind: torch.dtype = torch.int64
    below: tuple[int, ...] = ()
    """Of ids: how many there are; of categories: of each column."""

    def made_up(self, sizes: Mapping[str, int], random: torch.Generator) -> Tensor:
        """Numbers of the right kind. A mask shows rows of different lengths; with three of them, one is empty."""
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in self.axes]
        if self.kind == torch.bool:
            rows, length = shape
            lengths = torch.tensor([0 if row == 2 else max(1, length * (row + 1) // rows) for row in range(rows)])
            return torch.arange(length) < lengths.unsqueeze(1)
        if self.kind != torch.int64:
            return torch.randn(shape, generator=random)
        if self.axes[-1] in TRACED:
            return torch.randint(self.below[0], shape, generator=random)
        columns = [torch.randint(most, (shape[0], 1), generator=random) for most in self.below]
        return torch.cat([torch.empty(shape[0], 0, dtype=torch.int64), *columns], 1)

    @property
    def words(self) -> str:
        """For a person."""
        kind = {torch.int64: "int64", torch.bool: "bool"}.get(self.kind, "float32")
        return f"`{self.name}`: {kind}, {' × '.join(map(str, self.axes))}"


@dataclass(frozen=True)
class Graph:
    """A file: a module, the tensors it is called with, and the names of what it gives."""

    file: str
    module: nn.Module
    ports: tuple[Port, ...]
    outputs: Mapping[str, str]
    """By name, what each is."""

    def write(self, folder: Path) -> list[Path]:
        """The file, and the one beside it that holds the weights where they are too many."""
        random = torch.Generator().manual_seed(0)
        inputs = tuple(port.made_up(TRACED, random) for port in self.ports)
        axes = tuple(
            {place: axis for place, axis in enumerate(port.axes) if isinstance(axis, str)} for port in self.ports
        )
        held = {id(weight): weight for weight in [*self.module.parameters(), *self.module.buffers()]}
        size = sum(weight.numel() * weight.element_size() for weight in held.values())
        path = folder / self.file
        try:
            with torch.no_grad(), _followed():
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
                program.save(path, external_data=size > INSIDE)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # the exporter raises whatever its parts raise
            raise Misuse(f"this model cannot be exported to ONNX: {_cause(error)}") from None
        return [path, *sorted(folder.glob(f"{self.file}.data"))]


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = " ".join(str(error).split())
    return f"{type(error).__name__}: {lines[:300]}" if lines else type(error).__name__


class Session:
    """A written graph, as another program would run it."""

    def __init__(self, path: Path) -> None:
        onnxruntime = needed()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library's own kinds of error are not public
            raise Misuse(f"{path} cannot be opened by onnxruntime: {_cause(error)}") from None
        self.inputs = [port.name for port in self._session.get_inputs()]

    def __call__(self, **given: Tensor) -> list[Tensor]:
        """What comes out, in its order. A graph that does not need an input has none of that name."""
        fed = {name: value.cpu().numpy() for name, value in given.items() if name in self.inputs}
        return [torch.from_numpy(found) for found in self._session.run(None, fed)]


def needed() -> Any:
    """onnxruntime, and what torch needs beside it to write a graph; or one line that says what is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Misuse(f"ONNX needs {error.name}: pip install 'glassformer[onnx]'") from None
    return onnxruntime


@contextlib.contextmanager
def _followed() -> Iterator[None]:
    """The exporter tells of its own affairs: on stdout, as warnings, and in logs. And it follows a model with sizes
    that are symbols, which whoever checks shapes while they run would take for numbers."""
    logs, checked = logging.root.manager.disable, jaxtyping.config.jaxtyping_disable
    logging.disable(logging.CRITICAL)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logs)
        jaxtyping.config.update("jaxtyping_disable", checked)
