"""Functions shared by compare, tune and cross-validation: settings from a file and flags, the data, and the folder."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening, silent
from glassformer.config.resolve import Config, with_flags
from glassformer.config.setting import whole
from glassformer.families.base import FAMILIES, DataParts
from glassformer.families.build import split_data
from glassformer.families.recognition import file_settings, infer_config, with_vectors
from glassformer.pipeline.request import TrainRequest
from glassformer.runs.folders import contents
from glassformer.runs.run import RUNS, Run

AUTO = "auto"
"""Value of --jobs for as many processes at once as the GPUs have room for."""


class Repeats(NamedTuple):
    """Number of training runs per model: seeds, or folds instead."""

    seeds: int
    folds: int | None


def read_settings(request: TrainRequest) -> dict[str, Any]:
    """Return settings by dotted key, with absolute paths; a budget given by flag replaces that of the file."""
    return with_flags(file_settings(request.config), request.flags())


def refuse_reserved(settings: Mapping[str, Any], verb: str) -> None:
    """Refuse settings that many runs decide for themselves."""
    refuse(settings.get("data.refit"), f"data.refit leaves no validation part, which {verb} needs: use it in train")
    for key in ("data.folds", "data.fold"):
        refuse(settings.get(key) is not None, f"{key} is set by {verb} itself: give --folds K instead")


def refuse(condition: object, message: str) -> None:
    """Raise `Misuse` with a message if a condition holds."""
    if condition:
        raise Misuse(message)


def count_of(flag: str, value: object, *, least: int = 1, instead: str = "") -> int:
    """Return a flag's value as a whole number, such as 1e5. `instead`: a word that the flag accepts as well."""
    try:
        number = whole(value)
    except (ValueError, TypeError, OverflowError):
        raise Misuse(f"--{flag} wants a whole number{f' or {instead}' if instead else ''}, not {value!r}") from None
    refuse(number < least, f"--{flag} is {number}, but must be at least {least}")
    return number


def check_times(**times: object) -> None:
    """Refuse times that are not positive numbers."""
    for name, value in times.items():
        flag = f"--{name.replace('_', '-')}"
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise SettingError(f"{flag} wants a number, not {value!r}")
        if value is not None and not value > 0:
            raise SettingError(f"{flag} is {value:g}, but must be above 0")


def seeds_or_folds(seeds: object, folds: object, default_seeds: int) -> Repeats:
    """Return the number of seeds, and the number of folds if they are used instead."""
    refuse(None not in (seeds, folds), "--seeds and --folds: each fold is trained once, give one of them")
    count = None if folds is None else count_of("folds", folds, least=2)
    return Repeats(count_of("seeds", default_seeds if seeds is None else seeds), count)


def split_words(values: object) -> list[str]:
    """Return the words of a flag with commas between them, or of a list; a single value is one word."""
    several = values.split(",") if isinstance(values, str) else values if isinstance(values, Iterable) else [values]
    return [word for value in several if (word := str(value).strip())]


def check_data(settings: dict[str, Any]) -> None:
    """Raise the errors about the data that every run with these settings would raise, before the first one starts."""
    with listening(silent):
        check_split(*infer_config({}, with_vectors(settings, settings)))


def check_split(config: Config, rows: Any) -> DataParts:
    """Split the data once before many runs do, and raise the errors that a training run would raise."""
    corpus = split_data(config, rows)
    if "validation" not in corpus.parts:
        raise SettingError("nothing is held out: set data.validation_fraction above 0, or give --validation FILE")
    FAMILIES[config.task].check_corpus(config, corpus)
    return corpus


def check_out(folder: Path, what: str, *, holds: bool) -> None:
    """Refuse a file, and a folder with other contents than the work `what`. `holds`: whether the folder has that."""
    refuse(folder.is_file(), f"--out {folder} is a file: name a folder for the {what}")
    other = folder.is_dir() and not holds and bool(contents(folder))
    refuse(other, f"--out {folder} is not empty and holds no {what}: name another --out")


def data_stem(data: str) -> str:
    """Return the name of the data as used at the beginning of the names of run folders."""
    return Run.next_name(data, "x").name.rsplit("-x-", 1)[0]


def free_folder(stem: str, is_same: Callable[[Path], bool]) -> Path:
    """Return runs/<stem>-N: the folder of the same work, to continue it, or else the first unused name."""
    paths = (RUNS / f"{stem}-{number}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists() or is_same(path))
