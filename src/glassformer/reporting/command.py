"""The command that would train a run again, for one that was trained from Python."""

import shlex
from typing import Any

from glassformer.config.encoders import OWN
from glassformer.config.presets import TEXT, labels_examples
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve


def command_of(config: Config) -> str:
    """Every setting that is not what the task and the model would start from; of a person's own model, in Python."""
    kind = {"data.kind": config.data.kind} if labels_examples(config.task) and config.data.kind != TEXT else {}
    said = {"task": config.task, "model.encoder": config.model.encoder, **kind}
    start = flatten(resolve({}, said, strict=False).to_dict())
    whole = flatten(config.to_dict())
    changed = {key: value for key, value in whole.items() if key not in said and start.get(key) != value}
    changed = {key: value for key, value in changed.items() if key not in BUDGETS or value is not None}
    path = changed.pop("data.path", None)
    if config.model.encoder == OWN:
        settings = {"task": config.task, **changed}
        return f"gf.train({path!r}, model=…, **{settings!r})"
    flags = {"task": config.task, "model": config.model.encoder, **kind}
    words = [f"--{key} {_word(value)}" for key, value in {**flags, **changed}.items()]
    return " ".join(["glassformer train", *([] if path is None else [shlex.quote(path)]), *words])


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return shlex.quote(str(value))
