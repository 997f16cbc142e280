"""A log whose lines were damaged is read as far as it is whole."""

import json
from pathlib import Path

import pytest

from glassformer.config.messages import listening
from glassformer.runs.files import read_log

STEP = {"event": "step", "step": 1, "loss": 0.5, "lr": 0.1, "gradient_norm": None, "seconds": 0.1, "done": 0.0}
VALIDATION = {"event": "validation", "step": 1, "best": True, "loss": 0.5}
FINDING = {"event": "finding", "kind": "a", "step": 0, "severity": "note", "words": "", "advice": "", "numbers": {}}
WHOLE = [STEP, {**STEP, "layers": {"a": {"gradient": 1.0}}}, VALIDATION, FINDING, {"event": "other"}]
DAMAGED = [
    *("5", '"x"', "[]", "null", "{", "[" * 100_000, '{"event": "step"}', '{"event": "validation"}', '{"step": null}'),
    *(json.dumps({**STEP, **odd}) for odd in ({"loss": "x"}, {"step": "x"}, {"layers": 5}, {"layers": {"a": 1}})),
    *(json.dumps({**VALIDATION, **odd}) for odd in ({"loss": None}, {"step": 1.5}, {"step": -1})),
    *(json.dumps({**FINDING, **odd}) for odd in ({"severity": "dire"}, {"words": 5}, {"numbers": []})),
    '{"event": "sample", "step": 1, "text": 5}',
]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_lines_are_passed_over(damaged: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps(line) for line in WHOLE]
    path.write_bytes("\n".join([*lines[:2], damaged, *lines[2:]]).encode() + b"\n\xff\xfe")
    said: list[str] = []
    with listening(said.append):
        assert read_log(path) == WHOLE
    assert said == [f"{path}: 1 damaged line left out of {len(WHOLE) + 1}"]  # what is torn at the end is no damage


def test_no_log(tmp_path: Path) -> None:
    assert read_log(tmp_path / "metrics.jsonl") == []
