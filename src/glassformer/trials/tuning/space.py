"""Search spaces: settings, and the values of each that may be tried. Torch-free."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError, unknown
from glassformer.config.resolve import ALIASES, BUDGETS, FIELDS, SECTIONS, full_key, keys
from glassformer.config.setting import check_value, choices_of, kind_of, parse, value_text

Plain = str | int | float | bool | None
Conditions = Mapping[str, tuple[Plain, ...]]


@dataclass(frozen=True)
class Dimension:
    """A setting to search, and its candidates: one of `values`, or a number from `low` to `high`."""

    key: str
    values: tuple[Plain, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """Whether the range is sampled on a logarithmic scale."""
    step: float | None = None
    whole: bool = False
    when: Conditions = field(default_factory=dict)
    """Values of other settings under which the dimension applies; empty: always."""

    @property
    def name(self) -> str:
        """The setting with its conditions: a setting may have several ranges, each under a condition."""
        conditions = [f"{key} {'/'.join(map(to_word, values))}" for key, values in self.when.items()]
        return self.key + (f" ({', '.join(conditions)})" if conditions else "")

    def holds(self, value: Any) -> bool:
        """Return whether a value may be tried."""
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
        """Return the dimension as YAML spells it."""
        when = {"when": {key: list(values) for key, values in self.when.items()}} if self.when else {}
        if self.values:
            return {"choices": list(self.values), **when} if when else list(self.values)
        number = int if self.whole else float
        log = {"log": True} if self.log else {}
        step = {"step": number(self.step)} if self.step is not None else {}
        return {"low": number(self.low), "high": number(self.high), **log, **step, **when}


def sample(space: Sequence[Dimension], suggest: Callable[[Dimension], Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Draw settings from a space. `known`: values of the settings that are not searched, for conditions."""
    drawn: dict[str, Any] = {}
    for dimension in space:
        if dimension.key not in drawn and dimension.applies({**known, **drawn}):
            drawn[dimension.key] = suggest(dimension)
    return drawn


def plain(space: Sequence[Dimension]) -> dict[str, Any]:
    """Return a space as YAML spells it, by setting; a setting with several ranges has a list of them."""
    out: dict[str, Any] = {}
    for dimension in space:
        out.setdefault(dimension.key, []).append(dimension.to_plain())
    return {key: ranges[0] if len(ranges) == 1 else ranges for key, ranges in out.items()}


# --- reading a space ---

CHOICE_KEYS = ("choices", "when")
RANGE_KEYS = ("low", "high", "log", "step", "when")
UNSEARCHABLE = {
    "model.encoder": "name the models to choose from with --model, as in --model bag,cnn",
    "training.choose_by": "it decides which trial is the best, so it cannot be searched: set --training.choose_by NAME",
    "training.seed": "a lucky seed is not a setting; --seeds N scores each trial by several seeds",
}


def _refuse(condition: object, message: str) -> None:
    if condition:
        raise SettingError(message)


def read_space(spec: Mapping[str, Any], where: str) -> list[Dimension]:
    """Read a space from YAML: `model.width: [64, 128]`, `training.lr: {low: 1e-4, high: 1e-2, log: true}`."""
    out: list[Dimension] = []
    for key, value in dotted(spec).items():
        label = f"{where}: {key}"
        key = full_key(key)
        _refuse(key not in keys(), f"{where}: {unknown('setting', key, [*keys(), *ALIASES])}")
        _refuse(key in UNSEARCHABLE, f"{label}: {UNSEARCHABLE.get(key)}")
        compared = key.startswith("data.") and key not in ("data.shift", "data.flip")
        _refuse(compared, f"{label} decides what is compared with what, and cannot be searched")
        several = isinstance(value, list) and len(value) > 0 and all(isinstance(part, dict) for part in value)
        out += [_dimension(key, part, label) for part in (value if several else [value])]
    _refuse(not out, f"{where} names no setting to search, as in: model.width: [64, 128]")
    searched = [dimension.key for dimension in out]
    for place, dimension in enumerate(out):
        for key in dimension.when:
            late = key in searched and key not in searched[:place]
            _refuse(late, f"{where}: {dimension.key} depends on {key}, which must come before it")
    budgets = list(dict.fromkeys(key for key in searched if key in BUDGETS))
    _refuse(len(budgets) > 1, f"{where}: {' and '.join(budgets[:2])} both say how long to train: search one of them")
    return out


def dotted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Replace sections (`model:` and below it `width: …`) by dotted keys."""
    out: dict[str, Any] = {}
    for key, value in spec.items():
        is_section = key in SECTIONS and isinstance(value, dict)
        out |= {f"{key}.{name}": inner for name, inner in value.items()} if is_section else {str(key): value}
    return out


def _dimension(key: str, value: Any, label: str) -> Dimension:
    if isinstance(value, list):
        value = {"choices": value}
    if not isinstance(value, dict):
        raise SettingError(f"{label} wants a list of values or a range {{low: …, high: …}}, not {value!r}; "
                           f"one value is a flag: --{key} {to_word(value)}")  # fmt: skip
    known = CHOICE_KEYS if "choices" in value else RANGE_KEYS
    for name in value:
        _refuse(name not in known, f"{label}: {unknown('word', str(name), known)}")
    when = _conditions(value.get("when") or {}, label)
    if "choices" in value:
        return Dimension(key, values=_choices(key, value["choices"], label), when=when)
    return _range(key, value, label, when)


def _choices(key: str, values: Any, label: str) -> tuple[Plain, ...]:
    _refuse(not isinstance(values, list) or not values, f"{label} has no values to choose from, as in [1, 2]")
    parsed = tuple(_value(key, value, label) for value in values)
    for place, value in enumerate(parsed):
        _refuse(value in parsed[:place], f"{label} has {to_word(value)} twice")
    return parsed


def _conditions(spec: Any, label: str) -> Conditions:
    if not isinstance(spec, dict):
        raise SettingError(f"{label}: when wants a setting and its values, as in when: {{model.head_layers: [1, 2]}}")
    out = {}
    for name, values in spec.items():
        key = full_key(name)
        _refuse(key not in keys(), f"{label}: when: {unknown('setting', str(name), keys())}")
        out[key] = _choices(key, values if isinstance(values, list) else [values], f"{label}: when: {name}")
    return out


def _range(key: str, value: Mapping[str, Any], label: str, when: Conditions) -> Dimension:
    kind = kind_of(FIELDS[key])[0]
    if kind not in (int, float):
        examples = choices_of(key, FIELDS[key].metadata["rule"]) or ("true", "false")
        raise SettingError(f"{label} is not a number: list its values, as in [{', '.join(examples)}]")
    for name in ("low", "high"):
        _refuse(value.get(name) is None, f"{label}: a range has low and high, and {name} is missing")
    low, high = (_value(key, value[name], f"{label}: {name}") for name in ("low", "high"))
    log = value.get("log", False)
    _refuse(not isinstance(log, bool), f"{label}: log is true or false, not {log!r}")
    step = None if value.get("step") is None else parse(f"{label}: step", FIELDS[key], value["step"])
    _refuse(low >= high, f"{label}: low {low:g} must be below high {high:g}")
    _refuse(log and low <= 0, f"{label}: log needs low above 0, and it is {low:g}")
    if step is not None:
        _refuse(not 0 < step <= high - low, f"{label}: step {step:g} must be above 0, and at most {high - low:g}")
        _refuse(log, f"{label}: give log or step, not both")
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
    """Return a value as YAML spells it."""
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else value_text(value)
