"""Settings as a person gives them: from a file, with paths that lead from anywhere, and what follows from them."""

from pathlib import Path
from typing import Any

import yaml

from glassformer.config.errors import SettingError
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.hub import whole_name
from glassformer.families.resume import PATHS
from glassformer.runs.run import Run
from glassformer.text.vectors import vectors_width

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
