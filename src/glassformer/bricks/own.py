"""Bricks registered by users, and the modules around them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Index, Mask, Vector, Vectors
from glassformer.bricks.positions import AddedPositions
from glassformer.bricks.tap import Brick, record_output
from glassformer.config.errors import (
    GlassformerError,
    Misuse,
    SettingError,
    out_of_memory,
    refuse_unknown,
    with_article,
)
from glassformer.config.plugins import BRICKS, OwnPart, note_part, own_part
from glassformer.config.resolve import FIELDS

Made = TypeVar("Made", bound=Callable[..., nn.Module])

FALLBACK = {"eps": 1e-5}
"""Values for required parameters of a user's class whose setting is unset."""


def register_brick(kind: str, name: str) -> Callable[[Made], Made]:
    """Register a user's brick under a name: `@gf.register_brick("norm", "mine")` before its class.

    Select it with `--model.scores mine` (attention), `--model.norm mine`, `--model.positions mine` or `--model.pool
    mine`. The class receives the offered values that its `__init__` names.
    """
    refuse_unknown("kind of brick", kind, BRICKS, Misuse)
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise Misuse(f"a brick's name is letters, digits, - and _, not {name!r}")
    if name in FIELDS[BRICKS[kind]].metadata["rule"].choices:
        raise Misuse(f'there is {kind} "{name}" among ours: choose another name')

    def register(make: Made) -> Made:
        if not callable(make):
            raise Misuse(f"register_brick('{kind}', '{name}') stands before a class, not before {with_article(make)}")
        note_part(kind, name, make)
        return make

    return register


def make_part(part: OwnPart, offered: Mapping[str, object]) -> nn.Module:
    """Create the user's module from the offered values that it names; None stands for an unset value."""
    values: dict[str, object] = {}
    for name, parameter in _parameters(part).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        value = offered.get(name)
        value = FALLBACK.get(name) if value is None and required and name in offered else value
        if value is not None:
            values[name] = value
        elif required:
            raise SettingError(f"{part} wants {name}, which its place does not offer: that is {', '.join(offered)}")
    try:
        made = part.make(**values)
    except GlassformerError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise part.failure(error) from error
    if not isinstance(made, nn.Module):
        raise SettingError(f"{part} must be an nn.Module, or make one, not {with_article(made)}")
    return made


def _parameters(part: OwnPart) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(part.make).parameters
    except (TypeError, ValueError):  # a class implemented in C
        return {}


def of_shape(name: object, out: object, *shape: int) -> Tensor:
    """Return what a user's module returned; raise `SettingError` unless it is a tensor of this shape."""
    if not isinstance(out, Tensor):
        raise SettingError(f"{name} must return a tensor, not {with_article(out)}")
    if not torch.compiler.is_compiling() and tuple(out.shape) != shape:
        returned, expected = ("×".join(map(str, sizes)) or "a number" for sizes in (out.shape, shape))
        raise SettingError(f"{name} returned {returned}, but must return {expected}")
    return out


class OwnCode:
    """A module of glassformer around a user's module `own`, whose code may do anything."""

    own: nn.Module


class OwnBrick(OwnCode, Brick, nn.Module):
    """A user's module as a brick. Its `forward` receives the offered inputs that it names."""

    opaque = False
    keyword_inputs: tuple[str, ...] = ("mask",)
    """Inputs offered by keyword."""
    positional_inputs: tuple[str, ...] = ("x",)
    """Inputs passed by position."""

    def __init__(self, part: OwnPart, **offered: object) -> None:
        super().__init__()
        self.part = part
        self.own = make_part(part, offered)
        parameters = list(inspect.signature(self.own.forward).parameters.values())[len(self.positional_inputs) :]
        self.takes = frozenset(parameter.name for parameter in parameters) & {*self.keyword_inputs}
        for parameter in parameters:
            if (
                parameter.default is parameter.empty
                and parameter.name not in self.takes
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            ):
                words = ", ".join((*self.positional_inputs, *self.keyword_inputs))
                raise SettingError(f"{part}: its forward wants {parameter.name}, and there is only {words}")

    def call(self, *positional: Tensor, **keywords: object) -> object:
        """Call the user's module; turn an exception of its code into a one-line error."""
        try:
            return self.own(*positional, **{name: value for name, value in keywords.items() if name in self.takes})
        except GlassformerError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            raise self.part.failure(error) from error

    def of_shape(self, out: object, *shape: int) -> Tensor:
        return of_shape(self.part, out, *shape)


class OwnNorm(OwnBrick):
    """A user's norm: `forward(x)` returns the same shape."""

    record = record_output

    def forward(self, x: Vectors, mask: Mask = None) -> Vectors:
        return self.of_shape(self.call(x, mask=mask), *x.shape)


class OwnPositions(OwnBrick, AddedPositions):
    """A user's positions: `forward(x, index)` returns x with positions; `index` (B×T) has each token's position."""

    keyword_inputs = ()
    positional_inputs = ("x", "index")

    def __init__(self, part: OwnPart, *, context: int, **offered: object) -> None:
        super().__init__(part, context=context, **offered)
        self.kind, self.limit = part.name, context

    def forward(self, x: Vectors, index: Index) -> Vectors:
        return self.of_shape(self.call(x, index.expand(x.shape[:2])), *x.shape)

    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T d"]:
        """Return the output for zero vectors; for additive positions, this is all that they add."""
        like = next(self.own.parameters(), torch.empty(0))
        zeros = like.new_zeros(*index.shape, width, device=index.device)
        return self.forward(zeros.view(-1, *zeros.shape[-2:]), index.view(-1, index.shape[-1])).view_as(zeros)

    def added(self, x: Vectors, index: Index, output: Vectors) -> Float[Tensor, "*B T d"]:
        return (output - x)[0] if index.dim() == 1 else output - x


class OwnPool(OwnBrick):
    """A user's pooling: `forward(x, mask)` maps B×T×d to B×d. A text without tokens yields 0."""

    def forward(self, x: Vectors, mask: Mask = None) -> Vector:
        out = self.of_shape(self.call(x, mask=mask), x.shape[0], x.shape[2])
        return out if mask is None else out.masked_fill(~mask.any(1, keepdim=True), 0.0)


def own_norm(name: str, width: int, *, bias: bool, eps: float | None) -> OwnNorm | None:
    part = own_part("norm", name)
    return None if part is None else OwnNorm(part, width=width, bias=bias, eps=eps)


def is_own(model: nn.Module) -> bool:
    """Return whether a part of the model is a user's own code."""
    return any(isinstance(module, OwnCode) for module in model.modules())


def modules_of_ours(model: nn.Module) -> Iterator[nn.Module]:
    """Return all modules except those inside a user's own code."""
    own = {id(part) for module in model.modules() if isinstance(module, OwnCode) for part in module.own.modules()}
    return (module for module in model.modules() if id(module) not in own)
