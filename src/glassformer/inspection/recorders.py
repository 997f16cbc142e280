"""What is recorded of each brick: names, and how to make what they stand for."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from torch import Tensor, nn

from glassformer.bricks.attention import Attention
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.norm import BatchNorm, LayerNorm, NoNorm, RMSNorm
from glassformer.bricks.pooling import AttentionPool, Pool
from glassformer.bricks.positions import LearnedPositions, NoPositions, OneHotPositions, Rotary, SineCosine
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.recurrent_trace import Trace, trace
from glassformer.bricks.residual import Residual
from glassformer.encoders.base import Encoder
from glassformer.encoders.transformer import Block
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens

Make = Callable[[], Tensor]
Found = Iterator[tuple[str, Make]]
Recorder = Callable[..., Found]
"""Of a path and of what a forward hook is given."""

SPANNING = (Block, Residual, Attention, FeedForward, Convolution, Pool, AttentionPool, Encoder)
"""Modules whose first input and whose output are recorded."""
GIVING = (LayerNorm, RMSNorm, BatchNorm, NoNorm, Patches, ConvolutionStack)
"""Modules of which only the output is."""
READING = (WordVectors, OneHot, ImageTokens, ColumnTokens, FlatColumns, FlatPixels, MixedTokens)
"""Modules that make vectors of an example."""


def recorder_of(module: nn.Module) -> Recorder | None:
    """How a brick is recorded; None: it is none of ours, or nothing of it is."""
    if isinstance(module, Recurrent):
        return _recurrent
    if isinstance(module, SPANNING):
        return _span
    if isinstance(module, GIVING):
        return given
    if isinstance(module, READING):
        return _vectors
    if isinstance(module, NoPositions | SineCosine | LearnedPositions | OneHotPositions):
        return _positions
    return _rotation if isinstance(module, Rotary) else None


def itself(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if isinstance(output, Tensor):
        yield path, lambda: output


def given(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if isinstance(output, Tensor):
        yield f"{path}.output", lambda: output


def _span(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if args:
        first = args[0]  # and nothing else that it is called with
        yield f"{path}.input", lambda: first
    yield from given(path, module, args, kwargs, output)


def _vectors(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    vectors = output[0] if isinstance(output, tuple) else output
    yield f"{path}.vectors", lambda: vectors


def _positions(path: str, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Found:
    x, index = args
    if isinstance(module, SineCosine):
        yield f"{path}.vectors", lambda: module.waves(index, x.shape[-1])
    elif isinstance(module, LearnedPositions):
        yield f"{path}.vectors", lambda: module.table(index)
    elif isinstance(module, OneHotPositions):
        yield f"{path}.vectors", lambda: module.join.weight[:, x.shape[-1] :].T[index]
    yield f"{path}.output", lambda: output


def _rotation(path: str, module: Rotary, args: Any, kwargs: Any, output: Any) -> Found:
    yield f"{path}.cos", lambda: output.cos
    yield f"{path}.sin", lambda: output.sin


def _recurrent(path: str, module: Recurrent, args: Any, kwargs: Any, output: Any) -> Found:
    x, hidden, mask = args if len(args) == 3 else (*args, None)
    known: list[list[Trace]] = []

    def traced(layer: int, way: int, part: Callable[[Trace], Any]) -> Any:
        if not known:
            known.extend(trace(module, x, hidden, mask))
        return part(known[layer][way])

    letters = {nn.LSTM: "ifgo", nn.GRU: "rzn"}.get(type(module.cell), "")
    for layer in range(module.cell.num_layers):
        for way in range(2 if module.cell.bidirectional else 1):
            where = f"{path}.{layer}{'.back' if way else ''}"
            yield f"{where}.states", partial(traced, layer, way, attrgetter("states"))
            if isinstance(module.cell, nn.LSTM):
                yield f"{where}.cells", partial(traced, layer, way, attrgetter("cells"))
            for letter in letters:
                yield f"{where}.gates.{letter}", partial(traced, layer, way, _gate(letter))
    yield f"{path}.output", lambda: output[0]


def _gate(letter: str) -> Callable[[Trace], Tensor]:
    return lambda one: one.gates[letter]
