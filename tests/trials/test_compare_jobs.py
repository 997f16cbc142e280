"""What a job does, in this process: a model is trained and judged, a floor counted, a given run judged."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.config.errors import Misuse
from glassformer.config.resolve import flatten
from glassformer.runs.files import write_json
from glassformer.runs.run import Run
from glassformer.trials.jobs import EXISTING, FLOOR, REFERENCE, Job, Outcome
from glassformer.trials.running.candidates import UNMASKED
from glassformer.trials.running.execution import run_job
from glassformer.trials.running.folder import JOB, OUTCOME
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.running import PATIENCE, StopAfter, labelled, tiny
from helpers.tables import opinions, write_table

OPINIONS = "opinions:rows=200"
HELD = {"data.test_fraction": 0.2}


def told(**event: Any) -> None:
    """Nobody listens."""


def done(job: Job, folder: Path, part: str = "test") -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    outcome = run_job(job, folder, part, told)
    assert outcome is not None
    return outcome


def settings_of(data: str, model: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**flatten(model), "data.path": data, "training.steps": 3, **more}


KINDS = {
    "text": (OPINIONS, labelled("lstm"), {}),
    "language": ("copy:rows=100", tiny("rnn"), HELD),
    "pairs": ("reverse-pairs:rows=100", {"model": "gru", "model.width": 8}, HELD),
    "table": ("iris", {"model": "linear"}, HELD),
    "images": ("digits", {"model": "linear"}, HELD),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_model_is_judged_as_evaluate_judges_it(kind: str, tmp_path: Path) -> None:
    data, model, more = KINDS[kind]
    job = Job(name="one", settings=settings_of(data, model, **more))
    outcome = done(job, tmp_path / "jobs" / "one-0")
    run = tmp_path / "jobs" / "one-0" / "run"
    truth = evaluate(run, part="test")
    assert outcome.metrics == truth.metrics
    assert (outcome.primary, outcome.lower_is_better) == (truth.primary, truth.lower_is_better)
    assert len(outcome.scores) == len(truth.records)
    assert outcome.run == "jobs/one-0/run"
    assert outcome.steps == 3
    assert outcome.parameters == Run(run).card()["parameters"]
    assert outcome.seconds > 0
    assert outcome.per_example is not None
    assert outcome.per_example > 0
    assert outcome.memory is not None
    assert outcome.memory >= 4 * outcome.parameters
    assert [point.updates for point in outcome.curve] == [1, 2, 3]
    assert all(before.seconds <= after.seconds for before, after in zip(outcome.curve, outcome.curve[1:], strict=False))
    assert outcome.tokenizer == (Run(run).card()["tokenizer"] or {}).get("hash")
    outcome.write(tmp_path / OUTCOME)
    assert Outcome.read(tmp_path / OUTCOME) == outcome


def test_floors_references_and_models_are_judged_on_the_same_examples(tmp_path: Path) -> None:
    model = done(Job(name="lstm", settings=settings_of(OPINIONS, labelled("lstm"))), tmp_path / "a")
    data = {"data.path": OPINIONS}
    floor = done(Job(name="majority class", kind=FLOOR, settings=data), tmp_path / "b")
    reference = done(Job(name="sklearn:tfidf", kind=REFERENCE, settings=data), tmp_path / "c")
    assert model.examples == floor.examples == reference.examples
    for outcome in (model, floor, reference):
        assert np.mean(outcome.scores) == pytest.approx(outcome.metrics["accuracy"])
    assert (floor.run, floor.curve, floor.steps) == (None, [], 0)


def test_a_text_of_which_only_the_beginning_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(name="n-gram", kind=FLOOR, settings={"data.path": "copy:rows=60", **HELD})
    assert done(job, tmp_path / "a").note == ""
    monkeypatch.setattr("glassformer.trials.baselines.language.MAX_COUNTED", 50)
    assert done(job, tmp_path / "b").note.startswith("counted the first 50 of ")


@pytest.mark.slow
def test_a_run_that_has_learned_from_what_it_is_judged_on(tmp_path: Path) -> None:
    table = str(write_table(tmp_path / "texts.csv", opinions(60)))
    here = {"data.path": table, "data.test_fraction": 0.2}
    how = labelled("bag", training__steps=2)

    def found(name: str, **settings: Any) -> Outcome:
        run = train(table, out=tmp_path / name, refit=name != "plain", **how, **settings).run
        return done(Job(name=name, kind=EXISTING, settings={**here, "run": run}), tmp_path / f"job-{name}")

    whole = found("refitted")
    assert (whole.seen, whole.note) == (
        True,
        "it has learned from these examples: its score does not say how good it is",
    )
    assert found("plain", **{"data.split_seed": 3}).seen
    held = found("held", **{"data.test_fraction": 0.2})  # refitted, on all rows but those of the test
    assert (held.seen, held.note) == (False, "")


@pytest.mark.slow
def test_a_run_that_was_there_before(tmp_path: Path) -> None:
    same = train(OPINIONS, out=tmp_path / "same", draft=True, **settings_of(OPINIONS, labelled("lstm")))
    given = Job(name="same", kind=EXISTING, settings={"data.path": OPINIONS, "run": same.run})
    outcome = done(given, tmp_path / "a")
    assert outcome.metrics == evaluate(same.run, part="test").metrics
    assert outcome.note == ""
    assert outcome.run == str(Path(same.run).resolve())
    other = Job(name="same", kind=EXISTING, settings={"data.path": OPINIONS, "data.split_seed": 3, "run": same.run})
    assert done(other, tmp_path / "b").note == ""  # the test rows of this data are its own: they were not learned from
    less = Job(name="same", kind=EXISTING, settings={"data.path": "opinions:rows=160", "run": same.run})
    assert "other data: it may have seen some of these" in done(less, tmp_path / "c").note
    wrong = Job(name="same", kind=EXISTING, settings={"data.path": "iris", "run": same.run})
    with pytest.raises(
        Misuse, match=r"is a run of classification \(text\), and classification \(table\) is compared here"
    ):
        done(wrong, tmp_path / "d")


def test_without_the_mask_the_row_says_so(tmp_path: Path) -> None:
    settings = settings_of("copy:rows=60", tiny(), **HELD, **{"model.causal_mask": False, "training.steps": 1})
    outcome = done(Job(name="transformer", settings=settings, varied={"model.causal_mask": False}), tmp_path / "a")
    assert outcome.note == UNMASKED


@pytest.mark.slow
def test_a_stopped_training_goes_on_and_a_finished_one_is_only_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(name="lstm", settings=settings_of(OPINIONS, labelled("lstm"), **{"training.steps": 6}))
    truth = done(job, tmp_path / "whole")
    stopped = train(out=tmp_path / "half" / "run", draft=True, listen=StopAfter(4), **job.settings)
    assert stopped.reason == "interrupted"
    asked: list[dict[str, Any]] = []

    def noted(*args: Any, **more: Any) -> Any:
        asked.append(more)
        return train(*args, **more)

    monkeypatch.setattr("glassformer.trials.running.execution.train", noted)
    gone_on = done(job, tmp_path / "half")
    assert [one.get("resume") for one in asked] == [True]
    assert gone_on.scores == truth.scores
    assert gone_on.metrics == truth.metrics
    assert [(point.updates, point.score) for point in gone_on.curve] == [
        (point.updates, point.score) for point in truth.curve
    ]
    again = done(job, tmp_path / "half")
    assert len(asked) == 1
    assert again.metrics == truth.metrics
    assert again.memory is None
    Run(tmp_path / "half" / "run").update_card(status="failed")
    done(job, tmp_path / "half")
    assert [one.get("resume") for one in asked] == [True, None]


def test_one_that_is_asked_to_stop_leaves_no_outcome(tmp_path: Path) -> None:
    def stop(**event: Any) -> None:
        if event["event"] == "validated":
            signal.raise_signal(signal.SIGTERM)

    job = Job(name="lstm", settings=settings_of(OPINIONS, labelled("lstm"), **{"training.steps": 9}))
    assert run_job(job, tmp_path, "test", stop) is None
    assert Run(tmp_path / "run").card()["status"] == "interrupted"


@pytest.mark.slow
def test_a_model_too_large_for_the_machine_is_one_line(tmp_path: Path) -> None:
    """A process of its own that may not have more than so much."""
    limit = 12 * 2**30
    settings = settings_of(OPINIONS, {"model": "lstm", "model.width": 40_000})
    write_json(tmp_path / JOB, {"job": {"name": "lstm", "settings": settings}, "part": "test"})
    limited = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit})); "
    code = limited + "runpy.run_module('glassformer.trials.running.job_process', run_name='__main__')"
    ended = _run(code, tmp_path)
    assert ended == 0
    outcome = Outcome.read(tmp_path / OUTCOME)
    assert outcome.error is not None
    assert "does not fit: weights, gradients and optimiser alone take" in outcome.error


def _run(code: str, folder: Path) -> int:
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read()  # with stdin open: the comparison is still there
        return process.wait(PATIENCE)
