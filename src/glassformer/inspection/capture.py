"""Capture: what passes through a model, by name, while it computes what it always computes.

| name | what |
|---|---|
| `embed.vectors` | word vectors; a translator's `embed_source.vectors`, `embed_target.vectors` |
| `encoder.input`, `encoder.output` | what an encoder reads and gives; a translator has a `decoder` too |
| `encoder.positions.vectors`, `.output` | what is added for positions, and the sum; `encoder.rotary.cos`, `.sin` |
| `encoder.embed_norm.output` | the norm of that sum, or the sum: what the first block reads |
| `encoder.blocks.N.input`, `.output` | around a block of a Transformer |
| `encoder.blocks.N.attend.queries`, `.keys`, `.values`, `.scores`, `.weights`, `.mixed` | attention; what heads found |
| `decoder.blocks.N.cross_attention.…` | the same of attention to the source |
| `….attend.input`, `.output`, `….feed.input`, `.active`, `.output` | the parts of a block |
| `….around_attend.input`, `.normed`, `.output` | residual and norm around a part |
| `encoder.convolutions.N.input`, `.output`, `encoder.around.N.output` | convolutions |
| `encoder.layers.N.states`, `.cells`, `.gates.i`, `….back.states` | recurrent layers; `back`: the way backwards |
| `decoder.attention.scores`, `.weights` | a recurrent decoder's attention to the source |
| `pool.input`, `pool.weights`, `pool.output`, `logits` | the end |

Taps and module hooks record tensors as they are, gradients and all. Scores, weights, states and gates are made beside
them when they are asked for, by the written-out formula.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.tap import Make
from glassformer.encoders.base import Encoder
from glassformer.inspection.recorders import hooks_of
from glassformer.models.weights import current_name, former_name


class Seen(Mapping[str, Tensor]):
    """What was recorded, by name; of several calls of a model, the last."""

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._only = only
        self._made: dict[str, list[Make]] = {}
        self._known: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        """By its name now, or by one that it had."""
        names = {name, former_name(name)}
        return self._only is None or any(fnmatchcase(name, pattern) for pattern in self._only for name in names)

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
        name = name if name in self._made else current_name(name)
        if name not in self._known:
            pieces = [make() for make in self._made[name]]
            self._known[name] = pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._made or current_name(name) in self._made)

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

    Any `nn.Module` will do: of its parts that are none of these bricks, what they give is recorded (`PATH.output`).
    """
    seen = Seen(only)
    hooks: list[RemovableHandle] = []
    try:
        hooks += hooks_of(model, seen)
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


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
    out = []
    for number, names in enumerate(encoder.layer_outputs()):
        parts = [seen[f"{where}.{name}" if where else name] for name in names]
        out.append(
            (f"layer {number - 1}" if number else "input", parts[0] if len(parts) == 1 else torch.cat(parts, -1))
        )
    return out
