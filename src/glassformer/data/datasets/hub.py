"""Data sets of the Hugging Face hub, or saved on this machine by its library: hf:NAME, hf:NAME:CONFIG, hf:FOLDER.

Without a split (hf:NAME#SPLIT), the split `train` is read, and its validation and test splits are held out.
"""

import functools
import importlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError, MissingPackage, first_line
from glassformer.config.messages import say
from glassformer.data.datasets.dataset import HUB, Dataset, Row
from glassformer.data.io.rows import as_text

TRAIN = "train"
HELD_OUT = {"validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""Names of splits for each part; the first that exists is used."""

BATCH_ROWS = 1024
"""Rows that are unpacked at once."""

UNREADABLE = ("Image", "Audio", "Video", "Pdf", "Nifti", "Array2D", "Array3D", "Array4D", "Array5D")
"""Types of columns that are neither texts nor numbers and are left out."""

PAIR = "translation"
"""A column with a text in several languages, which becomes one column per language."""

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


@dataclass(frozen=True)
class HubName:
    """The parts of a name."""

    spec: str
    """The name, as the user gave it."""
    folder: Path | None
    """Folder of a data set that was saved on this machine."""
    name: str
    config: str | None
    split: str | None


def open_hub(spec: str) -> Dataset:
    """Open one split; its rows are read later."""
    named = _parse_name(spec)
    split = _choose_split(named, _splits(named))
    columns = hub_columns(split.features)
    if not columns:
        raise DataError(f"{spec}: no column holds texts, numbers or classes (columns: {', '.join(split.features)})")
    names = tuple(column.name for column in columns)
    read = {column.origin for column in columns}
    omitted = [name for name in split.features if name not in read]
    note = f"left out: {', '.join(omitted)} (neither text nor number)" if omitted else ""
    return Dataset(spec, functools.partial(_rows, spec, split, columns), columns=names, note=note)


def own_parts(spec: str, said: Mapping[str, Any]) -> dict[str, str]:
    """Return settings that hold out the data set's own splits, unless the user set these parts (`said`)."""
    named = _parse_name(spec)
    if named.split is not None:
        return {}
    splits = _splits(named)
    _choose_split(named, splits)
    found = {}
    for part, names in HELD_OUT.items():
        name = next((name for name in names if name in splits), None)
        asked = any(said.get(key) is not None for key in (f"data.{part}", f"data.{part}_fraction"))
        if name is None or asked or (part == "validation" and said.get("data.folds") is not None):
            continue
        if labels_are_secret(splits[name]):
            say(f"{spec}: the labels of its split '{name}' are kept secret, so that it is not the {part} part")
            continue
        found[f"data.{part}"] = f"{spec}#{name}"
    return found


def whole_name(spec: str) -> str:
    """Return the name, with the absolute path of a folder."""
    named = _parse_name(spec)
    if named.folder is None:
        return spec
    return f"{HUB}{named.folder.resolve()}" + (f"#{named.split}" if named.split is not None else "")


def _parse_name(spec: str) -> HubName:
    asked = spec.removeprefix(HUB)
    has_split = "#" in asked and not os.path.isdir(os.path.expanduser(asked))
    place, _, split = asked.rpartition("#") if has_split else (asked, "", None)
    if os.path.isdir(folder := os.path.expanduser(place)):
        return HubName(spec, Path(folder), place, None, split)
    name, _, config = place.partition(":")
    if os.path.exists(name) or not HUB_NAME.fullmatch(name):
        raise DataError(f"'{spec}' names no data set: write hf:NAME, hf:NAME:CONFIG, or hf:FOLDER (of save_to_disk)")
    return HubName(spec, None, name, config or None, split)


def _choose_split(named: HubName, splits: Mapping[str, Any]) -> Any:
    split = TRAIN if named.split is None else named.split
    if split not in splits:
        raise DataError(f"{named.spec}: no split '{split}' (splits: {', '.join(splits)}): write hf:NAME#SPLIT")
    return splits[split]


# --- opening ---


def _splits(named: HubName) -> dict[str, Any]:
    """Return every split by name, mapped from disk."""
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError:
        raise MissingPackage.needed(f"{named.spec}: a data set of the hub", "datasets", "hub") from None
    if named.folder is None:
        return _of_hub(datasets, named)
    _check_names(named, named.folder)
    try:
        found = datasets.load_from_disk(str(named.folder), keep_in_memory=False)
    except Exception as error:  # damaged files raise any kind of error
        raise _damage(named.spec, error) from None
    return dict(found) if isinstance(found, dict) else {TRAIN: found}


@functools.cache
def _download(datasets: Any, name: str, config: str | None) -> dict[str, Any]:
    """Return every split from the hub or the local cache. Code in a data set is never executed."""
    if hasattr(datasets.config, "HF_DATASETS_TRUST_REMOTE_CODE"):
        datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = False
    return dict(datasets.load_dataset(name, config))


def _of_hub(datasets: Any, named: HubName) -> dict[str, Any]:
    try:
        with quiet_hub():
            return _download(datasets, named.name, named.config)
    except Exception as error:  # the library raises many kinds of errors
        words = first_line(error)[:200]
        hint = f": name it, as {HUB}{named.name}:CONFIG" if "config" in words.lower() else ""
        why = refusal(error, f"datasets/{named.name}", f"or name a folder that save_to_disk wrote, {HUB}FOLDER")
        raise DataError(f"{named.spec}: {why or f'cannot be opened: {words}{hint}'}") from None


def _check_names(named: HubName, folder: Path) -> None:
    """Raise `DataError` for a folder that is not a data set, or whose files refer to files outside of it."""
    listing, state = folder / "dataset_dict.json", folder / "state.json"
    if not listing.is_file() and not state.is_file():
        raise DataError(f"{named.spec}: save_to_disk wrote no data set there: give the folder without {HUB}")
    try:
        names = list(json.loads(listing.read_text())["splits"]) if listing.is_file() else []
        for place in [folder / split for split in names if _is_plain(split)] if listing.is_file() else [folder]:
            files = [file["filename"] for file in json.loads((place / "state.json").read_text())["_data_files"]]
            if not files:
                raise DataError(f"{named.spec}: no rows in {place.name}")
            names += files
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damage(named.spec, error) from None
    if odd := next((name for name in names if not _is_plain(name)), None):
        raise DataError(f"{named.spec} names a file outside of its folder: {str(odd)[:60]!r}")


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def _damage(spec: str, error: BaseException) -> DataError:
    why = first_line(error)[:200]  # also for a missing file
    return DataError(f"{spec} is damaged, or no data set: write it anew with save_to_disk ({why})")


# --- columns ---


@dataclass(frozen=True)
class HubColumn:
    name: str
    origin: str
    """The column of the data set."""
    inner: str | None
    """Key of the value in a column with several values by name."""
    feature: Any
    """The type of its values, in the library's terms."""

    def texts(self, values: Sequence[Any]) -> Iterator[str]:
        for value in values:
            if self.inner is not None:
                value = None if value is None else value.get(self.inner)
            yield as_text(_class_name(value, self.feature))


def hub_columns(features: Mapping[str, Any]) -> tuple[HubColumn, ...]:
    """Return the columns that can be read."""
    found: dict[str, HubColumn] = {}
    for name, feature in features.items():
        if type(feature).__name__ in UNREADABLE:
            continue
        if languages := _languages(name, feature):
            found |= {language: HubColumn(language, name, language, None) for language in languages}
        else:
            found[name] = HubColumn(name, name, None, feature)
    return tuple(found.values())


def labels_are_secret(split: Any) -> bool:
    """Return whether a split has classes but no labels."""
    classes = [name for name, feature in split.features.items() if _is_class(feature)]
    return any(
        len(split) > 0 and all(value in (None, -1) for value in split.data.column(name).unique().to_pylist())
        for name in classes
    )


def _languages(name: str, feature: Any) -> list[str]:
    if name != PAIR:
        return []
    if isinstance(feature, Mapping):
        return list(feature)
    return list(getattr(feature, "languages", [])) if type(feature).__name__ == "Translation" else []


def _is_class(feature: Any) -> bool:
    return type(feature).__name__ == "ClassLabel"


def _class_name(value: Any, feature: Any) -> Any:
    """Replace the numbers of classes by names, also in lists; secret labels become None."""
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        return [_class_name(one, inner) for one in value]
    if not _is_class(feature) or not isinstance(value, int):
        return value
    if value < 0:
        return None
    return feature.names[value] if value < len(feature.names or ()) else value


# --- reading ---


def _rows(spec: str, split: Any, columns: tuple[HubColumn, ...]) -> Iterator[Row]:
    """Yield the rows batch by batch; only columns that are read are decoded."""
    if not len(split):
        raise DataError(f"{spec} has no rows")
    wanted = list(dict.fromkeys(column.origin for column in columns))
    try:
        for batch in split.select_columns(wanted).with_format("arrow").iter(batch_size=BATCH_ROWS):
            values = {name: batch.column(name).to_pylist() for name in wanted}
            yield from zip(*(column.texts(values[column.origin]) for column in columns), strict=True)
    except Exception as error:  # from the library or Arrow
        raise _damage(spec, error) from None


# --- errors of the hub ---

LIBRARY = "huggingface_hub"
GATED = "GatedRepoError"
NOT_THERE = {"RepositoryNotFoundError", "DatasetNotFoundError", "RevisionNotFoundError"}
REFUSALS: tuple[tuple[set[str], str], ...] = (
    ({GATED}, "its owner grants access on request: ask at {page}, then log in with `hf auth login`"),
    (
        {"LocalEntryNotFoundError", "ConnectionError", "TransportError"},
        "the hub cannot be reached, and there is no local copy: check the network, {instead}",
    ),
    ({"EntryNotFoundError"}, "the hub has no such file: see {page}/tree/main"),
    (
        NOT_THERE,
        "the hub has nothing with this name that you may read: check the name; if it is private, `hf auth login`",
    ),
)
"""Names of error classes (or their base classes), so that their libraries need not be installed, and messages; the
first match counts."""


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence the library's messages on retries."""
    logger = logging.getLogger(LIBRARY)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def refusal(error: Exception, page: str, instead: str) -> str | None:
    """Return why the hub refused a request, and what to do; None for other errors.

    `page`: its page on the hub; `instead`: what to do without a network.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & NOT_THERE and "gated" in str(error):
        kinds.add(GATED)
    found = next((sentence for names, sentence in REFUSALS if kinds & names), None)
    return found and found.format(page=f"https://huggingface.co/{page}", instead=instead)
