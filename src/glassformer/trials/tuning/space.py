"""What is searched: settings, and for each the values that may be tried. Torch-free."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError, unknown
from glassformer.config.resolve import ALIASES, BUDGETS, FIELDS, SECTIONS, full_key, keys
from glassformer.config.setting import check_value, choices_of, kind_of, parse, value_text

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
        conditions = [f"{key} {'/'.join(map(to_word, values))}" for key, values in self.when.items()]
        return self.key + (f" ({', '.join(conditions)})" if conditions else "")

    def holds(self, value: Any) -> bool:
        """Whether this value may be tried."""
        if self.values:
            return any(value == own and isinstance(value, bool) == isinstance(own, bool) for own in self.values)
        if value is None or isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        grain = self.step or (1 if self.whole else None)
        steps = (value - self.low) / grain if grain else 0.0
        return abs(steps - round(steps)) < 1e-9

    def applies(self, values: Mapping[str, Any]) -> bool:
        return all(values.get(key) in wanted for key, wanted in self.when.items())

    def to_plain(self) -> Any:
        """The dimension as a person writes it in YAML."""
        when = {"when": {key: list(values) for key, values in self.when.items()}} if self.when else {}
        if self.values:
            return {"choices": list(self.values), **when} if when else list(self.values)
        number = int if self.whole else float
        log = {"log": True} if self.log else {}
        step = {"step": number(self.step)} if self.step is not None else {}
        return {"low": number(self.low), "high": number(self.high), **log, **step, **when}


def sample(space: Sequence[Dimension], suggest: Callable[[Dimension], Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings drawn from a space; `known`: what those have that are not searched, which conditions ask for."""
    drawn: dict[str, Any] = {}
    for dimension in space:
        if dimension.key not in drawn and dimension.applies({**known, **drawn}):
            drawn[dimension.key] = suggest(dimension)
    return drawn


def plain(space: Sequence[Dimension]) -> dict[str, Any]:
    """The space as a person writes it in YAML: by setting; one with several ranges has a list of them."""
    out: dict[str, Any] = {}
    for dimension in space:
        out.setdefault(dimension.key, []).append(dimension.to_plain())
    return {key: ranges[0] if len(ranges) == 1 else ranges for key, ranges in out.items()}


# --- from what a person wrote ---

CHOICES = ("choices", "when")
UNSEARCHABLE = {
    "model.encoder": "name the models to choose from with --model, as in --model bag,cnn",
    "training.choose_by": "it decides which trial is the best, so it cannot be searched: set --training.choose_by NAME",
    "training.seed": "a lucky seed is no setting; --seeds N judges each trial by several",
}
RANGE = ("low", "high", "log", "step", "when")


def read_space(spec: Mapping[str, Any], where: str) -> list[Dimension]:
    """A space from YAML: `model.width: [64, 128]`, `training.lr: {low: 1e-4, high: 1e-2, log: true}`."""
    out: list[Dimension] = []
    for key, value in dotted(spec).items():
        label = f"{where}: {key}"
        key = full_key(key)
        if key not in keys():
            raise SettingError(f"{where}: {unknown('setting', key, [*keys(), *ALIASES])}")
        if key in UNSEARCHABLE:
            raise SettingError(f"{label}: {UNSEARCHABLE[key]}")
        if key.startswith("data.") and key not in ("data.shift", "data.flip"):
            raise SettingError(f"{label} decides what is compared with what, and cannot be searched")
        several = isinstance(value, list) and len(value) > 0 and all(isinstance(part, dict) for part in value)
        out += [_dimension(key, part, label) for part in (value if several else [value])]
    if not out:
        raise SettingError(f"{where} names no setting to search, as in: model.width: [64, 128]")
    searched = [dimension.key for dimension in out]
    for place, dimension in enumerate(out):
        for key in dimension.when:
            if key in searched and key not in searched[:place]:
                raise SettingError(f"{where}: {dimension.key} depends on {key}, which must stand before it")
    budgets = [key for key in searched if key in BUDGETS]
    if len(set(budgets)) > 1:
        raise SettingError(f"{where}: {budgets[0]} and {budgets[1]} both say how long to train: search one of them")
    return out


def dotted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Sections written as such (`model:` and beneath it `width: …`) to dotted keys."""
    out: dict[str, Any] = {}
    for key, value in spec.items():
        if key in SECTIONS and isinstance(value, dict):
            out |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            out[str(key)] = value
    return out


def _dimension(key: str, value: Any, label: str) -> Dimension:
    if isinstance(value, list):
        value = {"choices": value}
    if not isinstance(value, dict):
        raise SettingError(f"{label} wants a list of values or a range {{low: …, high: …}}, not {value!r}; "
                           f"one value is a flag: --{key} {to_word(value)}")  # fmt: skip
    known = CHOICES if "choices" in value else RANGE
    for name in value:
        if name not in known:
            raise SettingError(f"{label}: {unknown('word', str(name), known)}")
    when = _conditions(value.get("when") or {}, label)
    if "choices" in value:
        return Dimension(key, values=_choices(key, value["choices"], label), when=when)
    return _range(key, value, label, when)


def _choices(key: str, values: Any, label: str) -> tuple[Plain, ...]:
    if not isinstance(values, list) or not values:
        raise SettingError(f"{label} has no values to choose from, as in [1, 2]")
    parsed = tuple(_value(key, value, label) for value in values)
    for place, value in enumerate(parsed):
        if value in parsed[:place]:
            raise SettingError(f"{label} has {to_word(value)} twice")
    return parsed


def _conditions(spec: Any, label: str) -> dict[str, tuple[Plain, ...]]:
    if not isinstance(spec, dict):
        raise SettingError(f"{label}: when wants a setting and its values, as in when: {{model.head_layers: [1, 2]}}")
    out = {}
    for key, values in spec.items():
        whole = full_key(key)
        if whole not in keys():
            raise SettingError(f"{label}: when: {unknown('setting', str(key), keys())}")
        out[whole] = _choices(whole, values if isinstance(values, list) else [values], f"{label}: when: {key}")
    return out


def _range(key: str, value: Mapping[str, Any], label: str, when: dict[str, tuple[Plain, ...]]) -> Dimension:
    kind = kind_of(FIELDS[key])[0]
    if kind not in (int, float):
        examples = choices_of(key, FIELDS[key].metadata["rule"]) or ("true", "false")
        raise SettingError(f"{label} is not a number: list its values, as in [{', '.join(examples)}]")
    for name in ("low", "high"):
        if value.get(name) is None:
            raise SettingError(f"{label}: a range has low and high, and {name} is missing")
    low, high = (_value(key, value[name], f"{label}: {name}") for name in ("low", "high"))
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise SettingError(f"{label}: log is true or false, not {log!r}")
    step = None if value.get("step") is None else parse(f"{label}: step", FIELDS[key], value["step"])
    problems = {
        f"low {low:g} must be below high {high:g}": low >= high,
        f"log needs low above 0, and it is {low:g}": log and low <= 0,
        f"step {step or 0:g} must be above 0, and at most {high - low:g}": step is not None
        and not 0 < step <= high - low,
        "give log or step, not both": log and step is not None,
    }
    for problem, holds in problems.items():
        if holds:
            raise SettingError(f"{label}: {problem}")
    return Dimension(key, low=low, high=high, log=log, step=step, whole=kind is int, when=when)


def _value(key: str, value: Any, label: str) -> Any:
    """Return a value in the setting's type; raise `SettingError` if it breaks the setting's rule."""
    field = FIELDS[key]
    parsed = parse(label, field, value)
    try:
        check_value(key, field, parsed)
    except SettingError as error:
        raise SettingError(f"{label.removesuffix(key)}{error}") from None
    return parsed


def to_word(value: Any) -> str:
    """A value as YAML writes it."""
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else value_text(value)
