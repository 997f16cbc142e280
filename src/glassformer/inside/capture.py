"""Capture: what passes through a model, by name, while it computes what it always computes.

| name | what |
|---|---|
| `embed.vectors` | word vectors; a translator's `embed_source.vectors`, `embed_target.vectors` |
| `encoder.input`, `encoder.output` | what an encoder reads and gives; a translator has a `decoder` too |
| `encoder.positions.vectors`, `.output` | what is added for positions, and the sum; `encoder.rotary.cos`, `.sin` |
| `encoder.blocks.N.input`, `.output` | around a block of a Transformer |
| `encoder.blocks.N.attend.queries`, `.keys`, `.values`, `.scores`, `.weights`, `.mixed` | attention; what heads found |
| `decoder.blocks.N.recall.…` | the same of attention to the source |
| `….attend.input`, `.output`, `….feed.input`, `.active`, `.output` | the parts of a block |
| `….around_attend.input`, `.normed`, `.output` | residual and norm around a part |
| `encoder.convolutions.N.input`, `.output`, `encoder.around.N.output` | convolutions |
| `encoder.layers.N.states`, `.cells`, `.gates.i`, `….back.states` | recurrent layers; `back`: the way backwards |
| `decoder.attention.scores`, `.weights` | a recurrent decoder's attention to the source |
| `pool.input`, `pool.weights`, `pool.output`, `logits` | the end |

Taps and module hooks record tensors as they are, gradients and all. Scores, weights, states and gates are made beside
them when they are asked for, by the written-out formula.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.attention import Attention, attention_scores, attention_weights, visible
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.norm import BatchNorm, LayerNorm, NoNorm, RMSNorm
from glassformer.bricks.pooling import AttentionPool, Pool
from glassformer.bricks.positions import (
    LearnedPositions,
    NoPositions,
    OneHotPositions,
    Rotary,
    SineCosine,
    sine_cosine,
)
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.recurrent_trace import Trace, trace
from glassformer.bricks.residual import Residual
from glassformer.bricks.tap import Tap
from glassformer.encoders.base import Encoder
from glassformer.encoders.convolutional import CnnEncoder
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.encoders.transformer import Block, TransformerEncoder
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens

Make = Callable[[], Tensor]
Found = Iterator[tuple[str, Make]]

SPANNING = (Block, Residual, Attention, FeedForward, Convolution, Pool, AttentionPool, Encoder)
"""Modules whose first input and whose output are recorded."""
GIVING = (LayerNorm, RMSNorm, BatchNorm, NoNorm, Patches, ConvolutionStack)
"""Modules of which only the output is."""
READING = (WordVectors, OneHot, ImageTokens, ColumnTokens, FlatColumns, FlatPixels, MixedTokens)
"""Modules that make vectors of an example."""


class Seen(Mapping[str, Tensor]):
    """What was recorded, by name; of several calls of a model, the last."""

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._only = only
        self._made: dict[str, list[Make]] = {}
        self._known: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        return self._only is None or any(fnmatchcase(name, pattern) for pattern in self._only)

    def keep(self, name: str, make: Make, *, more: bool = False) -> None:
        """`more`: another piece of what is there, further along the tokens."""
        if not self.wants(name):
            return
        self._known.pop(name, None)
        self._made[name] = [*(self._made.get(name, []) if more else []), _as_now(make)]

    def forget(self, prefix: str) -> None:
        for name in [name for name in self if name.startswith(prefix)]:
            del self._made[name]
            self._known.pop(name, None)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._known:
            pieces = [make() for make in self._made[name]]
            self._known[name] = pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        """Names with shapes, a line each."""
        return "\n".join(f"{name}  {'×'.join(map(str, tensor.shape))}" for name, tensor in self.items())


@contextmanager
def capture(model: nn.Module, only: Sequence[str] | None = None) -> Iterator[Seen]:
    """Record what passes through a model while this is open; `only`: patterns of names, such as `*.weights`.

    Any `nn.Module` will do: of one that is not built of these bricks, what its parts give is recorded.
    """
    seen = Seen(only)
    hooks: list[RemovableHandle] = []
    try:
        hooks += _hooks(model, seen)
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _hooks(model: nn.Module, seen: Seen) -> Iterator[RemovableHandle]:
    inside: list[str] = []  # encoders that are at work: what they compute in pieces belongs together

    def watch(module: nn.Module, path: str, find: Callable[..., Found]) -> RemovableHandle:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            for name, make in find(path, module, args, kwargs, output):
                name = name.lstrip(".")  # of what is captured itself
                seen.keep(name, make, more=any(name.startswith(_under(one)) for one in inside))

        return module.register_forward_hook(hook, with_kwargs=True)

    def begin(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            seen.forget(_under(path))
            inside.append(path)

        return hook

    def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        inside.pop()

    ours = False
    for path, module in model.named_modules():
        if isinstance(module, Encoder):
            yield module.register_forward_pre_hook(begin(path))
            yield module.register_forward_hook(end, always_call=True)
        if (find := _finder(module)) is not None:
            ours = True
            name = f"{path}ed" if isinstance(_parent(model, path), Residual) else path  # around_attend.normed
            yield watch(module, name, _itself if name != path else find)
        if isinstance(module, Attention):
            yield from _inside_attention(module, path, seen)
        elif isinstance(module, Tap) and not isinstance(_parent(model, path), Attention):
            yield watch(module, path, _itself)
    if not ours:
        for path, module in model.named_modules():
            if path and not isinstance(module, nn.ModuleList | nn.ModuleDict):
                yield watch(module, path, _given)
    yield watch(model, "logits", _itself)


def _inside_attention(attention: Attention, path: str, seen: Seen) -> Iterator[RemovableHandle]:
    """Every use of the kernel, one token at a time too, passes its taps in one order; the mask comes last."""
    last: dict[str, Tensor] = {}

    def kept(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            last[name] = output
            seen.keep(f"{path}.{name}", lambda: output)

        return hook

    def weigh(module: nn.Module, args: tuple[Any, ...], mask: Tensor | None) -> None:
        queries, keys = last.pop("queries"), last.pop("keys")
        sizes = queries.shape[2], keys.shape[2]
        hidden = visible(*sizes, mask, causal=attention.causal, device=keys.device)

        def scores() -> Tensor:
            made = attention_scores(queries, keys, scale=attention.scale)
            return made if hidden is None else made.masked_fill(~hidden, -torch.inf)

        seen.keep(f"{path}.scores", scores)
        seen.keep(f"{path}.weights", lambda: attention_weights(queries, keys, hidden, scale=attention.scale))

    for name in ("queries", "keys", "values", "mixed"):
        yield getattr(attention, name).register_forward_hook(kept(name))
    yield attention.mask.register_forward_hook(weigh)


def _finder(module: nn.Module) -> Callable[..., Found] | None:
    """What is recorded of a brick."""
    if isinstance(module, Recurrent):
        return _recurrent
    if isinstance(module, SPANNING):
        return _span
    if isinstance(module, GIVING):
        return _given
    if isinstance(module, READING):
        return _vectors
    if isinstance(module, NoPositions | SineCosine | LearnedPositions | OneHotPositions):
        return _positions
    return _rotation if isinstance(module, Rotary) else None


def _itself(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if isinstance(output, Tensor):
        yield path, lambda: output


def _given(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if isinstance(output, Tensor):
        yield f"{path}.output", lambda: output


def _span(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    if args:
        yield f"{path}.input", lambda: args[0]
    yield from _given(path, module, args, kwargs, output)


def _vectors(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Found:
    vectors = output[0] if isinstance(output, tuple) else output
    yield f"{path}.vectors", lambda: vectors


def _positions(path: str, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Found:
    x, index = args
    if isinstance(module, SineCosine):
        yield f"{path}.vectors", lambda: sine_cosine(index, x.shape[-1])
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


def _parent(model: nn.Module, path: str) -> nn.Module:
    return model.get_submodule(path.rpartition(".")[0])


def _under(path: str) -> str:
    """What names of parts begin with."""
    return f"{path}." if path else ""


def _as_now(make: Make) -> Make:
    """To be made later as it would be made now: with a gradient or without."""
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        return make

    def without_gradient() -> Tensor:
        with torch.no_grad():
            return make()

    return without_gradient


def layers_of(seen: Seen, encoder: Encoder, where: str) -> list[tuple[str, Tensor]]:
    """The vectors that go into the first layer of an encoder and come out of each; before the last norm, if any."""
    if isinstance(encoder, TransformerEncoder):
        first, names = "positions.output", [f"blocks.{layer}.output" for layer in range(len(encoder.blocks))]
    elif isinstance(encoder, CnnEncoder):
        first, names = "input", [f"around.{layer}.output" for layer in range(len(encoder.around))]
    elif isinstance(encoder, RecurrentEncoder | RecurrentDecoder):
        first, names = "input", [f"layers.{layer}.states" for layer in range(encoder.layers.cell.num_layers)]
        names[-1] = "layers.output"
    else:
        first, names = "input", ["output"]
    at = _under(where)
    out = [("input", seen[f"{at}{first}"])]
    for layer, name in enumerate(names):
        ways = [f"{at}{name}", f"{at}layers.{layer}.back.states"]
        both = name.endswith(".states") and ways[1] in seen
        out.append((f"layer {layer}", torch.cat([seen[way] for way in ways], -1) if both else seen[ways[0]]))
    return out
