"""Capture: what passes through a model, by name, while it computes what it always computes.

| name | what |
|---|---|
| `embed.vectors` | word vectors; a translator's `embed_source.vectors`, `embed_target.vectors` |
| `encoder.input`, `encoder.output` | what an encoder reads and gives; a translator has a `decoder` too |
| `encoder.positions.vectors`, `.output` | what is added for positions, and the sum; `encoder.rotary.cos`, `.sin` |
| `encoder.embed_norm.output` | the norm of that sum, or the sum: what the first block reads |
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
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.bricks.attention import Attention, attention_scores, attention_weights, visible
from glassformer.bricks.residual import Residual
from glassformer.bricks.tap import Tap
from glassformer.encoders.base import Encoder
from glassformer.encoders.convolutional import CnnEncoder
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.recorders import Make, Recorder, given, itself, recorder_of
from glassformer.models.reader import Reader
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.token_model import TokenModel

MODELS = (TokenModel, Reader, Seq2Seq)
"""Built of bricks: of what is inside, only these are recorded."""
CONTAINERS = (nn.ModuleList, nn.ModuleDict)
"""They compute nothing."""


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

    Any `nn.Module` will do: of its parts that are none of these bricks, what they give is recorded (`PATH.output`).
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

    def watch(module: nn.Module, path: str, find: Recorder) -> RemovableHandle:
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

    ours: list[str] = []  # bricks and models: what is inside them is recorded by name, or not at all
    for path, module in model.named_modules():
        parent, recorder = _parent(model, path), recorder_of(module)
        within = any(path.startswith(_under(one)) for one in ours)
        if isinstance(module, Encoder):
            yield module.register_forward_pre_hook(begin(path))
            yield module.register_forward_hook(end, always_call=True)
        if recorder is not None and isinstance(parent, Residual):
            yield watch(module, f"{path}ed", itself)  # around_attend.normed
        elif recorder is not None:
            yield watch(module, path, recorder)
        elif isinstance(module, Tap) and not isinstance(parent, Attention):
            yield watch(module, path, itself)
        elif path and not within and not isinstance(module, CONTAINERS):
            yield watch(module, path, given)
        if isinstance(module, Attention):
            yield from _inside_attention(module, path, seen)
        if recorder is not None or isinstance(module, MODELS):
            ours.append(path)
    yield watch(model, "logits", itself)


def _inside_attention(attention: Attention, path: str, seen: Seen) -> Iterator[RemovableHandle]:
    """Every use of the kernel, one token at a time too, passes its taps in one order; the mask comes last."""
    at = _under(path)
    last: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda module, args, output: seen.keep(f"{at}{name}", lambda: output)

    def remember(name: str) -> Callable[..., None]:
        return lambda module, args, output: last.update({name: output})

    def weigh(module: nn.Module, args: tuple[Any, ...], mask: Tensor | None) -> None:
        queries, keys = last.pop("queries"), last.pop("keys")
        allowed = visible(queries.shape[2], keys.shape[2], mask, causal=attention.causal, device=keys.device)

        def scores() -> Tensor:
            made = attention_scores(queries, keys, scale=attention.scale)
            return made if allowed is None else made.masked_fill(~allowed, -torch.inf)

        seen.keep(f"{at}scores", scores)
        seen.keep(f"{at}weights", lambda: attention_weights(queries, keys, allowed, scale=attention.scale))

    for name in ("queries", "keys", "values", "mixed"):
        yield getattr(attention, name).register_forward_hook(keep(name))
    if seen.wants(f"{at}scores") or seen.wants(f"{at}weights"):
        yield attention.queries.register_forward_hook(remember("queries"))
        yield attention.keys.register_forward_hook(remember("keys"))
        yield attention.mask.register_forward_hook(weigh)


def _parent(model: nn.Module, path: str) -> nn.Module | None:
    return model.get_submodule(path.rpartition(".")[0]) if path else None


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
        first, names = "embed_norm.output", [f"blocks.{layer}.output" for layer in range(len(encoder.blocks))]
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
