"""Record every call of PyTorch inside a student's brick, and find the first wrong tensor."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.bricks.tap import Tap
from glassformer.teaching.brick_check.contract import Contract
from glassformer.teaching.brick_check.names import Role
from glassformer.teaching.brick_check.steps import Stages
from glassformer.teaching.exercise import TOLERANCE, first_apart

PRODUCTS = ("matmul", "__matmul__", "mm", "bmm", "dot", "mv")
HIDDEN_SCORE = -1e4
"""Threshold below which scores count as −∞."""


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


class Watch(TorchFunctionMode):
    """Recorder of the inputs and outputs of each weight and softmax, and of all computed tensors."""

    def __init__(self, roles: Mapping[int, Role]) -> None:
        """Prepare a recorder. `roles` maps the id of a parameter to its role."""
        super().__init__()
        self.roles = dict(roles)
        self.after: dict[str, dict[int, Tensor]] = {}
        self.into: dict[str, Tensor] = {}
        self.softmaxes: list[tuple[Tensor, Tensor]] = []
        self.calls: dict[str, list[Tensor]] = {}
        """Results of all calls, by function name."""
        self.turned: dict[int, bool] = {}
        """Whether the first use of a parameter is x W instead of x Wᵀ, by parameter id."""
        self._exponentials: set[int] = set()
        self._kept: list[Tensor] = []

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        given = list(_tensors([*args, *(kwargs or {}).values()]))
        self._note_use(name, args, given)
        for tensor in _tensors([out]):
            if tensor.is_floating_point():
                self._note(name, given, tensor)
        return out

    def _note(self, name: str, given: list[Tensor], out: Tensor) -> None:
        copy = out.detach().clone()
        self.calls.setdefault(name, []).append(copy)
        self._kept.append(out)
        if name == "softmax":
            self.softmaxes.append((given[0].detach().clone(), copy))
        elif name == "exp":
            self._exponentials.add(id(out))
        elif name in ("div", "true_divide", "__truediv__", "divide") and id(given[0]) in self._exponentials:
            self.softmaxes.append((torch.full_like(copy, torch.nan), copy))
        known = [tensor for tensor in given if id(tensor) in self.roles]
        if not known or len(known) == len(given):
            if known and out.numel() == known[0].numel() and out.data_ptr() == known[0].data_ptr():
                self.roles[id(out)] = self.roles[id(known[0])]  # a transpose or another view of the weight
            return
        role = self.roles[id(known[0])]
        other = next(tensor for tensor in given if id(tensor) not in self.roles)
        parts = copy.chunk(len(role.names), -1) if len(role.names) > 1 else (copy,)
        for one, part in zip(role.names, parts, strict=False):
            self.after.setdefault(one.replace("b_", "w_"), {})[role.part] = part
            self.into.setdefault(one, other.detach().clone())

    def _note_use(self, name: str, args: Any, given: list[Tensor]) -> None:
        for place, tensor in enumerate(given):
            if isinstance(tensor, nn.Parameter) and tensor.dim() == 2:
                turned = (place == 1 and name in PRODUCTS) or (place == 2 and name == "addmm")
                if name == "einsum" and isinstance(args[0], str) and "->" in args[0]:
                    before, after = args[0].replace(" ", "").split("->")
                    turned = before.split(",")[place][0] not in after
                self.turned.setdefault(id(tensor), turned)

    def has_made(self, stage: Tensor) -> bool:
        """Return whether any computed tensor equals a stage."""
        return any(alike(stage, made)[0] for calls in self.calls.values() for made in calls)

    def stage(self, source: str) -> Tensor | None:
        """Return the tensor at a source, in the notation of `Contract.sources`; None if there is none."""
        which, _, name = source.rpartition(" ")
        if name == "softmax":
            pairs = [pair[0 if which == "into" else 1] for pair in self.softmaxes]
            if not pairs or any(one.shape != pairs[0].shape for one in pairs) or pairs[0].isnan().all():
                return None
            return pairs[0] if len(pairs) == 1 else torch.stack(pairs, 1)
        if which == "into":
            return self.into.get(name)
        calls = self.calls.get(name, [])
        if name == "variance":  # computed by var, by std, or as the second of two means
            squares = [one.square() for one in self.calls.get("std", [])]
            calls = [*self.calls.get("var", []), *squares, *self.calls.get("mean", [])[1:2]]
        if calls:
            return calls[-1 if which == "last" else 0]
        parts = self.after.get(source)
        return None if parts is None else torch.cat([parts[number] for number in sorted(parts)], -1)


def tapped(module: nn.Module, seen: dict[str, Tensor]) -> list[Any]:
    """Register hooks that record the outputs of a module's taps in `seen`, by name. Return the hooks."""

    def record(name: str) -> Callable[..., None]:
        def hook(tap: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                seen[name] = output.detach().clone()

        return hook

    taps = ((name.rpartition(".")[2], part) for name, part in module.named_modules() if isinstance(part, Tap))
    return [part.register_forward_hook(record(name)) for name, part in taps]


# --- the first wrong tensor ---


def alike(expected: Tensor, given: Tensor) -> tuple[bool, Tensor | None]:
    """Compare two tensors, with axes in any order.

    Return whether they agree, and the given tensor in the expected shape; None if the shape does not fit.
    """
    expected, given = _hidden(expected.detach()), _hidden(given.detach())
    if given.numel() != expected.numel():
        return False, None
    forms = [given.reshape(expected.shape)] if given.dim() != expected.dim() else []
    if given.shape == expected.shape:
        forms = [given]
    elif given.dim() == expected.dim():
        turned = (given.permute(axes) for axes in itertools.permutations(range(given.dim())))
        forms = [form for form in turned if form.shape == expected.shape]
    for form in forms:
        if _first_apart(expected, form) is None:
            return True, form
    return False, forms[0] if forms else None


def _hidden(scores: Tensor) -> Tensor:
    return scores.masked_fill(scores < HIDDEN_SCORE, -torch.inf)


def _first_apart(expected: Tensor, given: Tensor) -> list[int] | None:
    """Return the first index where two tensors differ, ignoring places where nan is expected; None if they agree."""
    return first_apart(expected, torch.where(expected.isnan(), expected, given), TOLERANCE)


class FirstWrong(NamedTuple):
    """First wrong stage; empty if all stages are right."""

    words: str = ""
    stage: str = ""
    given: Tensor | None = None
    """The student's tensor, in the expected shape."""


def first_wrong(
    contract: Contract, expected: Stages, seen: Mapping[str, Tensor], watch: Watch, output: Tensor
) -> FirstWrong:
    if contract.searched:
        return _first_along(contract, expected, watch, output)
    right: list[str] = []
    for name, stage in expected.items():
        given = output if name == "output" else seen.get(name)
        if given is None and name in contract.sources:
            given = watch.stage(contract.sources[name])
        if given is None:
            if watch.has_made(stage):
                right.append(name)
            continue
        same, form = alike(stage, given)
        weighed = contract.sources.get(name, "").startswith("into ") and name not in ("scores", "output")
        if same or (weighed and watch.has_made(stage)):
            right.append(name)
            continue
        if form is None:
            is_, should = ("×".join(map(str, one.shape)) or "one number" for one in (given, stage))
            return FirstWrong(f"{name} is {is_}, and {should} is right{_after(right)}", name)
        place = _first_apart(stage, form)
        words = f"{name}{place or ''} {_differing(form, stage, place or [])}{_after(right)}"
        return FirstWrong(words, name, form)
    return FirstWrong()


def _first_along(contract: Contract, expected: Stages, watch: Watch, output: Tensor) -> FirstWrong:
    """Compare token by token. A gate or cell is right if any computed tensor equals it."""
    written_out = watch.calls.keys() & {"sigmoid", "tanh", "sigmoid_", "tanh_"}
    for t in range(output.shape[1]):
        right: list[str] = []
        for name, whole in expected.items():
            stage, place = whole[:, t], [0, t, 0]
            if name == "state":
                apart = _first_apart(stage, output[:, t])
                if apart is not None:
                    place = [apart[0], t, apart[1]]
                    return FirstWrong(f"{name}{place} {_differing(output, whole, place)}{_after(right)}", name)
            elif name in contract.searched and written_out:
                if not watch.has_made(stage):
                    right_number = f"{float(whole[tuple(place)]):.3g}"
                    return FirstWrong(f"{name}{place} should be {right_number}, and never is{_after(right)}", name)
                right.append(name)
    return FirstWrong()


def _differing(given: Tensor, right: Tensor, place: list[int]) -> str:
    """Return a text such as `is 0.412, and 0.217 is right`, with enough digits to show the difference."""
    values = [float(one[tuple(place)]) for one in (given, right)]
    digits = next((digits for digits in range(3, 9) if len({f"{one:.{digits}g}" for one in values}) > 1), 9)
    is_, should = (f"{one:.{digits}g}".replace("inf", "∞").replace("-", "−") for one in values)
    return f"is {is_}, and {should} is right"


def _after(right: list[str]) -> str:
    return f"; everything before it ({', '.join(right)}) is right" if right else ""
