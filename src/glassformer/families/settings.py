"""Settings as a person gives them, from a file and with paths from anywhere; and those of a run that goes on."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from glassformer.config.errors import Misuse, Say, SettingError
from glassformer.config.resolve import Config, flatten, resolve
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.hub import whole_name
from glassformer.families.base import Prepared
from glassformer.runs.run import Run
from glassformer.text.vectors import vectors_width
from glassformer.training.checkpointer import restore
from glassformer.training.schedule import total_steps
from glassformer.training.snapshot import Snapshot

PATHS = ("data.path", "data.validation", "data.test", "data.source_file", "data.target_file")
"""The settings that say where the data is: it may have moved."""
FIXED = ("training.optimizer", "training.loss", "training.last_blocks")
"""Of those of training: what the optimiser remembers is of these."""
RUNS = {"model.from_run": "--from", "model.decoder_from": "--decoder-from"}
"""The settings that name a run to begin from, and their flags."""


def read_config(path: str | Path) -> dict[str, Any]:
    """Settings from a YAML (or JSON) file; a run's `glassformer.json` serves as well."""
    try:
        value = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read the config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = (
            f" (line {error.problem_mark.line + 1})"
            if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark
            else ""
        )
        raise SettingError(f"{path} is not valid YAML{where}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingError(
            f"{path} must hold sections (data, tokenizer, model, training), not a {type(value).__name__}"
        )
    return value["config"] if isinstance(value.get("config"), dict) else value


def file_settings(path: str | Path | None) -> dict[str, Any]:
    """The settings of a file by dotted key, with paths that lead from anywhere; none, if there is no file."""
    settings = flatten(read_config(path) if path else {})
    return {key: whole_path(key, value) for key, value in settings.items()}


def flag_settings(data: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a person gave by dotted key, `data` among them, with paths that lead from anywhere."""
    if data is not None and not isinstance(data, str | os.PathLike):
        raise SettingError(f"data is a path or the name of a data set, not a {type(data).__name__}: write it to a file")
    flags = {**flatten(settings), **({} if data is None else {"data.path": str(data)})}
    return {key: whole_path(key, value) for key, value in flags.items()}


def with_vectors(said: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Pretrained word vectors bring their own width."""
    path = said.get("model.vectors")
    if path is None or said.get("model.embed_width") is not None:
        return flags
    return {**flags, "model.embed_width": vectors_width(path)}


def whole_path(key: str, value: Any) -> Any:
    """Paths as they lead from anywhere on this machine, so that `evaluate` finds the data again."""
    if key in PATHS and isinstance(value, str) and is_hub(value) and not Path(value).exists():
        return whole_name(value)
    if key in RUNS and value is not None and not value.strip():
        raise SettingError(f"{RUNS[key]} is empty: name a run's folder, or `last`")
    if key in RUNS and value == "last" and not Path(value).exists():
        return str(Run.last().path.resolve())
    is_path = key in (*PATHS, *RUNS, "tokenizer.file", "model.vectors") and value is not None and Path(value).exists()
    return str(Path(value).resolve()) if is_path else value


# --- going on with a run ---


def resumed_config(run: Run, flags: dict[str, Any]) -> Config:
    """The run's own settings; how to train may change, but not what the optimiser remembers.

    So may the place of the data: that it is the same is told by its fingerprint.
    """
    if "imported" in run.card():
        raise Misuse(f"{run.path} was imported and never trained here: train DATA --from {run.path} starts from it")
    saved = run.config().to_dict()
    before = flatten(saved)
    for key, value in flags.items():
        free = key in PATHS or (key.startswith("training.") and key not in FIXED)
        if not free and before.get(key) != value:
            raise SettingError(f"{key} cannot change when a run goes on: it was {before.get(key)!r}, not {value!r}")
    return resolve(saved, {key: value for key, value in flags.items() if before.get(key) != value})


def snapshot_to_resume(run: Run, config: Config, prepared: Prepared, say: Say) -> Snapshot | None:
    """Where the run stands, if there is something left to do."""
    finished = run.card().get("status") in ("finished", "stopped early")
    found = run.newest_checkpoint(say)
    if found is None:
        if finished:
            raise Misuse(f"{run.path} had finished and has no checkpoint to go on from: --overwrite trains it anew")
        say("no checkpoint to go on from: starting again from the first step")
        return None
    snapshot = restore(*found)
    done, wanted = snapshot.progress.step, total_steps(config.training, prepared.task)
    if wanted is not None and (wanted < done or (finished and wanted == done)):
        raise Misuse(f"{run.path} has made {done:,} updates, so {wanted:,} leave nothing to do: ask for more")
    _say_average(run.config().training.average, config.training.average, snapshot, say)
    return snapshot


def _say_average(before: int | None, span: int | None, snapshot: Snapshot, say: Say) -> None:
    """What becomes of the average of the weights, where it is not as it was."""
    if span is not None and not snapshot.average:
        say("training.average: the checkpoint holds no average yet, so it starts from the weights as they are")
    elif span is None and snapshot.average:
        say("training.average is unset: the checkpoint's average is dropped, and the weights are used as they are")
    elif span is not None and span != before:
        say(f"training.average: the average goes on, from here over about {span} updates")
