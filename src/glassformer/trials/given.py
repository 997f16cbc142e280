"""Settings as a person gives them for many runs: from a file and from flags, which win."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.resolve import BUDGETS, flatten
from glassformer.config.setting import whole
from glassformer.families.settings import read_config, whole_path


def given_settings(data: str | Path | None, config: str | Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted key, with paths that lead from anywhere; how long to train is the flag's, where there is one."""
    from_file = flatten(read_config(config) if config else {})
    from_flags = flatten({**flags, **({} if data is None else {"data.path": str(data)})})
    if any(from_flags.get(budget) is not None for budget in BUDGETS):
        from_file = {key: value for key, value in from_file.items() if key not in BUDGETS}
    return {key: whole_path(key, value) for key, value in {**from_file, **from_flags}.items()}


def refuse_set_here(said: Mapping[str, Any], verb: str) -> None:
    """What many runs decide for themselves."""
    if said.get("data.refit"):
        raise Misuse(f"data.refit leaves no validation part, which {verb} needs: leave it away (train --refit, later)")
    for key in ("data.folds", "data.fold"):
        if said.get(key) is not None:
            raise Misuse(f"{key} is set by {verb} itself: give --folds K instead")


def count_of(flag: str, value: Any, *, least: int = 1) -> int:
    """A whole number that a flag gives, or Python; 1e5 is one too."""
    try:
        number = whole(value)
    except (ValueError, TypeError, OverflowError):
        raise Misuse(f"--{flag} wants a whole number, not {value!r}") from None
    if number < least:
        raise Misuse(f"--{flag} is {number}, but must be at least {least}")
    return number
