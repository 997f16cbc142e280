"""Type checks of the arguments of public functions; an argument of a wrong type is a one-line error."""

import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from glassformer.config.errors import Misuse, with_article

P = ParamSpec("P")
R = TypeVar("R")

KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    types.NoneType: ((types.NoneType,), ""),
    bool: ((bool,), "True or False"),
    int: ((numbers.Integral,), "a whole number"),
    float: ((numbers.Real,), "a number"),
    str: ((str, os.PathLike), "text"),
    os.PathLike: ((os.PathLike,), "a path"),
    Iterable: ((Iterable,), "several"),
    Sequence: ((Sequence,), "several"),
    Mapping: ((Mapping,), "a mapping"),
}
"""Checked types, each with the classes that it accepts and its name in messages. Other types are not checked here."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of named parameters, by name, and of the options in `**options: Unpack[…]`."""
    hints: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in NAMED:
            hints[name] = parameter.annotation
        elif typing.get_origin(parameter.annotation) is typing.Unpack:
            hints |= typing.get_args(parameter.annotation)[0].__annotations__
    return hints


def check_arguments(verb: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its plain arguments: numbers, texts, booleans, sequences and mappings."""
    signature, hints = inspect.signature(verb), parameter_types(verb)
    is_open = any(typing.get_origin(one.annotation) is typing.Unpack for one in signature.parameters.values())

    @functools.wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        named = {name: value for name, value in signature.bind(*args, **kwargs).arguments.items() if name in hints}
        for name, value in {**named, **kwargs}.items():
            if name in hints:
                check_type(name, value, hints[name])
            elif is_open:
                raise TypeError(f"{verb.__name__}() got an unexpected keyword argument '{name}'")
        return verb(*args, **kwargs)

    return checked


def check_type(name: str, value: object, hint: Any) -> None:
    """Raise `Misuse` for a value of none of the plain types in a hint; a hint with other types accepts every value."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    hints = typing.get_args(hint) if union else (hint,)
    if any(typing.get_args(kind) == (Any,) for kind in hints):  # examples, which are checked when they are read
        return
    kinds = [typing.get_origin(kind) or kind for kind in hints]
    kinds = [os.PathLike if isinstance(kind, type) and issubclass(kind, os.PathLike) else kind for kind in kinds]
    if any(kind not in KINDS or _is(value, kind) for kind in kinds):
        return
    wanted = " or ".join(dict.fromkeys(KINDS[kind][1] for kind in kinds if kind is not types.NoneType))
    shown = repr(value) if isinstance(value, str | int | float) else with_article(value)
    raise Misuse(f"{name} wants {wanted}, not {shown}")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, KINDS[kind][0]) and (kind is bool or not isinstance(value, bool))
