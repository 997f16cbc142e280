"""Capture: record tensors inside a model by name, without changing what it computes.

| name | tensor |
|---|---|
| `embed.vectors` | word vectors; in a translator `embed_source.vectors`, `embed_target.vectors` |
| `encoder.input`, `encoder.output` | input and output of an encoder; a translator also has a `decoder` |
| `encoder.positions.vectors`, `.output` | position vectors, and their sum with the word vectors |
| `encoder.rotary.cos`, `.sin` | cosines and sines of rotary positions |
| `encoder.embed_norm.output` | input of the first block: the sum, normalised if the encoder has this norm |
| `encoder.blocks.N.input`, `.output` | input and output of a Transformer block |
| `encoder.blocks.N.attend.queries`, `.keys`, `.values`, `.scores`, `.weights` | attention, per head |
| `encoder.blocks.N.attend.mixed` | output of each head, before the output projection |
| `decoder.blocks.N.cross_attention.…` | the same tensors of cross-attention |
| `….attend.input`, `.output`, `….feed.input`, `.active`, `.output` | the parts of a block |
| `….around_attend.input`, `.normed`, `.output` | residual and norm around a part |
| `encoder.convolutions.N.input`, `.output`, `encoder.around.N.output` | convolutions |
| `encoder.layers.N.states`, `.cells`, `.gates.i`, `….back.states` | recurrent layers; `back`: backward direction |
| `decoder.attention.scores`, `.weights` | a recurrent decoder's attention to the source |
| `pool.input`, `pool.weights`, `pool.output`, `logits` | pooling and the scores of the model |

Taps and module hooks record the tensors of the model itself, so that gradients flow through them. Scores, weights,
states and gates are computed from recorded tensors on first access, by the written-out formula.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.capabilities import capability
from glassformer.bricks.tap import Brick, Make, Recorded, RecordsInside, Tap, record_output
from glassformer.encoders.base import Encoder
from glassformer.models.capabilities import LayerOutputs

CONTAINERS = (nn.ModuleList, nn.ModuleDict)
"""Modules that only hold other modules and compute nothing."""
INPUT, OUTPUT = "embedding", "output"
"""Names for the input of the first layer of an encoder, and for its output."""

Record = Callable[[Any, tuple[Any, ...], Any], Recorded]
"""Function from a module, its arguments and its output to the tensors to record."""


class Seen(Mapping[str, Tensor]):
    """Recorded tensors by name. Each call of the model replaces the tensors of the call before it."""

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._only = only
        self._beginnings = [re.split(r"[*?[]", pattern, maxsplit=1)[0] for pattern in only or ()]
        self._made: dict[str, list[Make]] = {}
        self._known: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        """Return whether `only` selects a tensor of this name."""
        return self._only is None or any(fnmatchcase(name, pattern) for pattern in self._only)

    def wants_inside(self, path: str) -> bool:
        """Return whether `only` may select a name that begins with this path."""
        return self._only is None or any(
            path.startswith(beginning) or beginning.startswith(path) for beginning in self._beginnings
        )

    def keep(self, name: str, make: Make, *, more: bool = False) -> None:
        """Record the tensor that `make` returns; with `more`, append it to the recorded one along the token axis."""
        if not self.wants(name):
            return
        if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            make = torch.no_grad()(make)  # The tensor is computed later, when gradients may be enabled again.
        self._known.pop(name, None)
        self._made[name] = [*(self._made.get(name, []) if more else []), make]

    def forget(self, prefix: str) -> None:
        """Remove all tensors whose names begin with a prefix."""
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
        """Return one line per tensor, with its name and shape."""
        return "\n".join(f"{name}  {'×'.join(map(str, tensor.shape))}" for name, tensor in self.items())


@contextmanager
def capture(model: nn.Module, only: Sequence[str] | None = None) -> Iterator[Seen]:
    """Record tensors inside any `nn.Module` while this context is open.

    `only` lists patterns of names, such as `*.weights`; None records everything. The output of a module that is not a
    brick is recorded as `PATH.output`.
    """
    seen = Seen(only)
    with ExitStack() as hooks:
        for hook in _hooks(model, seen):
            hooks.callback(hook.remove)
        yield seen


def _hooks(model: nn.Module, seen: Seen) -> Iterator[RemovableHandle]:
    # Paths of the encoders that are being called. Tensors that one call computes in pieces are concatenated.
    at_work: list[str] = []

    def watch(module: nn.Module, path: str, record: Record) -> RemovableHandle:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            for name, make in record(module, args, output):
                whole = joined(path, name)
                seen.keep(whole, make, more=any(whole.startswith(under(encoder)) for encoder in at_work))

        return module.register_forward_hook(hook)

    def keep_inside(path: str, name: str, make: Make) -> None:
        seen.keep(joined(path, name), make)

    def wants_inside(path: str, name: str) -> bool:
        return seen.wants(joined(path, name))

    def begin(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            seen.forget(under(path))
            at_work.append(path)

        return hook

    def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        at_work.pop()

    spots = {id(spot.module): spot for spot in recorded_modules(model)}
    for path, module in model.named_modules():
        if capability(module, Encoder) is not None:
            yield module.register_forward_pre_hook(begin(path))
            yield module.register_forward_hook(end, always_call=True)
        if id(module) in spots and seen.wants_inside(spots[id(module)].path):
            yield watch(*spots[id(module)])
        if seen.wants_inside(path) and (recorder := capability(module, RecordsInside)) is not None:
            yield from recorder.record_inside(partial(keep_inside, path), partial(wants_inside, path))
    yield watch(model, "logits", record_itself)


class Spot(NamedTuple):
    """A module to record, the prefix of its names, and the function that records it."""

    module: nn.Module
    path: str
    record: Record


def recorded_modules(model: nn.Module) -> Iterator[Spot]:
    """Yield all modules to record, except the model itself and tensors that a module records inside itself."""
    opaque: dict[str, bool] = {}  # Whether plain modules below a path are left unrecorded.
    modules: dict[str, Any] = dict(model.named_modules())
    for path, module in modules.items():
        above, _, part = path.rpartition(".")
        parent = modules[above] if path else None
        outer, record = capability(parent, Brick), type(module).record if capability(module, Brick) else None
        hidden = opaque.get(above, False)
        opaque[path] = getattr(type(module), "opaque", hidden)
        if record is not None and outer is not None and part in outer.part_names:
            yield Spot(module, joined(above, outer.part_names[part]), record_itself)
        elif record is not None:
            yield Spot(module, path, record)
        elif capability(module, Tap) is not None and capability(parent, RecordsInside) is None:
            yield Spot(module, path, record_itself)
        elif path and not hidden and not isinstance(module, CONTAINERS):
            yield Spot(module, path, record_output)


def record_itself(module: nn.Module, args: tuple[Any, ...], output: Any) -> Recorded:
    """Yield the output of a module under the name of the module."""
    if isinstance(output, Tensor):
        yield "", lambda: output


def joined(path: str, name: str) -> str:
    """Return a name prefixed with the path of its module."""
    return ".".join(part for part in (path, name) if part)


def under(path: str) -> str:
    """Return the prefix of all names below a path."""
    return f"{path}." if path else ""


# --- layer by layer ---


def layers_of(seen: Seen, encoder: Encoder, where: str) -> list[tuple[str, Tensor]]:
    """Return the input of the first layer of an encoder and the output of each layer, by name.

    The output of the last layer is the one before any final norm.
    """
    out = []
    for number, names in enumerate(encoder.layer_outputs()):
        parts = [seen[f"{where}.{name}" if where else name] for name in names]
        out.append((f"layer {number - 1}" if number else INPUT, parts[0] if len(parts) == 1 else torch.cat(parts, -1)))
    return out


def vectors_by_layer(
    model: LayerOutputs, where: str, inputs: Sequence[Any]
) -> list[tuple[str, Float[Tensor, "B T _"]]]:
    """Return the vectors before the first layer, after each layer, and the output, by name.

    `where` is `encoder` or `decoder`.
    """
    assert isinstance(model, nn.Module)
    encoder: Encoder = getattr(model, where)
    names = ["output", *(name for names in encoder.layer_outputs() for name in names)]
    with capture(model, [f"{where}.{name}" for name in names]) as seen:
        (model.states if where == "encoder" else model.features)(*inputs)
    return [*layers_of(seen, encoder, where), (OUTPUT, seen[f"{where}.output"])]


def numbers_of(tensor: Tensor) -> NDArray[np.float32]:
    """Return a tensor as a float32 array on the CPU, detached."""
    return tensor.detach().float().cpu().numpy()
