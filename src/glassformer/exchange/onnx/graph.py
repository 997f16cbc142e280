"""The ONNX graphs of a model: one, or two for translation; writing them, and running them as a model."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxtyping
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.capabilities import capability
from glassformer.config.errors import MissingPackage, Misuse
from glassformer.exchange.exporting import BATCH, LENGTH, SOURCE, Port, ports_of, tensors_of, translator_ports
from glassformer.models.capabilities import HasDecoder, PoolsTokens, ScoresTokens
from glassformer.models.inputs import Shape
from glassformer.tasks.answers import Answers, Scale

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"

TRACED = {BATCH: 3, LENGTH: 5, SOURCE: 7}
"""Sizes of dynamic axes while tracing, all different so that they cannot be confused."""
MAX_INLINE_BYTES = 2**31 - 2**24
"""Maximum bytes of weights in the graph's own file; more are stored in a second file."""


@dataclass(frozen=True)
class Graph:
    """A file: a module, its inputs, and the names of its outputs."""

    file: str
    module: nn.Module
    ports: tuple[Port, ...]
    outputs: tuple[str, ...]
    """Names of the outputs."""

    def write(self, folder: Path) -> None:
        """Write the file, and a second one for weights beyond MAX_INLINE_BYTES."""
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
                ClearMetadataAndDocStringPass()(program.model)  # drop the source location of each node
                program.save(folder / self.file, external_data=size > MAX_INLINE_BYTES)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # the exporter can raise anything
            raise Misuse(f"this model cannot be exported to ONNX: {_cause(error)}") from None


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = " ".join(str(error).split())
    return f"{type(error).__name__}: {lines[:300]}" if lines else type(error).__name__


class Session:
    """A written graph in onnxruntime."""

    def __init__(self, path: Path) -> None:
        onnxruntime = require_onnx()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions are not public
            raise Misuse(f"{path} cannot be opened by onnxruntime: {_cause(error)}") from None
        self.inputs = [port.name for port in self._session.get_inputs()]

    def __call__(self, **inputs: Tensor) -> list[Tensor]:
        """Return the outputs; inputs that the graph does not use are ignored."""
        arrays = {name: value.cpu().numpy() for name, value in inputs.items() if name in self.inputs}
        return [torch.from_numpy(output) for output in self._session.run(None, arrays)]


def require_onnx() -> Any:
    """Return onnxruntime; raise `MissingPackage` if it, or a package that torch's exporter needs, is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingPackage.needed("ONNX", str(error.name), "onnx") from None
    return onnxruntime


@contextlib.contextmanager
def _quiet_tracing() -> Iterator[None]:
    """Suppress the exporter's output, warnings and logs.

    Tracing uses symbolic sizes, so the run-time shape checks are disabled meanwhile.
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


class ModelGraph(nn.Module):
    """A whole model with its scores or vectors, and the scores as probabilities or in the unit of the data."""

    def __init__(self, model: nn.Module, shape: Shape, answers: Answers | None) -> None:
        super().__init__()
        self.model = model
        self.answers = answers
        ports = enumerate(ports_of(shape, empty=True))
        self.empty = {place: port.kind for place, port in ports if port.axes[-1] == 0}
        """Positions and types of inputs without columns, which are passed as empty tensors."""

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        tensors = list(inputs)
        for place, kind in self.empty.items():
            tensors.insert(place, inputs[0].new_zeros(inputs[0].shape[0], 0, dtype=kind))
        scores: Tensor = self.model(*tensors)
        if self.answers is None:
            return scores
        meaning = self.answers.values if isinstance(self.answers, Scale) else self.answers.probabilities
        return scores, meaning(scores)


class EncoderGraph(nn.Module):
    """The encoder of a translation model."""

    def __init__(self, model: HasDecoder) -> None:
        super().__init__()
        self.embed, self.encoder = model.embed_source, model.encoder

    def forward(self, *inputs: Tensor) -> Tensor:
        source, mask = inputs
        return self.encoder(self.embed(source), mask)


class DecoderGraph(nn.Module):
    """The decoder of a translation model. It is causal, so target padding needs no mask."""

    def __init__(self, model: HasDecoder) -> None:
        super().__init__()
        self.embed, self.decoder, self.head = model.embed_target, model.decoder, model.head

    def forward(self, *inputs: Tensor) -> Tensor:
        target, memory, mask = inputs
        return self.head(self.decoder(self.embed(target), memory=Memory(memory, mask)))


def graphs_of(model: nn.Module, shape: Shape, target_vocab: int, answers: Answers | None) -> list[Graph]:
    if (translator := capability(model, HasDecoder)) is not None:
        source, source_mask, target = translator_ports(shape.vocab, target_vocab)
        width = translator.encoder.width * translator.encoder.output_parts
        memory = Port("memory", (BATCH, SOURCE, width), torch.float32)
        return [
            Graph(ENCODER, EncoderGraph(translator), (source, source_mask), ("memory",)),
            Graph(DECODER, DecoderGraph(translator), (target, memory, source_mask), ("logits",)),
        ]
    outputs: tuple[str, ...]
    if capability(model, ScoresTokens) is not None:
        outputs = ("logits",)
    elif answers is not None:
        outputs = ("scores", "values" if isinstance(answers, Scale) else "probabilities")
    elif capability(model, PoolsTokens) is not None:
        outputs = ("vectors",)
    else:
        raise Misuse(f"{type(model).__name__} is a model of a task of one's own, whose outputs have no names here")
    return [Graph(MODEL, ModelGraph(model, shape, answers), ports_of(shape), outputs)]


class OnnxModel(nn.Module):
    """The graphs of a folder, with the calling convention of the model."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        names = [MODEL] if (folder / MODEL).is_file() else [ENCODER, DECODER]
        if not is_onnx(folder):
            raise Misuse(f"{folder} holds no exported model: there is neither {MODEL} nor {ENCODER} and {DECODER}")
        self.sessions = [Session(folder / name) for name in names]

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Return the scores of the model; a mask of None marks all tokens as real."""
        tensors: list[Tensor] = []
        for tensor in inputs:
            tensors.append(torch.ones_like(tensors[-1], dtype=torch.bool) if tensor is None else tensor)
        if len(self.sessions) == 1:
            (session,) = self.sessions
            filled = [tensor for tensor in tensors if tensor.shape[-1]]
            return session(**dict(zip(session.inputs, filled, strict=True)))[0]
        encoder, decoder = self.sessions
        source, mask, target = tensors[:3]
        (memory,) = encoder(source=source, source_mask=mask)
        return decoder(target=target, memory=memory, source_mask=mask)[0]


def is_onnx(folder: Path) -> bool:
    return (folder / MODEL).is_file() or all((folder / name).is_file() for name in (ENCODER, DECODER))
