"""A comparison with real processes: its rows, what is kept, and what a crash, a kill or Ctrl-C leaves."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import Misuse, TrainingFailed
from glassformer.families.load import load
from glassformer.runs.files import read_json
from glassformer.runs.folders import LOCK, _lock
from glassformer.runs.run import Run
from glassformer.trials.backends.local import Local
from glassformer.trials.compare import compare
from glassformer.trials.jobs import TRAINED, Job, Outcome
from glassformer.trials.results.comparison import Comparison
from glassformer.trials.running.engine import Engine, JobEvent
from glassformer.trials.running.execution import run_job
from glassformer.trials.running.folder import AskedQuestion, Folder
from helpers.running import PATIENCE, begin, steps_saved, wait_for

IRIS: dict[str, Any] = {"seeds": 1, "steps": 3, "references": False}
MODELS = "linear,bag"
LONG: dict[str, Any] = {
    "models": "rnn",
    "seeds": 1,
    "floors": False,
    "training.steps": 2000,
    "model.layers": 1,
    "model.width": 8,
    "model.context": 16,
    "training.batch_size": 2,
    "training.samples": False,
    "training.validate_every": 50,
}
DATA = "copy:rows=200"


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison, list[JobEvent]]:
    """A floor, a model, and one that cannot read tables; two at once. No test may change it."""
    out = tmp_path_factory.mktemp("compared") / "iris"
    heard: list[JobEvent] = []
    return out, compare("iris", models=MODELS, jobs=2, out=out, listen=heard.append, **IRIS), heard


def outcomes_of(out: Path) -> dict[str, Outcome]:
    return {path.parent.name: Outcome.read(path) for path in sorted(out.glob("jobs/*/outcome.json"))}


@pytest.mark.slow
def test_rows_files_and_runs(iris: tuple[Path, Comparison, list[JobEvent]]) -> None:
    out, found, _ = iris
    rows = {row["name"]: row for row in found.to_dict()["rows"]}
    assert set(rows) == {"majority class", "linear", "bag"}
    assert rows["linear"]["score"] is not None
    (error,) = rows["bag"]["errors"]
    assert error.startswith(
        "bag does not read tables; one of transformer, linear, mlp does (--model); or name a column"
    )
    for ending in ("json", "csv", "md", "html"):
        assert (out / f"comparison.{ending}").is_file()
    assert read_json(out / "comparison.json")["rows"] == found.to_dict()["rows"]
    assert load(out / rows["linear"]["runs"][0]).parameters == rows["linear"]["parameters"]
    assert {outcome.threads for outcome in outcomes_of(out).values()} == {1}
    assert read_json(out / "question.json")["finished"] is True
    assert not (out / LOCK).exists()
    assert any("20% of the data is held out for the test" in note for note in found.notes)


def test_what_happens_is_heard(iris: tuple[Path, Comparison, list[JobEvent]]) -> None:
    _, _, heard = iris
    linear = [event.what for event in heard if event.job.name == "linear" and event.what != "stepped"]
    assert linear == ["waiting", "begun", "started", *["validated"] * 3, "scoring", "done"]
    bag = [event for event in heard if event.job.name == "bag"]
    assert [event.what for event in bag] == ["waiting", "begun", "failed"]
    assert "bag does not read tables" in (bag[-1].error or "")
    begun = [event.job.name for event in heard if event.what in ("begun", "done", "failed")]
    assert set(begun[:2]) == {"majority class", "linear"}  # two at once


class Unrun:
    """Instead of the engine: what it would have been given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[Job] = []
        monkeypatch.setattr(Engine, "run", lambda engine, jobs: self.take(jobs))

    def take(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        self.jobs = list(jobs)
        yield from ()

    @property
    def names(self) -> list[tuple[str, int]]:
        return [(job.name, job.repeat) for job in self.jobs]


def test_what_is_done_is_not_trained_again(
    iris: tuple[Path, Comparison, list[JobEvent]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, first, _ = iris
    out = shutil.copytree(there, tmp_path / "iris")
    asked = Unrun(monkeypatch)
    again = compare("iris", models=MODELS, out=out, **IRIS)
    assert asked.names == [("bag", 0)]  # what failed is tried again
    assert again.to_dict() == first.to_dict()
    more = compare("iris", models="linear,mlp", out=out, **{**IRIS, "seeds": 2})
    assert asked.names == [("mlp", 0), ("linear", 1), ("mlp", 1)]
    assert {row.name for row in more.rows} == {"majority class", "linear", "bag"}


def test_a_changed_outcome_is_reported_and_its_job_runs_again(
    iris: tuple[Path, Comparison, list[JobEvent]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(iris[0], tmp_path / "iris")
    path = out / "jobs" / "linear-0" / "outcome.json"
    path.write_text(json.dumps({**read_json(path), "metrics": {"accuracy": 0.99}}))
    asked, said = Unrun(monkeypatch), list[str]()
    table = compare("iris", models=MODELS, out=out, say=said.append, **IRIS)
    assert [name for name, _ in asked.names] == ["linear", "bag"]
    assert f"{path} is damaged, was changed after it was written, or is another job's: its job runs again" in said
    assert "linear" not in {row.name for row in table.rows}


@pytest.mark.parametrize(
    ("models", "then", "names"),
    [(MODELS, "its job runs again", ["linear", "bag"]), ("mlp", "the table omits it", ["mlp"])],
)
def test_an_outcome_of_another_job_is_reported(
    iris: tuple[Path, Comparison, list[JobEvent]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    models: str,
    then: str,
    names: list[str],
) -> None:
    out = shutil.copytree(iris[0], tmp_path / "iris")
    path = out / "jobs" / "linear-0" / "outcome.json"
    shutil.copy(out / "jobs" / "majority-class-0" / "outcome.json", path)
    asked, said = Unrun(monkeypatch), list[str]()
    table = compare("iris", models=models, out=out, say=said.append, **IRIS)
    assert [name for name, _ in asked.names] == names
    line = "is damaged, was changed after it was written, or is another job's"
    assert [text for text in said if line in text] == [f"{path} {line}: {then}"]
    assert [row.name for row in table.rows].count("majority class") == 1
    assert "linear" not in {row.name for row in table.rows}


def test_an_outcome_of_the_same_job_of_another_comparison_is_reported(
    iris: tuple[Path, Comparison, list[JobEvent]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(iris[0], tmp_path / "iris")
    path = out / "jobs" / "linear-0" / "outcome.json"
    outcome = Outcome.read(path)
    replace(outcome, job=replace(outcome.job, settings={**outcome.job.settings, "training.lr": 0.5})).write(path)
    asked, said = Unrun(monkeypatch), list[str]()
    compare("iris", models=MODELS, out=out, say=said.append, **IRIS)
    assert [name for name, _ in asked.names] == ["linear", "bag"]
    assert sum(text.startswith(f"{path} is damaged") for text in said) == 1


def test_flags_win_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipe.yaml").write_text("model: {encoder: mlp, dropout: 0.1}\ntraining: {epochs: 2, lr: 0.01}\n")
    asked = Unrun(monkeypatch)
    how: dict[str, Any] = {"config": tmp_path / "recipe.yaml", **IRIS, "floors": False}
    for models, names in (("linear,mlp", ["linear", "mlp"]), (None, ["mlp"])):
        with pytest.raises(TrainingFailed, match="nothing was compared"):
            compare("iris", models=models, out=tmp_path / "-".join(names), **how)
        assert [job.name for job in asked.jobs] == names
        last = asked.jobs[-1].settings
        assert (last["training.steps"], last["training.lr"], last["model.dropout"]) == (3, 0.01, 0.1)
        assert "training.epochs" not in last
    with pytest.raises(Misuse, match="--model and --models: give one of them"):
        compare("iris", models="linear", model="mlp", out=tmp_path / "both", **how)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 4}, "with another training.steps (3, not 4)"),
        ({"data": "iris", "model.dropout": 0.1, "models": "mlp"}, "with another model.dropout (unset, not 0.1)"),
        ({"data.split_seed": 1}, "with another data.split_seed"),
        ({"data": "digits", "models": "linear"}, "with other data"),
        ({"vary": "training.lr=0.1,0.2"}, "with another mode (ladder, not vary)"),
        ({"parameters": 50, "models": "mlp"}, "with another --parameters (unset, not 50)"),
    ],
)
def test_another_question_needs_another_folder(
    iris: tuple[Path, Comparison, list[JobEvent]], changes: dict[str, Any], told: str
) -> None:
    out = iris[0]
    settings = {**IRIS, "models": "linear", **changes}
    with pytest.raises(Misuse) as error:
        compare(settings.pop("data", "iris"), out=out, **settings)
    assert told in str(error.value)
    assert "name another --out, or replace it with --overwrite" in str(error.value)


def test_the_folder_of_a_comparison_that_was_stopped_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = ["lstm-0"]

    def identity(data: str = "a") -> dict[str, Any]:
        return {"data": data, "training.steps": 3}

    def chosen(data: str = "a", ids: list[str] = ids) -> Path:
        return Folder.choose(None, "/some/iris.csv", AskedQuestion(identity(data), ids)).path

    first = Folder(chosen())
    assert first.path == Path("runs/compare-iris-1")
    first.open(AskedQuestion(identity(), ids), overwrite=False)
    assert chosen() == first.path
    assert chosen(ids=["rnn-0"]) == Path("runs/compare-iris-2")
    assert chosen(data="b") == Path("runs/compare-iris-2")
    first.finish()
    assert chosen() == Path("runs/compare-iris-2")


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for name, told in (("file", "is a file"), ("full", "is not empty and holds no comparison")):
        with pytest.raises(Misuse, match=told):
            compare("iris", models="linear", out=tmp_path / name, overwrite=True, **IRIS)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]  # not even a lock is left


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        _lock(tmp_path, "comparison"),
        pytest.raises(Misuse, match=rf"another comparison is at work in .* \(process {os.getpid()} on .*, since 2"),
    ):
        _lock(tmp_path, "comparison")
    _lock(tmp_path, "comparison").close()


@pytest.mark.slow
def test_a_process_killed_by_the_system_is_a_row(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (job,) = [Job(name="lstm", settings={"data.path": DATA, "model.encoder": "lstm", "training.steps": 9})]
    with folder.locked() as lock:
        folder.open(AskedQuestion({}, []), overwrite=False)

        def kill(event: JobEvent) -> None:
            if event.what == "begun":
                os.kill(backend.running["lstm-0"].process.pid, signal.SIGKILL)

        backend = Local(jobs=1, threads=1, lock=lock)
        engine = Engine(folder=folder, part="test", backend=backend, hear=kill)
        (outcome,) = engine.run([job])
    assert outcome.error is not None
    assert outcome.error.startswith("it was killed by the system, most likely for lack of memory")
    assert folder.outcome(job) == outcome


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, then the kill of the whole comparison, then to the end: bit for bit as if nothing had happened."""
    monkeypatch.setattr("glassformer.trials.backends.local.GRACE_SECONDS", PATIENCE)
    out = tmp_path / "out"

    def stop(event: JobEvent) -> None:
        if event.what == "stepped":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="the same command continues there"):
        compare(DATA, out=out, listen=stop, **LONG)
    run = out / "jobs" / "rnn-0" / "run"
    stopped = steps_saved(run)[-1]
    assert 0 < stopped < 2000
    assert outcomes_of(out) == {}

    flags = {key: value for key, value in LONG.items() if "." in key}
    words = [word for key, value in flags.items() for word in (f"--{key}", str(value).lower())]
    process = begin("compare", DATA, "--out", str(out), "--models", "rnn", "--seeds", "1", "--no-floors", *words)
    wait_for(lambda: steps_saved(run)[-1] > stopped, process)
    process.kill()
    process.communicate()
    _lock(out, "comparison").close()  # free only when the orphan has saved and gone
    assert Run(run).card()["status"] == "interrupted"
    assert stopped < steps_saved(run)[-1] < 2000
    assert outcomes_of(out) == {}

    found = compare(DATA, out=out, **LONG)
    assert not (out / LOCK).exists()
    (outcome,) = outcomes_of(out).values()
    assert Path(out / "jobs" / "rnn-0" / "log.txt").read_text() == ""
    (tmp_path / "truth").mkdir()
    assert outcome.job.kind == TRAINED
    truth = run_job(outcome.job, tmp_path / "truth", "test", lambda **event: None)
    assert truth is not None
    assert outcome.scores == truth.scores
    assert outcome.metrics == truth.metrics
    assert found.rows[0].values == [truth.metrics[truth.primary]]
    assert [(point.updates, point.score) for point in outcome.curve] == [
        (point.updates, point.score) for point in truth.curve
    ]
