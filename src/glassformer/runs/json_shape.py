"""Checks of the structure of JSON files, stated as types, so that no code relies on a damaged file.

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

T = TypeVar("T")


class WrongShape(ValueError):
    """JSON does not have the expected structure."""


def check_shape(value: Any, shape: Any, path: str = "") -> None:
    """Raise `WrongShape` unless a JSON value has a shape; `path`: its place in the file, such as `data.name`."""
    origin, arguments = typing.get_origin(shape), typing.get_args(shape)
    if shape is Any:
        return
    if origin in (typing.Union, types.UnionType):
        _check_union(value, arguments, path)
    elif typing.is_typeddict(shape) or dataclasses.is_dataclass(shape):
        _check_fields(value, shape, path)
    elif origin in (list, dict):
        if not isinstance(value, origin):
            raise _wrong(value, path)
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_shape(one, arguments[-1], _nested(path, key))
    elif not _is(value, shape):
        raise _wrong(value, path)


def from_json(value: Any, kind: type[T], path: str = "") -> T:
    """Return a dataclass instance from the JSON object that `dataclasses.asdict` returned for it."""
    check_shape(value, kind, path)
    fields = typing.get_type_hints(kind)
    return kind(**{name: _from_json(one, fields[name]) for name, one in value.items()})


def _from_json(value: Any, shape: Any) -> Any:
    if isinstance(shape, type) and dataclasses.is_dataclass(shape):
        return from_json(value, shape)
    if typing.get_origin(shape) is list:
        return [_from_json(one, typing.get_args(shape)[0]) for one in value]
    return value


def _check_union(value: Any, shapes: tuple[Any, ...], path: str) -> None:
    """Raise the longest error if no member of a union matches: it names the most deeply nested value."""
    failures: list[WrongShape] = []
    for shape in shapes:
        try:
            return check_shape(value, shape, path)
        except WrongShape as error:
            failures.append(error)
    raise max(failures, key=lambda error: len(str(error)))


def _check_fields(value: Any, shape: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, path)
    hints, allows_others = typing.get_type_hints(shape), typing.is_typeddict(shape)
    needed = shape.__required_keys__ if allows_others else hints.keys()
    for name, hint in hints.items():
        if name in value:
            check_shape(value[name], hint, _nested(path, name))
        elif name in needed:
            raise WrongShape(f"it lacks {_nested(path, name)}")
    if not allows_others and (unknown := next((name for name in value if name not in hints), None)) is not None:
        raise WrongShape(f"it has the unknown key {_nested(path, unknown)[:80]}")


def _is(value: Any, shape: Any) -> bool:
    if shape is None or shape is types.NoneType:
        return value is None
    if isinstance(value, bool):
        return shape is bool
    if isinstance(value, int):
        return shape in (int, float) and abs(value) <= MAX_INT
    return isinstance(value, shape)


def _wrong(value: Any, path: str) -> WrongShape:
    if type(value) is int and abs(value) > MAX_INT:
        what = f"its {path}" if path else "it holds a number that"
        return WrongShape(f"{what} does not fit into 64 bits")
    return WrongShape(f"its {path} is {with_article(value)}" if path else f"it holds {with_article(value)}")


def _nested(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
