"""A setting: a dataclass field that carries its choices and its range, and checks itself.

The docstring after the field is its help text.
"""

import ast
import dataclasses
import datetime
import functools
import inspect
import itertools
import math
import os
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.config.errors import SettingError, unknown, with_article
from glassformer.config.plugins import own_names

PLAIN = (str, int, float, datetime.date)
"""What a YAML file has for a word."""
TRUTHS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}
TINY = 1e-9
"""The least of what must be above 0."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a setting may be."""

    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    metavar: str | None = None
    """Placeholder of the value in the help; None: by type."""


def setting(
    default: Any,
    *,
    choices: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    metavar: str | None = None,
) -> Any:
    """Return a dataclass field; the docstring after it is its help text."""
    return dataclasses.field(default=default, metadata={"rule": Rule(tuple(choices), least, most, metavar)})


@functools.cache
def _classes_in(file: str) -> dict[str, ast.ClassDef]:
    source = ast.parse(Path(file).read_text("utf-8"))
    return {node.name: node for node in source.body if isinstance(node, ast.ClassDef)}


def docstrings_of_fields(section: type) -> dict[str, str]:
    """Return the docstring of each field of a section by the field's name."""
    texts = {}
    for field, docstring in itertools.pairwise(_classes_in(inspect.getfile(section))[section.__name__].body):
        match field, docstring:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
    return texts


def kind_of(field: dataclasses.Field[Any]) -> tuple[type, bool]:
    """The plain type of a field, and whether None may stand for it: `int | None`, or None until it is filled in."""
    kinds = typing.get_args(field.type)
    plain = next((kind for kind in kinds if kind is not types.NoneType), field.type)
    return typing.cast(type, plain), field.default is None or types.NoneType in kinds


def parse(name: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """A value from a flag, a file or Python, brought to the field's type."""
    kind, optional = kind_of(field)
    named = field.metadata["rule"].choices
    if value is None or (optional and isinstance(value, str) and value.lower() in ("none", "null")):
        if optional:
            return None
        raise SettingError(f"{name} needs a value")
    try:
        if kind is bool:
            word = str(value).lower()
            return word if word in named and word not in TRUTHS else TRUTHS[word]
        if kind is int:
            return whole(value)
        if kind is float:
            if isinstance(value, bool):
                raise ValueError
            number = float(value)
            if not math.isfinite(number):
                raise ValueError
            return number
        if isinstance(value, os.PathLike):  # a path, or what knows its folder, as a run does
            return os.fspath(value)
        if not isinstance(value, PLAIN):
            raise ValueError
        return str(value)
    except (KeyError, ValueError, TypeError):
        *others, last = named or ("true", "false")
        wanted = {bool: f"{', '.join(others)} or {last}", int: "a whole number", float: "a number", str: "text"}[kind]
        shown = repr(value) if isinstance(value, (*PLAIN, dict, list, tuple)) else with_article(value)
        raise SettingError(f"{name} wants {wanted}, not {shown}") from None


def value_text(value: Any) -> str:
    """A value as a person types it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def whole(value: Any) -> int:
    """A whole number, however it is written; else a ValueError or TypeError."""
    if isinstance(value, bool):
        raise ValueError
    try:
        return int(str(value))  # 10_000 too, and no digit of a long seed is lost
    except ValueError:
        number = float(value)  # 1e4 is a whole number too
        if not number.is_integer():
            raise
        return int(number)


def choices_of(name: str, rule: Rule) -> tuple[str, ...]:
    """What a setting, by its dotted key, may be: ours, and what a person registered."""
    return (*rule.choices, *own_names(name)) if rule.choices else ()


def check(section: str, values: Any) -> None:
    """Hold every field of a section's dataclass against its rule."""
    for field in dataclasses.fields(values):
        check_value(f"{section}.{field.name}", field, getattr(values, field.name))


def check_value(name: str, field: dataclasses.Field[Any], value: Any) -> None:
    """Hold one value, already of the field's type, against the field's rule."""
    rule: Rule = field.metadata["rule"]
    if value is None:
        if not kind_of(field)[1]:
            raise SettingError(f"{name} needs a value")
        return
    if rule.choices and value_text(value) not in (choices := choices_of(name, rule)):
        raise SettingError(unknown(name, str(value), choices))
    if rule.least is not None and value < rule.least:
        least = f"at least {rule.least:g}" if rule.least != TINY else "above 0"
        raise SettingError(f"{name} is {value}, but must be {least}")
    if rule.most is not None and value > rule.most:
        raise SettingError(f"{name} is {value}, but must be at most {rule.most:g}")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise SettingError(f"{name} has {len(str(abs(value)))} digits, but must fit into 64 bits")
