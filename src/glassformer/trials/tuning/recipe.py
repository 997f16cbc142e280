"""A recipe: the settings of the best trial, as `train --config` takes them."""

from pathlib import Path
from typing import Any

import yaml

from glassformer.config.resolve import SECTIONS, flatten
from glassformer.runs.files import write_text
from glassformer.trials.tuning.search import Search


def recipe_of(search: Search, settings: dict[str, Any]) -> dict[str, Any]:
    """ModelInput and searched settings, by section."""
    flat = flatten({**search.settings, **settings})
    out: dict[str, Any] = {"task": flat.pop("task", search.task), **{section: {} for section in SECTIONS}}
    for key, value in flat.items():
        section, name = key.split(".")
        out[section][name] = value
    return {name: held for name, held in out.items() if held}


def write_recipe(path: Path, search: Search, settings: dict[str, Any], said: str) -> None:
    where = search.settings.get("data.path", "")
    data = f"{Path(where).name} " if where else ""
    head = f"# {said}\n# glassformer train {data}--config {path.name}\n"
    write_text(path, head + yaml.safe_dump(recipe_of(search, settings), sort_keys=False, allow_unicode=True))
