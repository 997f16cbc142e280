"""Recognise the task that data is for, and complete a user's settings."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config import presets, resolve
from glassformer.config.arguments import check_type
from glassformer.config.data_section import BETWEEN_FILES
from glassformer.config.encoders import encoder_info
from glassformer.config.errors import DataError, SettingError
from glassformer.config.messages import say
from glassformer.config.model_section import ModelSettings
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns, choose_columns, may_hold_labels
from glassformer.data.columns.schema import unread_in_words
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.datasets.hub import own_parts, whole_name
from glassformer.data.io.aligned import is_tmx, read_aligned, read_tmx
from glassformer.data.io.pictures import holds_pictures, read_pictures
from glassformer.data.io.place import find, is_several, join_paths
from glassformer.data.io.table import SAMPLE_ROWS, Table, holds_table, read_table
from glassformer.data.split.labelled import PICTURE_COLUMNS
from glassformer.data.split.pairs import pair_columns
from glassformer.families.base import FAMILIES
from glassformer.families.requests import NO_DATA, ConfigRequest, Recognition
from glassformer.runs.run import Run
from glassformer.text.vectors import vectors_width


def infer_config(file: Mapping[str, Any], flags: Mapping[str, Any]) -> Recognition:
    """Return the complete configuration, with settings inferred from the data where the user left them open.

    A requested task recognises its own data. Otherwise images, pairs of texts and labels are searched for in this
    order, and all other data is text.
    """
    request = ConfigRequest(file, flags)
    if request.task is not None:
        return FAMILIES[request.task].recognise(_with_own_parts(request))
    request = _with_own_parts(request)
    return recognise_images(request) or recognise_pairs(request) or recognise_table(request) or recognise_text(request)


def _with_own_parts(request: ConfigRequest) -> ConfigRequest:
    """Add the parts that a Hugging Face data set defines itself to the settings."""
    path = request.path
    if path is None or not is_hub(path) or find(path) is not None:
        return request
    return replace(request, file={**resolve.flatten(request.file), **own_parts(path, request.settings)})


# --- images, tables ---


def recognise_images(request: ConfigRequest) -> Recognition | None:
    """Recognise folders or arrays of images, each image with a class; None if the data has no images."""
    path = request.path
    if path is None or not holds_pictures(path):
        return None
    if request.finetuning is not None:
        raise SettingError(f"{request.finetuning.sources.first} reads texts, but {path} holds pictures")
    if presets.label_kind_of(request.task) not in (presets.ANY_LABEL, presets.CLASS):
        needed = f"{request.task} of pictures needs a table whose column --image names their files"
        raise DataError(f"{path} holds pictures with a class each: {needed}")
    pictures = read_pictures(path, request.data.size_of_images())
    say(f"pictures of {len(set(pictures.labels)):,} classes; task: {presets.CLASSIFICATION} (--task)")
    config = request.resolve({"task": presets.CLASSIFICATION, "data.kind": presets.IMAGE})
    _check_kind(request, PICTURE_COLUMNS, pictures.name)
    return Recognition(config if request.has_budget else resolve.with_epochs(config, len(pictures)), pictures)


def recognise_table(request: ConfigRequest) -> Recognition | None:
    """Recognise a table with a column of labels or numbers. Without one, its texts are for a language model.

    Return None if the data is not a table and no task is requested.
    """
    path, settings = request.path, request.data
    if path is None or not holds_table(path):
        if path is not None and request.task is not None:
            raise DataError(f"{path} is not a table, but {request.task} needs columns (.csv, .tsv, .jsonl, .parquet)")
        return None
    table = read_table(path, settings, most=SAMPLE_ROWS)  # a corpus may be too large for memory
    has_more = len(table) == SAMPLE_ROWS
    if has_more and (request.task is not None or may_hold_labels(table, settings)):
        table = read_table(path, settings)
    columns = _columns(table, request)
    say(f"columns: {columns.why}")
    _check_kind(request, columns, table.name)
    facts = {
        "task": presets.TASK_OF_LABELS[columns.label_kind],
        "data.text": columns.text,
        "data.label": columns.label,
        "data.kind": columns.kind,
        "data.extra_columns": ",".join(columns.also) or None,
        "data.label_separator": columns.separator,
    }
    if request.finetuning is not None and columns.label_kind is None:
        facts["task"] = request.finetuning.task
    config = request.resolve(facts, rows=len(table))
    if config.data.all_columns:  # the run's settings name the columns that it reads
        config = replace(config, data=replace(config.data, extra_columns=facts["data.extra_columns"]))
    if presets.reads_stream(config.task):
        return Recognition(resolve.that_writes(config))
    if request.finetuning is None and not request.has_budget:
        config = resolve.with_epochs(config, len(table))
    return Recognition(config, table)


def _columns(table: Table, request: ConfigRequest) -> Columns:
    """Return the role of each column.

    A model that reads no text uses the other columns of a table, if there are any. A model that reads no columns uses
    any column of texts.
    """
    said, kind = request.settings, presets.label_kind_of(request.task)
    reads = encoder_info(said.get("model.encoder", ModelSettings.encoder)).reads
    if presets.TABLE in reads and presets.TEXT not in reads and "data.kind" not in said:
        with contextlib.suppress(DataError):
            return choose_columns(table, replace(request.data, kind=presets.TABLE), kind)
    return choose_columns(table, request.data, kind, any_text="model.encoder" in said and presets.TABLE not in reads)


def _check_kind(request: ConfigRequest, columns: Columns, name: str) -> None:
    """Raise `SettingError` if the user asked for another kind of examples than the data has."""
    kind = request.settings.get("data.kind")
    if kind not in (None, columns.kind):
        held = resolve.KINDS_IN_WORDS[columns.kind]
        raise SettingError(f"data.kind {kind}: {name} holds {held} ({columns.why}): leave --data.kind unset")


# --- pairs of texts ---


@dataclass(frozen=True)
class PairTable:
    """Pairs to translate, with the names of their columns."""

    table: Table
    source: str
    target: str


def recognise_pairs(request: ConfigRequest) -> Recognition | None:
    """Recognise two columns of texts, two files with matching lines, or a translation memory; None without pairs."""
    pairs = find_pairs(request.data, asked=request.task is not None)
    if pairs is None:
        return None
    others = [name for name in pairs.table.columns if name not in (pairs.source, pairs.target)]
    unread = unread_in_words(dict.fromkeys(others, "neither source nor target"))
    from_to = f"columns: from '{pairs.source}' to '{pairs.target}' (--source, --target)"
    if request.data.source_file is not None:
        from_to = f"pairs: line by line from {request.data.source_file} to {request.data.target_file}"
    say("; ".join(filter(None, [from_to, f"task: {presets.TRANSLATION} (--task)", unread])))
    named = {} if is_read_apart(request.data) else {"data.source": pairs.source, "data.target": pairs.target}
    config = request.resolve({"task": presets.TRANSLATION, **named})
    return Recognition(resolve.that_writes(config), pairs.table)


def is_read_apart(settings: DataSettings) -> bool:
    """Return whether pairs come from two files or from a translation memory, whose columns need no names."""
    return settings.source_file is not None or (settings.path is not None and is_tmx(settings.path))


def find_pairs(settings: DataSettings, *, asked: bool) -> PairTable | None:
    """Return pairs to translate; None if there are none and the user has not asked for them.

    `asked`: the user asked for translation, so that missing pairs are an error.
    """
    if settings.source_file is not None:
        table = read_aligned(settings.source_file, str(settings.target_file), settings.encoding)
        return PairTable(table, "source", "target")
    if settings.path is None:
        return None
    if is_tmx(settings.path):
        return PairTable(read_tmx(settings.path, settings.source, settings.target), "source", "target")
    if not holds_table(settings.path):
        if asked or settings.source or settings.target:
            needed = "a table with two columns, a .tmx file, or --source-file and --target-file"
            raise DataError(f"{settings.path} holds no pairs: translation needs {needed}")
        return None
    embedded = find(settings.path, several=True) is None
    sample = open_dataset(settings.path) if embedded else read_table(settings.path, settings, most=SAMPLE_ROWS)
    there = sample.columns
    names = pair_columns(settings.path, there, settings)
    if names is None:
        if asked:
            raise DataError(f"{settings.path}: name --source and --target (columns: {', '.join(there)})")
        return None
    return PairTable(read_table(settings.path, settings), *names)


def pairs_of(data: DataSettings, table: Table | None = None) -> PairTable:
    """Return pairs to translate. `table`: the table if it has been read already."""
    if table is not None:
        named = ("source", "target") if is_read_apart(data) else (data.source, data.target)
        return PairTable(table, str(named[0]), str(named[1]))
    pairs = find_pairs(data, asked=True)
    if pairs is None:
        raise SettingError(NO_DATA)
    return pairs


# --- texts ---


def recognise_text(request: ConfigRequest) -> Recognition:
    """Recognise text: for the task of the source run when fine-tuning, else for the default task."""
    task = request.task or (None if request.finetuning is None else request.finetuning.task)
    return Recognition(resolve.that_writes(request.resolve({"task": task})))


# --- settings from the user ---


RUNS = {"model.from_run": "--from", "model.decoder_from": "--decoder-from"}
"""Settings that name a run to initialise from, with their flags."""


def file_settings(path: str | Path | None) -> dict[str, Any]:
    """Return the settings of a file by dotted key, with absolute paths; empty without a file."""
    settings = resolve.flatten(resolve.read_config(path) if path else {})
    return {key: whole_path(key, value) for key, value in settings.items()}


def flag_settings(data: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's settings by dotted key, including `data`, with absolute paths."""
    check_type("data", data, str | Path | None)
    flags = {**resolve.flatten(settings), **({} if data is None else {"data.path": str(data)})}
    resolve.check_ranges(flags)  # before any data is read
    return {key: whole_path(key, value) for key, value in flags.items()}


def with_vectors(said: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Set the embedding width to the width of the pretrained word vectors, unless it is set."""
    path = said.get("model.vectors")
    if path is None or said.get("model.embed_width") is not None:
        return flags
    return {**flags, "model.embed_width": vectors_width(path)}


def whole_path(key: str, value: Any) -> Any:
    """Return the absolute path of a setting that is a path, so that `evaluate` finds the data again from any folder."""
    if key in resolve.DATA_PATHS and isinstance(value, str) and is_several(value):
        return join_paths(Path(part).expanduser().absolute() for part in value.split(BETWEEN_FILES))
    if key in resolve.DATA_PATHS and isinstance(value, str) and is_hub(value) and not Path(value).exists():
        return whole_name(value)
    if key in RUNS and value is not None and not value.strip():
        raise SettingError(f"{RUNS[key]} is empty: name a run's folder, or `last`")
    if key in RUNS and value == "last" and not Path(value).exists():
        return str(Run.last().path.resolve())
    is_path = key in (*resolve.DATA_PATHS, *resolve.OTHER_PATHS) and value is not None and Path(value).exists()
    return str(Path(value).resolve()) if is_path else value
