"""Match the names that students give to sizes, inputs and weights with the names of the reference."""

import inspect
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.teaching.exercise import StudentError

KINDS: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("kinds.toml").read_text("utf-8"))
SIZE_NAMES: Mapping[str, str] = KINDS["sizes"]
"""Patterns of parameter names, by the size or other fact that they stand for. The first match applies."""
OPTIONAL_SIZES = ("head_width", "context", "activation")
"""Sizes that are passed only to parameters without a default."""


@dataclass(frozen=True)
class Offer:
    """Value for a parameter that a brick may have."""

    value: Any
    names: str = ""
    """Pattern of alternative parameter names, in lower case."""
    always: bool = True
    """Whether to pass the value even to a parameter with a default."""


def sizes(**values: Any) -> dict[str, Offer]:
    """Return the offers of the given sizes, in the order of `SIZE_NAMES`."""
    return {
        key: Offer(values[key], names, always=key not in OPTIONAL_SIZES)
        for key, names in SIZE_NAMES.items()
        if key in values
    }


CONFIG_NAMES = ("config", "cfg", "conf", "args", "hparams", "opts", "settings")
"""Names of a parameter that takes a configuration object with all sizes."""
ESSENTIAL = ("width", "heads", "hidden", "input_width")
"""Sizes that a brick is assumed to read from a configuration. Parameters of unknown names get them in this order."""


class Config:
    """All sizes as attributes, under any of their names."""

    def __init__(self, offers: Mapping[str, Offer]) -> None:
        self._offers = offers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # `copy` and `pickle` look for such names
            raise AttributeError(name)
        key = key_of(name, self._offers)
        if key is None:
            raise AttributeError(f"the configuration has no {name}; it has {', '.join(self._offers)}")
        return self._offers[key].value


def key_of(name: str, offers: Mapping[str, Offer]) -> str | None:
    """Return the key of the offer that matches a parameter name; None if there is no match."""
    if name in offers:
        return name
    return next((key for key, offer in offers.items() if re.fullmatch(offer.names, name.lower())), None)


class Bound(NamedTuple):
    """Arguments for a callable."""

    keywords: dict[str, Any]
    named: set[str]
    """Keys of the offers that the callable has a parameter for."""


def bind(function: Callable[..., Any], offers: Mapping[str, Offer], by_place: Collection[str]) -> Bound:
    """Return the arguments for a callable.

    A required parameter with an unknown name gets the first offer in `by_place` that no other parameter matches.
    """
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = {
        parameter: key_of(parameter.name, offers)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in variadic
    }
    free = [key for key in by_place if key in offers and key not in known.values()]
    named = {key for key in known.values() if key is not None}
    keywords: dict[str, Any] = {}
    for parameter, key in known.items():
        is_required = parameter.default is inspect.Parameter.empty
        if key is None and is_required and parameter.name in CONFIG_NAMES:
            keywords[parameter.name] = Config(offers)
            named |= offers.keys() & set(ESSENTIAL)
            continue
        if key is None and is_required:
            if not free:
                title = f"{function.__name__}.__init__" if inspect.isclass(function) else function.__qualname__
                raise StudentError(f"{title} wants {parameter.name}, which is unknown; known are: {', '.join(offers)}")
            key = free.pop(0)
            named.add(key)
        if key is not None and (is_required or offers[key].always):
            keywords[parameter.name] = offers[key].value
    return Bound(keywords, named)


NOISE = re.compile("w|weights?|b|bias|c|the|my|to|proj|projection|lin|linear|fc|dense|layer|net|map|mat|matrix")
"""Words in parameter names that do not identify the weight."""
FUSED_PARTS = {"query": "q", "key": "k", "value": "v"}
FUSED_DEFAULT = ("in", "attn")
"""Names of a matrix that combines queries, keys and values in this order."""


@dataclass(frozen=True)
class Weight:
    """A weight of the reference."""

    name: str
    label: str
    """Name in messages, such as `query`."""
    names: str
    """Pattern of its parameter names in bricks."""
    bias: str = ""
    """Name of its bias; empty if it cannot have one."""
    needed: Callable[[Mapping[str, Any]], bool] = lambda options: True
    shape: tuple[int, ...] | None = None

    def labels(self) -> dict[str, str]:
        return {self.name: self.label, self.bias: f"{self.label} bias"}


@dataclass(frozen=True)
class Role:
    """Role of a parameter: one weight of the reference, several fused weights, or one part of a weight."""

    names: tuple[str, ...]
    part: int = 0


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Bridge:
    """Map from the student's parameters, or their gradients, to those of the reference."""

    read: Callable[[Tensors], dict[str, Tensor | None]]
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles by the student's parameter names."""


def read_by_name(module: nn.Module, wanted: Sequence[Weight], options: Mapping[str, Any], turned: set[str]) -> Bridge:
    """Find the weights by their names.

    `turned`: names of parameters that are used as x W instead of x Wᵀ.
    """
    found: dict[str, list[str]] = {}
    unknown, order = list[str](), "qkv"
    for name, parameter in module.named_parameters():
        place, letters = _place(name, parameter, wanted)
        order = letters or order
        if place is None:
            unknown.append(name)
        else:
            found.setdefault(place, []).append(name)
    in_fused = [f"w_{letter}" for letter in order] if "fused" in found else []
    missing = [one for one in wanted if one.needed(options) and one.name not in (*found, *in_fused)]
    owners = {re.sub(r"\.(weight|bias)$", "", name) for name in unknown}
    if len(missing) == 1 and len(owners) == 1:  # assume that they belong together
        [weight] = missing
        for name in unknown:
            found[weight.bias if name.endswith(".bias") and weight.bias else weight.name] = [name]
    elif missing or unknown:
        expected = ", ".join(weight.label for weight in wanted if weight.needed(options))
        raise StudentError(f"weights expected: {expected}; found: {listed_weights(module)}")
    roles = {name: Role((place,), part) for place, names in found.items() for part, name in enumerate(names)}
    for place, kind in (("fused", "w"), ("fused bias", "b")):
        roles |= {name: Role(tuple(f"{kind}_{letter}" for letter in order)) for name in found.get(place, [])}

    def read(tensors: Tensors) -> dict[str, Tensor | None]:
        out: dict[str, Tensor | None] = {name: None for weight in wanted for name in (weight.name, weight.bias) if name}
        for names in found.values():
            whole = torch.cat([tensors[name].T if name in turned else tensors[name] for name in names])
            places = roles[names[0]].names
            out |= dict(zip(places, whole.chunk(len(places)), strict=True))
        for weight in wanted:
            value = out[weight.name]
            if value is not None and weight.shape is not None:
                out[weight.name] = _in_shape(weight, value, weight.shape)
        return out

    return Bridge(read, roles)


def clean(token: str) -> str:
    """Remove uninformative words from a name: `W_q`, `q_proj`, `to_q` and `linearQ` become `q`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token).lower().split("_")
    return "_".join(word for word in words if not NOISE.fullmatch(word))


def tokens_of(name: str) -> list[str]:
    """Return the words of a parameter's name that may identify it, without numbers."""
    words = [word for word in name.split(".") if not word.isdigit()]
    own = words[-2:] if words[-1] in ("weight", "bias") else words[-1:]
    return [
        form for word in own for form in (word.lower(), clean(word), clean(word).removeprefix("w").removeprefix("b"))
    ]


def listed_weights(module: nn.Module) -> str:
    """Return the names and shapes of all parameters."""
    return ", ".join(f"{name} {'×'.join(map(str, one.shape))}" for name, one in module.named_parameters()) or "none"


def _place(name: str, parameter: Tensor, wanted: Sequence[Weight]) -> tuple[str | None, str]:
    """Return the name of the weight in a parameter (None if unknown), and the order of the letters if it is fused."""
    forms = tokens_of(name)
    vectors = all(weight.shape is not None and len(weight.shape) == 1 for weight in wanted)
    is_bias = parameter.dim() == 1 and (not vectors or parameter.numel() == 1)
    known = next((one for form in forms for one in wanted if re.fullmatch(one.names, form)), None)
    if known is not None:
        return (known.bias if is_bias and known.bias else known.name), ""
    if any(weight.name == "w_q" for weight in wanted):
        for form in forms:
            letters = (
                "qkv" if form in FUSED_DEFAULT else "".join(FUSED_PARTS.get(word, word) for word in form.split("_"))
            )
            if len(letters) > 1 and set(letters) <= set("qkv") and max(parameter.shape) % len(letters) == 0:
                return ("fused bias" if is_bias else "fused"), letters
    return None, ""


def _in_shape(weight: Weight, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if value.shape == shape:
        return value
    if [size for size in value.shape if size > 1] == [size for size in shape if size > 1]:
        return value.reshape(shape)
    found, right = (" × ".join(map(str, sizes)) for sizes in (value.shape, shape))
    raise StudentError(f"the {weight.label} weights are {found}, and {right} is expected")
