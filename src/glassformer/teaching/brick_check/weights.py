"""A student's weights by the names of ours: by what people call them, in one matrix or several, turned or not."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.teaching.exercise import StudentError

NOISE = frozenset(
    [
        "w",
        "weight",
        "weights",
        "proj",
        "projection",
        "linear",
        "lin",
        "fc",
        "to",
        "layer",
        "map",
        "matrix",
        "mat",
        "net",
        "b",
        "bias",
        "dense",
        "c",
        "the",
        "my",
    ]
)
"""Words of a name that do not say which weight it is."""
FUSED = {
    "qkv": "qkv",
    "kqv": "kqv",
    "in": "qkv",
    "attn": "qkv",
    "query_key_value": "qkv",
    "kvq": "kvq",
    "qvk": "qvk",
    "kv": "kv",
    "vk": "vk",
    "key_value": "kv",
}
"""Names of a matrix that combines several matrices, and their order in it."""


@dataclass(frozen=True)
class Weight:
    """A weight of the reference."""

    name: str
    called: str
    """What is said of it: `query`."""
    aliases: Sequence[str]
    bias: str = ""
    """The name of its bias, where it may have one."""
    needed: Callable[[Mapping[str, Any]], bool] = lambda options: True
    shape: Callable[[Mapping[str, Any]], tuple[int, ...]] | None = None

    def in_words(self) -> dict[str, str]:
        """What it and its bias are called."""
        return {self.name: self.called, self.bias: f"{self.called} bias"}


@dataclass(frozen=True)
class Role:
    """What a parameter is: weights of the reference that stand in it side by side, or one part of such."""

    names: tuple[str, ...]
    part: int = 0


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Bridge:
    """From the student's parameters, or their gradients, to those of the reference."""

    read: Callable[[Tensors], dict[str, Tensor | None]]
    roles: Mapping[str, Role] = field(default_factory=dict)
    """By the student's names."""


def read_by_name(module: nn.Module, wanted: Sequence[Weight], options: Mapping[str, Any], turned: set[str]) -> Bridge:
    """`turned`: parameters that are used as x W, not as x Wᵀ."""
    found: dict[str, list[str]] = {}
    left = []
    order = "qkv"
    for name, parameter in module.named_parameters():
        place, letters = _place(name, parameter, wanted)
        order = letters or order
        if place is None:
            left.append(name)
        else:
            found.setdefault(place, []).append(name)
    fused = "fused" in found
    missing = [
        weight
        for weight in wanted
        if weight.needed(options) and weight.name not in found and not (fused and weight.name[-1] in order)
    ]
    if len(missing) == 1 and left and len({name.removesuffix(".weight").removesuffix(".bias") for name in left}) == 1:
        weight = missing.pop()  # who else could it be
        for name in left:
            found[weight.bias if name.endswith(".bias") and weight.bias else weight.name] = [name]
        left = []
    if missing or left:
        raise StudentError(_unmapped(module, wanted, options, missing, left))
    roles = {name: Role((place,), part) for place, names in found.items() for part, name in enumerate(names)}
    for place in ("fused", "fused bias"):
        for name in found.get(place, []):
            roles[name] = Role(tuple(f"{'b' if 'bias' in place else 'w'}_{letter}" for letter in order))

    def read(tensors: Tensors) -> dict[str, Tensor | None]:
        out: dict[str, Tensor | None] = {name: None for weight in wanted for name in (weight.name, weight.bias) if name}
        for place, names in found.items():
            whole = torch.cat([_upright(name, tensors[name], turned) for name in names])
            if place.startswith("fused"):
                kind = "b" if "bias" in place else "w"
                out |= {f"{kind}_{letter}": part for letter, part in zip(order, whole.chunk(len(order)), strict=True)}
            else:
                out[place] = whole
        for weight in wanted:
            value = out[weight.name]
            if value is not None and weight.shape is not None:
                out[weight.name] = _in_shape(weight, value, weight.shape(options))
        return out

    return Bridge(read, roles)


def clean(token: str) -> str:
    """`W_q`, `q_proj`, `to_q`, `linearQ` → q."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token).lower().split("_")
    return "_".join(word for word in words if word not in NOISE)


def tokens_of(name: str) -> list[str]:
    """The words of a parameter's name that may say what it is, without numbers."""
    words = [word for word in name.split(".") if not word.isdigit()]
    own = words[-2:] if words[-1] in ("weight", "bias") else words[-1:]
    return [
        form for word in own for form in (word.lower(), clean(word), clean(word).removeprefix("w").removeprefix("b"))
    ]


def _place(name: str, parameter: Tensor, wanted: Sequence[Weight]) -> tuple[str | None, str]:
    """Whose it is, and of three in one their order."""
    forms = tokens_of(name)
    vectors = all(weight.shape is not None and len(weight.shape({})) == 1 for weight in wanted)
    is_bias = parameter.dim() == 1 and (not vectors or parameter.numel() == 1)
    if any(weight.name == "w_q" for weight in wanted) and not _matches(forms, wanted, is_bias, exact=True):
        for form in forms:
            if form in FUSED and max(parameter.shape) % len(FUSED[form]) == 0:
                return ("fused bias" if is_bias else "fused"), FUSED[form]
    return _matches(forms, wanted, is_bias), ""


def _matches(forms: Sequence[str], wanted: Sequence[Weight], is_bias: bool, *, exact: bool = False) -> str | None:
    for form in forms:
        if exact and not form:
            continue
        for weight in wanted:
            if form in weight.aliases:
                return weight.bias if is_bias and weight.bias else weight.name
    return None


def _upright(name: str, tensor: Tensor, turned: set[str]) -> Tensor:
    return tensor.T if name in turned else tensor


def _in_shape(weight: Weight, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if value.shape == shape:
        return value
    if [size for size in value.shape if size > 1] == [size for size in shape if size > 1]:
        return value.reshape(shape)
    found, right = (" × ".join(map(str, sizes)) for sizes in (value.shape, shape))
    raise StudentError(f"the {weight.called} weights are {found}, and {right} is expected")


def _unmapped(
    module: nn.Module,
    wanted: Sequence[Weight],
    options: Mapping[str, Any],
    missing: Sequence[Weight],
    left: Sequence[str],
) -> str:
    expected = ", ".join(weight.called for weight in wanted if weight.needed(options))
    here = [f"{name} {'×'.join(map(str, weight.shape))}" for name, weight in module.named_parameters()]
    lost = f"no {' and no '.join(weight.called for weight in missing)}" if missing else f"not known: {', '.join(left)}"
    return f"weights expected: {expected}; found: {', '.join(here) or 'none'}; {lost}"
