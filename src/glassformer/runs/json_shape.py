"""The structure of JSON files, stated as types: a damaged file is refused before any code relies on it.

A shape is `Any`, `None`, `str`, `bool`, `int`, `float`, a `list`, `dict` or union of shapes, a `TypedDict` or a
dataclass. A dictionary may have keys that its shape does not name, except where it becomes a dataclass.
"""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from glassformer.config.errors import with_article

MAX_INT = 2**63 - 1
"""Largest number in any JSON file of a run; larger ones would overflow."""

Made = TypeVar("Made")


class WrongShape(ValueError):
    """JSON does not have the expected structure."""


def check_shape(value: Any, shape: Any, place: str = "") -> None:
    """Raise `WrongShape` unless a JSON value has a shape; `place`: where it is in the file, as in `data.name`."""
    origin, arguments = typing.get_origin(shape), typing.get_args(shape)
    if shape is Any:
        return
    if origin in (typing.Union, types.UnionType):
        _check_union(value, arguments, place)
    elif typing.is_typeddict(shape) or dataclasses.is_dataclass(shape):
        _check_fields(value, shape, place)
    elif origin in (list, dict):
        if not isinstance(value, origin):
            raise _wrong(value, place)
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_shape(one, arguments[-1], _below(place, key))
    elif not _is(value, shape):
        raise _wrong(value, place)


def made(value: Any, kind: type[Made], place: str = "") -> Made:
    """Return an instance of a dataclass from the JSON object that `dataclasses.asdict` made of it."""
    check_shape(value, kind, place)
    fields = typing.get_type_hints(kind)
    return kind(**{name: _made(one, fields[name]) for name, one in value.items()})


def _made(value: Any, shape: Any) -> Any:
    if isinstance(shape, type) and dataclasses.is_dataclass(shape):
        return made(value, shape)
    if typing.get_origin(shape) is list:
        return [_made(one, typing.get_args(shape)[0]) for one in value]
    return value


def _check_union(value: Any, shapes: tuple[Any, ...], place: str) -> None:
    """Raise the longest error if no member of a union matches: it names the most deeply nested value."""
    failures: list[WrongShape] = []
    for shape in shapes:
        try:
            return check_shape(value, shape, place)
        except WrongShape as error:
            failures.append(error)
    raise max(failures, key=lambda error: len(str(error)))


def _check_fields(value: Any, shape: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, place)
    hints, is_open = typing.get_type_hints(shape), typing.is_typeddict(shape)
    needed = shape.__required_keys__ if is_open else hints.keys()
    for name, hint in hints.items():
        if name in value:
            check_shape(value[name], hint, _below(place, name))
        elif name in needed:
            raise WrongShape(f"it lacks {_below(place, name)}")
    if not is_open and (odd := next((name for name in value if name not in hints), None)) is not None:
        raise WrongShape(f"it has the unknown key {_below(place, odd)[:80]}")


def _is(value: Any, shape: Any) -> bool:
    if shape is None or shape is types.NoneType:
        return value is None
    if isinstance(value, bool):
        return shape is bool
    if isinstance(value, int):
        return shape in (int, float) and abs(value) <= MAX_INT
    return isinstance(value, shape)


def _wrong(value: Any, place: str) -> WrongShape:
    if type(value) is int and abs(value) > MAX_INT:
        what = f"its {place}" if place else "it holds a number that"
        return WrongShape(f"{what} does not fit into 64 bits")
    return WrongShape(f"its {place} is {with_article(value)}" if place else f"it holds {with_article(value)}")


def _below(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)
