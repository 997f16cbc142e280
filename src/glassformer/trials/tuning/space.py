"""What is searched: settings, and for each the values that may be tried. Torch-free."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.names import unknown
from glassformer.config.resolve import ALIASES, BUDGETS, SECTIONS, keys
from glassformer.config.setting import Rule, kind_of, parse

Plain = str | int | float | bool | None


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched, and what it may be: one of `values`, or a number from `low` to `high`."""

    key: str
    values: tuple[Plain, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """A factor counts alike at both ends of the range."""
    step: float | None = None
    whole: bool = False
    when: Mapping[str, tuple[Plain, ...]] = field(default_factory=dict)
    """Other settings, and the values of theirs that it goes with; empty: always."""

    @property
    def name(self) -> str:
        """A setting may have several ranges, each under its condition."""
        conditions = [f"{key} {'/'.join(map(_word, values))}" for key, values in self.when.items()]
        return self.key + (f" ({', '.join(conditions)})" if conditions else "")

    def holds(self, value: Any) -> bool:
        """Whether this value may be tried."""
        if self.values:
            return any(value == own and isinstance(value, bool) == isinstance(own, bool) for own in self.values)
        if value is None or isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        if self.whole and value != int(value):
            return False
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-9

    def applies(self, values: Mapping[str, Any]) -> bool:
        return all(values.get(key) in wanted for key, wanted in self.when.items())

    def to_plain(self) -> Any:
        """As a person writes it in YAML."""
        if self.values and not self.when:
            return list(self.values)
        out: dict[str, Any] = {}
        if self.values:
            out["choices"] = list(self.values)
        else:
            number = int if self.whole else float
            out |= {"low": number(self.low), "high": number(self.high)}
            out |= {"log": True} if self.log else {}
            out |= {"step": number(self.step)} if self.step is not None else {}
        if self.when:
            out["when"] = {key: list(values) for key, values in self.when.items()}
        return out


Space = Sequence[Dimension]


def sample(space: Space, suggest: Callable[[Dimension], Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings drawn from a space; `known`: what those have that are not searched, which conditions ask for."""
    drawn: dict[str, Any] = {}
    for dimension in space:
        if dimension.key not in drawn and dimension.applies({**known, **drawn}):
            drawn[dimension.key] = suggest(dimension)
    return drawn


def plain(space: Space) -> dict[str, Any]:
    """As a person writes it in YAML: by setting; one with several ranges has a list of them."""
    out: dict[str, Any] = {}
    for dimension in space:
        out.setdefault(dimension.key, []).append(dimension.to_plain())
    return {key: ranges[0] if len(ranges) == 1 else ranges for key, ranges in out.items()}


# --- from what a person wrote ---

RANGE = ("low", "high", "log", "step", "when")
SPLITS = "decides what is compared with what, and cannot be searched"


def read_space(given: Mapping[str, Any], where: str) -> list[Dimension]:
    """A space from YAML: `model.width: [64, 128]`, `training.lr: {low: 1e-4, high: 1e-2, log: true}`."""
    out: list[Dimension] = []
    for key, value in _dotted(given).items():
        said = f"{where}: {key}"
        key = ALIASES.get(key, key)
        if key not in keys():
            raise SettingError(f"{where}: {unknown('setting', key, [*keys(), *ALIASES])}")
        _check_searchable(key, said)
        several = isinstance(value, list) and len(value) > 0 and all(isinstance(one, dict) for one in value)
        out += [_dimension(key, one, said) for one in (value if several else [value])]
    if not out:
        raise SettingError(f"{where} names no setting to search, as in: model.width: [64, 128]")
    _check_conditions(out, where)
    budgets = [dimension.key for dimension in out if dimension.key in BUDGETS]
    if len(set(budgets)) > 1:
        raise SettingError(f"{where}: {budgets[0]} and {budgets[1]} both say how long to train: search one of them")
    return out


def _dotted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Sections written as such (`model:` and beneath it `width: …`) to dotted keys."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key in SECTIONS and isinstance(value, dict):
            out |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            out[str(key)] = value
    return out


def _check_searchable(key: str, said: str) -> None:
    if key == "model.encoder":
        raise SettingError(f"{said}: name the models to choose from with --model, as in --model bag,cnn")
    if key == "training.seed":
        raise SettingError(f"{said}: a lucky seed is no setting; --seeds N judges each trial by several")
    if key.startswith("data.") and key not in ("data.shift", "data.flip"):
        raise SettingError(f"{said} {SPLITS}")


def _check_conditions(space: Space, where: str) -> None:
    seen: set[str] = set()
    searched = {dimension.key for dimension in space}
    for dimension in space:
        for key in dimension.when:
            if key in searched and key not in seen:
                raise SettingError(f"{where}: {dimension.key} depends on {key}, which must stand before it")
        seen.add(dimension.key)


def _dimension(key: str, value: Any, said: str) -> Dimension:
    if isinstance(value, list):
        return Dimension(key, values=_choices(key, value, said))
    if not isinstance(value, dict):
        raise SettingError(f"{said} wants a list of values or a range {{low: …, high: …}}, not {value!r}; "
                           f"one value is a flag: --{key} {_word(value)}")  # fmt: skip
    when = _conditions(value.get("when") or {}, said)
    if "choices" in value:
        _only(value, ("choices", "when"), said)
        return Dimension(key, values=_choices(key, value["choices"], said), when=when)
    _only(value, RANGE, said)
    return _range(key, value, said, when)


def _only(value: Mapping[str, Any], known: tuple[str, ...], said: str) -> None:
    for name in value:
        if name not in known:
            raise SettingError(f"{said}: {unknown('word', str(name), known)}")


def _choices(key: str, values: Any, said: str) -> tuple[Plain, ...]:
    if not isinstance(values, list) or not values:
        raise SettingError(f"{said} has no values to choose from, as in [1, 2]")
    read = tuple(_value(key, value, said) for value in values)
    for place, value in enumerate(read):
        if value in read[:place]:
            raise SettingError(f"{said} has {_word(value)} twice")
    return read


def _conditions(given: Any, said: str) -> dict[str, tuple[Plain, ...]]:
    if not isinstance(given, dict):
        raise SettingError(f"{said}: when wants a setting and its values, as in when: {{model.head_layers: [1, 2]}}")
    out = {}
    for key, values in given.items():
        whole = ALIASES.get(key, key)
        if whole not in keys():
            raise SettingError(f"{said}: when: {unknown('setting', str(key), keys())}")
        out[whole] = _choices(whole, values if isinstance(values, list) else [values], f"{said}: when: {key}")
    return out


def _range(key: str, value: Mapping[str, Any], said: str, when: dict[str, tuple[Plain, ...]]) -> Dimension:
    kind = kind_of(_field(key))[0]
    if kind not in (int, float):
        raise SettingError(f"{said} is not a number: list its values, as in [{', '.join(_examples(key))}]")
    for name in ("low", "high"):
        if value.get(name) is None:
            raise SettingError(f"{said}: a range has low and high, and {name} is missing")
    low, high = (_value(key, value[name], f"{said}: {name}") for name in ("low", "high"))
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise SettingError(f"{said}: log is true or false, not {log!r}")
    step = value.get("step")
    if step is not None:
        step = parse(f"{said}: step", _field(key), step)
    if low >= high:
        raise SettingError(f"{said}: low {low:g} must be below high {high:g}")
    if log and low <= 0:
        raise SettingError(f"{said}: log needs low above 0, and it is {low:g}")
    if step is not None and (step <= 0 or step > high - low):
        raise SettingError(f"{said}: step {step:g} must be above 0, and at most {high - low:g}")
    if log and step is not None:
        raise SettingError(f"{said}: give log or step, not both")
    return Dimension(key, low=low, high=high, log=log, step=step, whole=kind is int, when=when)


def _field(key: str) -> "dataclasses.Field[Any]":
    section, name = key.split(".")
    return next(one for one in dataclasses.fields(SECTIONS[section]) if one.name == name)


def _examples(key: str) -> tuple[str, ...]:
    rule: Rule = _field(key).metadata["rule"]
    return rule.choices or ("true", "false")


def _value(key: str, value: Any, said: str) -> Any:
    """Brought to the setting's type, and held against its rule."""
    own = _field(key)
    read = parse(said, own, value)
    rule: Rule = own.metadata["rule"]
    if read is None:
        return None
    if rule.choices and read not in rule.choices:
        raise SettingError(f"{said}: {unknown('value', str(read), rule.choices)}")
    if rule.least is not None and read < rule.least:
        raise SettingError(f"{said}: {read} is below {rule.least:g}, the least it may be")
    if rule.most is not None and read > rule.most:
        raise SettingError(f"{said}: {read} is above {rule.most:g}, the most it may be")
    return read


def _word(value: Any) -> str:
    """As YAML writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
