"""Which graphs a model becomes, one, or of a translator two; how they are written; and the written ones as a model that
can be called.
"""

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
"""Sizes of the axes where a model is traced; no two alike, so that none is taken for another."""
INSIDE = 2**31 - 2**24
"""Bytes of weights that one file can hold beside its graph; more lie in a file beside it."""


@dataclass(frozen=True)
class Graph:
    """A file: a module, the tensors that go in, and the names of those that come out."""

    file: str
    module: nn.Module
    ports: tuple[Port, ...]
    outputs: tuple[str, ...]
    """Names of the tensors that come out."""

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
        raise MissingPackage.needed("ONNX", str(error.name), "onnx") from None
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


class ModelGraph(nn.Module):
    """A whole model: its scores or vectors; and what scores mean, as probabilities or in the unit of the data."""

    def __init__(self, model: nn.Module, shape: Shape, answers: Answers | None) -> None:
        super().__init__()
        self.model = model
        self.answers = answers
        ports = enumerate(ports_of(shape, empty=True))
        self.empty = {place: port.kind for place, port in ports if port.axes[-1] == 0}
        """Places of tensors that this model has no columns for: it is called with empty ones."""

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
    """The half of a translator that reads."""

    def __init__(self, model: HasDecoder) -> None:
        super().__init__()
        self.embed, self.encoder = model.embed_source, model.encoder

    def forward(self, *inputs: Tensor) -> Tensor:
        source, mask = inputs
        return self.encoder(self.embed(source), mask)


class DecoderGraph(nn.Module):
    """The half of a translator that writes. What follows a token never matters, so that its padding needs no mask."""

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
    """The graphs of a folder, called as the model was that they were made of."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        names = [MODEL] if (folder / MODEL).is_file() else [ENCODER, DECODER]
        if not is_onnx(folder):
            raise Misuse(f"{folder} holds no exported model: there is neither {MODEL} nor {ENCODER} and {DECODER}")
        self.sessions = [Session(folder / name) for name in names]

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Scores, as the model gives them; a mask that is None hides nothing."""
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
