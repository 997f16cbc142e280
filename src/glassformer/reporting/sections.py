"""The report of a training, panel by panel: how it went and how good the model is; where it is wrong, `errors` says."""

import shlex
from collections.abc import Mapping
from typing import Any

from glassformer.config.encoders import OWN
from glassformer.config.presets import TEXT, labels_examples
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve
from glassformer.rendering.curves import Records, named
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.text.display import cut

MOST_ROWS = 500
"""Of a table of classes."""


# --- how it went ---


def samples(metrics: Records) -> list[Panel]:
    """What was written on the way: the first, the middle and the last."""
    lines = [line for line in metrics if line.get("event") == "sample"]
    some = sorted({0, len(lines) // 2, len(lines) - 1}) if lines else []
    return [
        Words(title=f"Sample after {lines[place]['step']:,} updates", text=cut(lines[place]["text"].strip("\n")))
        for place in some
    ]


# --- how good it is ---


def scores(parts: Mapping[str, Mapping[str, float]], note: str = "") -> Table:
    """The metrics of each part that was evaluated."""
    names = list(dict.fromkeys(name for metrics in parts.values() for name in metrics))
    rows: Rows = [[named(name), *(metrics.get(name) for metrics in parts.values())] for name in names]
    return Table(title="How good it is", columns=["metric", *parts], rows=rows, note=note)


def by_class(classes: Mapping[str, Mapping[str, float]], what: str = "class") -> Table:
    """Precision, recall and F1 of each class, or label."""
    columns = list(next(iter(classes.values())))
    rows: Rows = [[cut(name, 60), *(values[column] for column in columns)] for name, values in classes.items()]
    shares = ("precision", "recall", "f1")
    note = f"The first {MOST_ROWS:,} of {len(rows):,}." if len(rows) > MOST_ROWS else ""
    title = f"{what.capitalize()} by {what}"
    return Table(title=title, columns=[what, *columns], rows=rows[:MOST_ROWS], bars=shares, note=note)


# --- how to do it again ---


def command_of(config: Config) -> str:
    """The command that would train a run again, for one that was trained from Python: every setting that is not what
    the task and the model would start from. Of a person's own model, in Python.
    """
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
