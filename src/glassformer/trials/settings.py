"""Settings of many runs, as a person gives them: from a file and from flags, which win; and the data that they name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.resolve import BUDGETS, Config, flatten
from glassformer.config.setting import whole
from glassformer.families.base import FAMILIES, DataParts
from glassformer.families.load import check_validation, split_data
from glassformer.families.settings import read_config, whole_path


def read_settings(data: str | Path | None, config: str | Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key, with paths that lead from anywhere; how long to train is the flag's, if it says so."""
    from_file = flatten(read_config(config) if config else {})
    from_flags = flatten({**flags, **({} if data is None else {"data.path": str(data)})})
    if any(from_flags.get(budget) is not None for budget in BUDGETS):
        from_file = {key: value for key, value in from_file.items() if key not in BUDGETS}
    return {key: whole_path(key, value) for key, value in {**from_file, **from_flags}.items()}


def refuse_reserved(settings: Mapping[str, Any], verb: str) -> None:
    """Refuse settings that many runs decide for themselves."""
    if settings.get("data.refit"):
        raise Misuse(f"data.refit leaves no validation part, which {verb} needs: leave it away (train --refit, later)")
    for key in ("data.folds", "data.fold"):
        if settings.get(key) is not None:
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


def check_split(config: Config, rows: Any) -> DataParts:
    """The data, divided once before many runs divide it: what a training would refuse is refused before a folder is
    made.
    """
    corpus = split_data(config, rows)
    check_validation(corpus, config)
    FAMILIES[config.task].check_corpus(config, corpus)
    return corpus
