"""The lines of metrics.jsonl that are whole: a killed process may leave half of one, a disk or a hand any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.config.errors import Say, silent
from glassformer.config.limits import LimitExceeded, limits, parse_json, refuse_endless
from glassformer.data.wording import counted

Line = dict[str, Any]

SEVERITIES = ("problem", "warning", "note")
"""Of findings, the worst first."""


def read_log(path: Path, say: Say = silent) -> list[Line]:
    """The whole lines of a log, in their order; none where there is no log. How many are damaged is said; half a line
    at the end is no damage: a killed process leaves one, and a living one writes it on.
    """
    if not path.is_file():
        return []
    lines: list[Line] = []
    damaged = 0
    refuse_endless(path)
    with path.open("rb") as file:  # as long as a training is: its lines are bounded, not the file
        for text in iter(lambda: file.readline(limits().field_bytes), b""):
            line = _parse(text, str(path))
            if line is not None:
                lines.append(line)
            elif text.endswith(b"\n"):
                damaged += 1
    if damaged:
        say(f"{path}: {counted(damaged, 'damaged line')} left out of {damaged + len(lines):,}")
    return lines


def _parse(text: bytes, name: str) -> Line | None:
    """A line, if it is whole."""
    try:
        line = parse_json(text.decode("utf-8", errors="replace"), name)
    except (ValueError, LimitExceeded):
        return None
    return line if isinstance(line, dict) and _is_whole(line) else None


def _is_whole(line: Line) -> bool:
    """Whether a line has what its readers take from it; one of an event that nobody knows, whatever it has."""
    event, step = line.get("event"), line.get("step", 0)
    if type(step) is not int or step < 0:
        return False
    if event == "step":
        layers = line.get("layers") or {}
        return (
            all(_is_number(line.get(name)) for name in ("step", "loss", "lr", "seconds", "done"))
            and (line.get("gradient_norm") is None or _is_number(line["gradient_norm"]))
            and isinstance(layers, Mapping)
            and all(isinstance(sizes, Mapping) and all(map(_is_number, sizes.values())) for sizes in layers.values())
        )
    if event == "validation":
        return "step" in line and all(
            _is_number(value) for name, value in line.items() if name not in ("event", "best")
        )
    if event == "sample":
        return "step" in line and isinstance(line.get("text"), str)
    if event == "finding":
        texts = ("kind", "words", "advice")
        return (
            "step" in line
            and all(isinstance(line.get(name), str) for name in texts)
            and line.get("severity") in SEVERITIES
            and isinstance(line.get("numbers"), Mapping)
        )
    return not line.get("why") or isinstance(line["why"], str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
