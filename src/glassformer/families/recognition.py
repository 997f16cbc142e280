"""What the data is for: from the settings that a person gave to a whole configuration."""

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
    """The whole configuration: what the settings leave open, what the data looks like decides.

    A task that is asked for recognises its own data; else images, pairs of texts and labels are looked for in this
    order, and what has none of these is a text.
    """
    request = ConfigRequest(file, flags)
    if request.task is not None:
        return FAMILIES[request.task].recognise(_with_own_parts(request))
    request = _with_own_parts(request)
    return recognise_images(request) or recognise_pairs(request) or recognise_table(request) or recognise_text(request)


def _with_own_parts(request: ConfigRequest) -> ConfigRequest:
    """What a data set of the hub holds out itself becomes settings."""
    path = request.path
    if path is None or not is_hub(path) or find(path) is not None:
        return request
    return replace(request, file={**resolve.flatten(request.file), **own_parts(path, request.settings)})


# --- images, tables ---


def recognise_images(request: ConfigRequest) -> Recognition | None:
    """Folders or arrays of images, each with a class."""
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
    """A table with a column of labels or numbers; where it has none, its texts are for a language model."""
    path, settings = request.path, request.data
    if path is None or not holds_table(path):
        if path is not None and request.task is not None:
            raise DataError(f"{path} is not a table, but {request.task} needs columns (.csv, .tsv, .jsonl, .parquet)")
        return None
    table = read_table(path, settings, most=SAMPLE_ROWS)  # a corpus may be too large to hold
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
    if config.data.all_columns:  # a run names the columns that it read
        config = replace(config, data=replace(config.data, extra_columns=facts["data.extra_columns"]))
    if presets.reads_stream(config.task):
        return Recognition(resolve.that_writes(config))
    if request.finetuning is None and not request.has_budget:
        config = resolve.with_epochs(config, len(table))
    return Recognition(config, table)


def _columns(table: Table, request: ConfigRequest) -> Columns:
    """What each column is for. A model that reads no texts takes a table for its other columns, if it has any, and one
    that reads no tables any text there is.
    """
    said, kind = request.settings, presets.label_kind_of(request.task)
    reads = encoder_info(said.get("model.encoder", ModelSettings.encoder)).reads
    if presets.TABLE in reads and presets.TEXT not in reads and "data.kind" not in said:
        with contextlib.suppress(DataError):
            return choose_columns(table, replace(request.data, kind=presets.TABLE), kind)
    return choose_columns(table, request.data, kind, any_text="model.encoder" in said and presets.TABLE not in reads)


def _check_kind(request: ConfigRequest, columns: Columns, name: str) -> None:
    """Refuse a kind of examples that was asked for and is not there."""
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
    """Two columns of texts, two files line by line, or a translation memory."""
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
    """Whether pairs come from two files, or from a translation memory: then their columns need no names."""
    return settings.source_file is not None or (settings.path is not None and is_tmx(settings.path))


def find_pairs(settings: DataSettings, *, asked: bool) -> PairTable | None:
    """Pairs to translate, where that is asked for or plainly what is there."""
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
    """Pairs to translate. `table`: where it has been read already."""
    if table is not None:
        named = ("source", "target") if is_read_apart(data) else (data.source, data.target)
        return PairTable(table, str(named[0]), str(named[1]))
    pairs = find_pairs(data, asked=True)
    if pairs is None:
        raise SettingError(NO_DATA)
    return pairs


# --- texts ---


def recognise_text(request: ConfigRequest) -> Recognition:
    """A text is what a language model learns, or what the run that it starts from has learned."""
    task = request.task or (None if request.finetuning is None else request.finetuning.task)
    return Recognition(resolve.that_writes(request.resolve({"task": task})))


# --- settings as a person gives them ---


RUNS = {"model.from_run": "--from", "model.decoder_from": "--decoder-from"}
"""The settings that name a run to begin from, and their flags."""


def file_settings(path: str | Path | None) -> dict[str, Any]:
    """The settings of a file by dotted key, with paths that lead from anywhere; none, if there is no file."""
    settings = resolve.flatten(resolve.read_config(path) if path else {})
    return {key: whole_path(key, value) for key, value in settings.items()}


def flag_settings(data: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a person gave by dotted key, `data` among them, with paths that lead from anywhere."""
    check_type("data", data, str | Path | None)
    flags = {**resolve.flatten(settings), **({} if data is None else {"data.path": str(data)})}
    resolve.check_ranges(flags)  # before anything is read
    return {key: whole_path(key, value) for key, value in flags.items()}


def with_vectors(said: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Pretrained word vectors bring their own width."""
    path = said.get("model.vectors")
    if path is None or said.get("model.embed_width") is not None:
        return flags
    return {**flags, "model.embed_width": vectors_width(path)}


def whole_path(key: str, value: Any) -> Any:
    """Paths as they lead from anywhere on this machine, so that `evaluate` finds the data again."""
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
