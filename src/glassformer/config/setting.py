"""Settings: dataclass fields with choices and a range, whose docstring is the help text of the setting."""

import ast
import contextlib
import dataclasses
import datetime
import enum
import functools
import inspect
import itertools
import math
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from glassformer.config.errors import SettingError, unknown, with_article
from glassformer.config.plugins import own_names

SCALARS = (str, int, float, datetime.date)
"""Types of a scalar in a YAML file."""
TRUTHS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}
TINY = 1e-9
"""Lower bound of settings that must be above 0."""


class Unset(enum.Enum):
    """The value of a setting that has not been set yet."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Rule:
    """The default of a setting and the values it may have."""

    default: Any
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
    return dataclasses.field(default=default, metadata={"rule": Rule(default, tuple(choices), least, most, metavar)})


def open_setting(
    default: Any, *, choices: Sequence[str] = (), least: float | None = None, most: float | None = None
) -> Any:
    """Return a field of `OpenSettings`, which is unset before `complete`, to distinguish it from a caller's value."""
    return dataclasses.field(default=Unset.UNSET, metadata={"rule": Rule(default, tuple(choices), least, most)})


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting, open_setting))
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class OpenSettings:
    """A section in which a caller sets some values, as in `gf.LSTM(layers=2)`, and `complete` sets the others.

    Subclasses are frozen dataclasses without a decorator.
    """

    section: ClassVar[str]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)

    def __post_init__(self) -> None:
        for name, field in setting_fields(type(self)).items():
            if (value := getattr(self, name)) is not Unset.UNSET:
                check_value(f"{self.section}.{name}", field, parse(f"{self.section}.{name}", field, value))

    def __repr__(self) -> str:
        values = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))
        shown = (f"{field.name}={value!r}" for field, value in values if value != field.default)
        return f"{type(self).__name__}({', '.join(shown)})"

    def given(self) -> dict[str, Any]:
        """Return the settings that have a value, by dotted key."""
        values = {f"{self.section}.{name}": getattr(self, name) for name in setting_fields(type(self))}
        return {key: value for key, value in values.items() if value is not Unset.UNSET}

    @classmethod
    def complete(cls, values: Mapping[str, Any]) -> Self:
        """Return settings with these values; all others are derived from them or get their default."""
        fields = setting_fields(cls)
        settings = cls(**{name: values.get(name, field.metadata["rule"].default) for name, field in fields.items()})
        derived = {name: value for name, value in settings.derived().items() if getattr(settings, name) is None}
        settings = dataclasses.replace(settings, **derived)
        settings.check()
        return settings

    def derived(self) -> dict[str, Any]:
        """Return the values that follow from other settings; they apply where a setting is None."""
        return {}

    def check(self) -> None:
        """Refuse settings that contradict each other."""


_fields: dict[Any, dict[str, dataclasses.Field[Any]]] = {}


def setting_fields(section: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Return the settings among the fields of a dataclass, by name."""
    if section not in _fields:
        _fields[section] = {field.name: field for field in dataclasses.fields(section) if "rule" in field.metadata}
    return _fields[section]


@functools.cache
def _classes_in(file: str) -> dict[str, ast.ClassDef]:
    source = ast.parse(Path(file).read_text("utf-8"))
    return {node.name: node for node in source.body if isinstance(node, ast.ClassDef)}


def docstrings_of_fields(section: type) -> dict[str, str]:
    """Return the docstring of each field of a section, and of the classes that it extends, by the field's name."""
    texts = {}
    for parent in reversed(section.__mro__[:-1]):
        with contextlib.suppress(KeyError, OSError, TypeError):  # a class defined in a notebook has no file
            for field, docstring in itertools.pairwise(_classes_in(inspect.getfile(parent))[parent.__name__].body):
                match field, docstring:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = " ".join(text.split())
    return texts


def kind_of(field: dataclasses.Field[Any]) -> tuple[type, bool]:
    """Return the plain type of a setting, and whether it may be None: `int | None`, or derived from others."""
    kinds = typing.get_args(field.type)
    plain = next((kind for kind in kinds if kind is not types.NoneType), field.type)
    return typing.cast(type, plain), field.metadata["rule"].default is None or types.NoneType in kinds


def parse(name: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """Convert a value from a flag, a file or Python to the type of its field."""
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
        if isinstance(value, os.PathLike):  # a path, or a run, which knows its folder
            return os.fspath(value)
        if not isinstance(value, SCALARS):
            raise ValueError
        return str(value)
    except (KeyError, ValueError, TypeError):
        *others, last = named or ("true", "false")
        wanted = {bool: f"{', '.join(others)} or {last}", int: "a whole number", float: "a number", str: "text"}[kind]
        shown = repr(value) if isinstance(value, (*SCALARS, dict, list, tuple)) else with_article(value)
        raise SettingError(f"{name} wants {wanted}, not {shown}") from None


def value_text(value: Any) -> str:
    """Return a value as a person types it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def whole(value: Any) -> int:
    """Read a whole number in any notation; raise ValueError or TypeError for anything else."""
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
    """Return the choices of the setting with this dotted key, registered bricks included."""
    return (*rule.choices, *own_names(name)) if rule.choices else ()


def check(section: str, values: Any) -> None:
    """Check every setting of a section's dataclass against its rule."""
    for name, field in setting_fields(type(values)).items():
        check_value(f"{section}.{name}", field, getattr(values, name))


def check_value(name: str, field: dataclasses.Field[Any], value: Any) -> None:
    """Check a value that has the field's type against the field's rule."""
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
