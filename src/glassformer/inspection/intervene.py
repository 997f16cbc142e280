"""Interventions: scale, zero or replace tensors inside a model, by the names under which `capture` records them.

    with gf.intervene(model, {"encoder.blocks.1.attend.mixed": gf.scale(0.5, heads=[3])}):
        model.generate("Once")

`….attend.mixed` is the output of each head before W^O. Changes to `states` and `cells` of a recurrent layer affect
later tokens, changes to its `output` do not.

Positions count from 0 in the model's input, whether the text is processed in one pass or token by token. A change at
position 7 is applied in the step that computes this position. `capture` records the changed tensors, except for scores
and weights of attention, which it computes from queries and keys.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, attend_written_out, attention_scores, visible
from glassformer.bricks.capabilities import capability, parts_with
from glassformer.bricks.tap import Brick, changed_output
from glassformer.config.errors import Misuse, unknown
from glassformer.encoders.base import Encoder, State
from glassformer.families.base import Loaded
from glassformer.inspection.capture import joined, record_itself, recorded_modules, under
from glassformer.inspection.change import Change
from glassformer.models.capabilities import HasDecoder, HasHead, PredictsNext, ScoresTokens
from glassformer.models.cuda_graph import unrecorded

EMPTY = torch.empty(0)


@contextmanager
def intervene(model: nn.Module | Loaded, changes: Mapping[str, Change | Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Change tensors inside a model while this context is open.

    `changes` maps names of captured tensors, or patterns of names (`*.mixed`), to changes. A change is `scale`, `zero`,
    `replace` or any function from a tensor to one of the same shape.
    """
    model = model.model if isinstance(model, Loaded) else model
    with ExitStack() as undo:
        _Intervention(model, undo).begin(changes)
        yield


@dataclass
class _Pass:
    """A call of an encoder on a whole text, or on the tokens that follow those already in its state."""

    path: str
    rows: int
    start: Int[Tensor, "B"] | None = None
    """Number of earlier tokens in each row; None for a whole text."""
    done: dict[str, int] = field(default_factory=dict)
    """Number of tokens processed so far, by name; some modules process them in pieces."""


class _Intervention:
    """The changes of a model by full name, and the position in the text that it is computing."""

    def __init__(self, model: nn.Module, undo: ExitStack) -> None:
        self.model, self.undo = model, undo
        self.changes: dict[str, Change] = {}
        self.passes: list[_Pass] = []
        self.reached: dict[str, tuple[_Pass, int]] = {}
        """Number of tokens processed after the current call, by name."""
        self.piece: tuple[Int[Tensor, "B T"], Int[Tensor, "B"]] | None = None
        """Positions of the tokens that were read last, and of the last token of each row; None for a whole text."""

    def begin(self, changes: Mapping[str, Change | Callable[[Tensor], Tensor]]) -> None:
        spots = [
            (*spot, [joined(spot.path, name) for name, _ in spot.record(spot.module, (EMPTY, EMPTY), EMPTY)])
            for spot in recorded_modules(self.model)
        ]
        inside = list(parts_with(self.model, Attention))
        names = ["logits", *(name for *_, own in spots for name in own)]
        names += [joined(path, name) for path, module in inside for name in module.names_inside]
        for said, change in changes.items():
            matching = [name for name in names if fnmatchcase(name, said)]
            if not matching:
                raise Misuse(unknown("name", said, names))
            change = change if isinstance(change, Change) else Change(change)
            self.changes |= {} if change.is_nothing else dict.fromkeys(matching, change)
        if not self.changes:
            return
        self.undo.enter_context(unrecorded())
        for module, path, record, own in spots:
            if any(name in self.changes for name in own):
                itself = record is record_itself  # Then the parent module knows the number of heads.
                owner = self.model.get_submodule(path.rpartition(".")[0]) if itself else module
                self._change(module, _Part(self, path, owner), itself=itself)
        for path, module in inside:
            for name in ("queries", "keys", "values", "mixed"):
                if joined(path, name) in self.changes:
                    self._change(getattr(module, name), _Part(self, joined(path, name), module), itself=True)
            self._change_weights(module, _Part(self, path, module))
        if "logits" in self.changes:
            known = capability(self.model, HasHead)
            last: nn.Module = self.model if known is None else known.head
            self._change(last, _Part(self, "logits", last), itself=True)
        self._follow_positions()

    # --- changing outputs of modules ---

    def _change(self, module: nn.Module, change: "_Part", *, itself: bool) -> None:
        """Change the tensors of a module; with `itself`, its output is recorded under the name of the module."""
        brick = capability(module, Brick)

        def output(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            if itself:
                output = change("", output)
            elif brick is not None:
                output = brick.changed(args, output, change)
            else:
                output = changed_output(output, change)
            return self._settled(output)

        def piece(original: Callable[..., Any], x: Tensor, *args: Any, **more: Any) -> Any:
            # The call on a whole text works in pieces through this method, and its own hook makes the change.
            if any(one.path == change.path and one.start is None for one in self.passes):
                return original(x, *args, **more)
            return self._settled(changed_output(original(change("input", x), *args, **more), change))

        def first(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (self._settled(change("input", args[0])), *args[1:])

        # The change comes before other hooks, so that `capture` records the changed tensor.
        self.undo.callback(module.register_forward_hook(output, prepend=True).remove)
        if itself or brick is None:
            return
        if change.wants("input"):
            self.undo.callback(module.register_forward_pre_hook(first).remove)
        for method in brick.own_incremental_methods():
            self._wrap(module, method, piece)

    def _change_weights(self, module: Attention, change: "_Part") -> None:
        """Change scores or weights of attention, and compute its output by the written-out formula.

        The fused kernel exposes neither.
        """
        if not change.wants("scores") and not change.wants("weights"):
            return
        last: dict[str, Any] = {}

        def remember(name: str) -> Callable[..., None]:
            return lambda tap, args, output: last.update({name: output})

        def mix(tap: nn.Module, args: Any, mixed: Tensor) -> Tensor:
            queries, keys, values, mask = (last.pop(name) for name in ("queries", "keys", "values", "mask"))
            scores = attention_scores(queries, keys, scale=module.scale)
            seen = visible(queries.shape[2], keys.shape[2], mask, causal=module.causal, device=keys.device)
            hidden = torch.zeros_like(scores, dtype=torch.bool) if seen is None else ~seen.expand_as(scores)
            scores = scores.masked_fill(hidden, -torch.inf)
            plain = scores.softmax(-1).nan_to_num(0.0)
            scores = change("scores", scores).masked_fill(hidden, -torch.inf)
            weights = change("weights", scores.softmax(-1).nan_to_num(0.0)).masked_fill(hidden, 0.0)
            self._settled(weights)
            same = (weights == plain).all(-1, keepdim=True)
            return torch.where(same, mixed, attend_written_out(weights, values).to(mixed.dtype))

        for name in ("queries", "keys", "values", "mask"):
            self.undo.callback(getattr(module, name).register_forward_hook(remember(name)).remove)
        self.undo.callback(module.mixed.register_forward_hook(mix, prepend=True).remove)

    def _wrap(self, module: object, method: str, around: Callable[..., Any]) -> None:
        """Replace a method of one module by `around`, whose first argument is the method."""
        before, original = vars(module).get(method), getattr(module, method)
        setattr(module, method, partial(around, original))
        self.undo.callback(partial(setattr, module, method, before) if before else partial(delattr, module, method))

    # --- tracking positions in a text ---

    def _follow_positions(self) -> None:
        for path, encoder in parts_with(self.model, Encoder):
            self.undo.callback(encoder.register_forward_pre_hook(partial(self._enter, path), prepend=True).remove)
            self.undo.callback(encoder.register_forward_hook(self._leave, always_call=True).remove)
            self._wrap(encoder, "init_state", self._count)
        for kind in (Encoder, PredictsNext, HasDecoder):
            for path, part in parts_with(self.model, kind):
                self._wrap(part, "extend", partial(self._extend, path))

    def _enter(self, path: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.passes.append(_Pass(path, len(args[0])))
        self.piece = None

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        done = self.passes.pop().done
        if output is not None:  # The output is None if the call raised an error.
            for name, tokens in done.items():
                self.changes[name].check(name, tokens, -2)

    def _count(self, original: Callable[..., State], batch: int, *args: Any, **more: Any) -> State:
        return _count_tokens(original(batch, *args, **more), torch.zeros(batch, dtype=torch.long))

    def _extend(
        self, path: str, original: Callable[..., Tensor], x: Tensor, state: Any, mask: Tensor | None = None
    ) -> Tensor:
        if any(one.path == path and one.start is None for one in self.passes):
            return original(x, state, mask)
        if "read" not in vars(state):
            self._adopt(state, len(x))
        start = state.read
        self.passes.append(_Pass(path, len(x), start))
        try:
            given = original(x, state, mask)
        finally:
            self.passes.pop()
        state.read = start + (x.shape[1] if mask is None else mask.sum(1).cpu())
        self.piece = start.unsqueeze(1) + torch.arange(x.shape[1]), state.read - 1
        return given

    def _adopt(self, state: Any, rows: int) -> None:
        """Count the tokens of a state that was created before the intervention, and disable its fused step."""
        lengths = vars(state).get("lengths")
        if lengths is None and any(change.positions is not None for change in self.changes.values()):
            raise Misuse("this text was begun before the change of some positions: begin it while the change is there")
        _count_tokens(state, torch.zeros(rows, dtype=torch.long) if lengths is None else lengths.clone().cpu())
        state.fused = None

    def change(self, name: str, owner: nn.Module, tensor: Tensor, at: int) -> Tensor:
        change, whole = self.changes[name], tensor
        if name == "logits" and tensor.dim() == 2 and capability(self.model, ScoresTokens) is not None:
            if self.piece is None and change.positions is not None:
                raise Misuse("these logits are of some places of a text alone: a change of them takes no positions")
            whole = tensor.unsqueeze(1)
        axis = _token_axis(name, whole)
        heads = whole.shape[1] if whole.dim() == 4 else getattr(owner, "heads", None)
        place = torch.zeros(1, 0, dtype=torch.long) if axis is None else self._place(name, whole, axis, at)
        return change.apply(name, whole, axis, place.to(whole.device), heads).view_as(tensor)

    def _place(self, name: str, tensor: Tensor, axis: int, at: int) -> Int[Tensor, "R n"]:
        """Return the position of each token in a tensor, for each row or in a single row for all."""
        count = tensor.shape[axis]
        if name == "logits" and self.piece is not None:
            tokens, last = self.piece
            return tokens if tokens.shape[1] == count > 1 else last.unsqueeze(1)
        within = next((one for one in reversed(self.passes) if name.startswith(under(one.path))), None)
        # Keys and values hold all tokens so far, not only the new ones.
        if within is None or name.endswith((".keys", ".values")):
            if within is None or within.start is None:
                self.changes[name].check(name, count, axis)
            return torch.arange(count).unsqueeze(0)
        rows = within.rows if tensor.dim() + axis == 0 else len(tensor)
        share = within.rows // rows  # Rows that attend to the same source are merged into one.
        new = count // share
        before = within.done.get(name, 0) + at
        self.reached[name] = within, max(self.reached.get(name, (within, 0))[1], before + new)
        places = before + torch.arange(count) % new
        if within.start is None:
            return places.unsqueeze(0)
        return within.start.view(rows, share).repeat_interleave(new, 1) + places

    def _settled(self, output: Any) -> Any:
        """Return an output after its changes, and store how many tokens each tensor has now processed."""
        for name, (within, reached) in self.reached.items():
            within.done[name] = reached
        self.reached.clear()
        return output


@dataclass(frozen=True)
class _Part:
    """The changes of the tensors that one module records."""

    of: _Intervention
    path: str
    owner: nn.Module

    def wants(self, name: str) -> bool:
        return joined(self.path, name) in self.of.changes

    def __call__(self, name: str, tensor: Tensor, at: int = 0) -> Tensor:
        return self.of.change(joined(self.path, name), self.owner, tensor, at) if self.wants(name) else tensor


def _count_tokens(state: Any, read: Int[Tensor, "B"]) -> State:
    """Return a state that counts the tokens `read` in each row, as do all states made from it."""
    if "read" not in vars(state):

        def made_from(original: Callable[..., State], rows_read: Callable[[Any, Any], Tensor], rows: Any) -> State:
            before = state.read  # `original` may change it.
            return _count_tokens(original(rows), rows_read(before, rows))

        def put(original: Callable[..., None], rows: Tensor, other: Any) -> None:
            original(rows, other)
            state.read = state.read.index_copy(0, rows.cpu(), other.read)

        state.put = partial(put, state.put)
        state.expand_beams = partial(made_from, state.expand_beams, torch.Tensor.repeat_interleave)
        for method in ("select", "reorder"):
            setattr(state, method, partial(made_from, getattr(state, method), lambda before, rows: before[rows.cpu()]))
    state.read = read
    counted: State = state
    return counted


def _token_axis(name: str, tensor: Tensor) -> int | None:
    """Return the axis of the tokens; None if the tensor has none."""
    if tensor.dim() > 2 or name.endswith((".vectors", ".cos", ".sin")):
        return -2
    return -1 if name.endswith("weights") else None
