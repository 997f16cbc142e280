"""What a comparison left behind, damaged: one line, or the job is done again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import RunError
from glassformer.runs.files import json_digest
from glassformer.trials.jobs import CurvePoint, Job, Outcome
from glassformer.trials.running.folder import AskedQuestion, Folder

IDENTITY: dict[str, Any] = {"data": "x", "data.same_text": "exact"}
JOB = Job(name="bag", settings={"data.same_text": "exact"})
OUTCOME = Outcome(
    job=JOB, metrics={"accuracy": 0.5}, primary="accuracy", scores=[1.0, 0.0], curve=[CurvePoint(1, 0.1, 0.5)]
)


@pytest.mark.parametrize(
    "question",
    [
        "{}",
        '{"identity": 5, "ids": [], "finished": false}',
        '{"identity": {}, "ids": [5], "finished": false}',
        '{"identity": {}, "ids": 5, "finished": false}',
    ],
)
def test_a_damaged_question(question: str, tmp_path: Path) -> None:
    (tmp_path / "question.json").write_text(question)
    folder = Folder(tmp_path)
    with pytest.raises(RunError, match="--overwrite"):
        folder.open(AskedQuestion(IDENTITY, []), overwrite=False)
    folder.open(AskedQuestion(IDENTITY, ["a"]), overwrite=True)
    folder.open(AskedQuestion(IDENTITY, ["a"]), overwrite=False)


@pytest.mark.parametrize(
    "odd",
    [
        {"job": 5},
        {"job": {**asdict(JOB), "settings": 5}},
        {"job": {**asdict(JOB), "kind": "odd"}},
        {"metrics": "x"},
        {"metrics": {"accuracy": "x"}},
        {"metrics": {}},
        {"scores": [None]},
        {"scores": 5},
        {"weights": [1.0]},
        {"curve": [[1, 2]]},
        {"curve": 5},
        {"curve": [{"updates": "x", "seconds": 1.0, "score": 0.5}]},
        {"seconds": "x"},
        {"more": 1},
    ],
)
def test_a_damaged_outcome_is_no_outcome(odd: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / JOB.id
    folder.mkdir(parents=True)
    OUTCOME.write(folder / "outcome.json")
    assert Folder(tmp_path).outcome(JOB) == OUTCOME
    damaged = {**asdict(OUTCOME), **odd}
    (folder / "outcome.json").write_text(json.dumps({**damaged, "digest": json_digest(damaged)}))
    assert Folder(tmp_path).outcome(JOB) is None


@pytest.mark.parametrize("change", [{"scores": [1.0, 1.0]}, {"metrics": {"accuracy": 0.75}}, {"undertrained": ""}])
def test_a_changed_outcome_is_no_outcome(change: dict[str, Any], tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.job_folder(JOB) / "outcome.json"
    path.parent.mkdir(parents=True)
    OUTCOME.write(path)
    assert folder.invalid_outcomes([]) == []
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert folder.outcome(JOB) is None
    assert folder.outcomes([]) == []
    assert folder.invalid_outcomes([]) == [path]
