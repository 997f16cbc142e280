"""Settings in a file, known without torch."""

from pathlib import Path
from typing import Any

from glassformer.config.errors import SettingError, with_article
from glassformer.config.limits import read_text
from glassformer.config.resolve import flatten


def read_config(path: str | Path) -> dict[str, Any]:
    """Settings from a YAML (or JSON) file; a run's `glassformer.json` serves as well."""
    import yaml  # not for who only asks for help

    try:
        value = yaml.safe_load(read_text(path, streams=True))
    except OSError as error:
        raise SettingError(f"cannot read the config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = (
            f" (line {error.problem_mark.line + 1})"
            if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark
            else ""
        )
        raise SettingError(f"{path} is not valid YAML{where}") from None
    except RecursionError:
        raise SettingError(f"{path} is nested deeper than can be read") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingError(f"{path} must hold sections (data, tokenizer, model, training), not {with_article(value)}")
    return value["config"] if isinstance(value.get("config"), dict) else value


def check_config(path: str) -> None:
    """Refuse a file that is not there, or holds what is no setting; what can be read only once is not read yet."""
    if not Path(path).exists() or Path(path).is_file():
        flatten(read_config(path))
