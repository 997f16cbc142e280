"""Many runs that begin from another: rows of a comparison, a search, folds and a refit."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening
from glassformer.runs.files import read_tensors
from glassformer.runs.run import Run
from glassformer.trials.compare import compare
from glassformer.trials.cross_validation import cross_validate
from glassformer.trials.jobs import TRAINED, Job
from glassformer.trials.results.comparison import summarise
from glassformer.trials.running.execution import run_job
from glassformer.trials.running.question import CompareOptions, Question, ask, short_names
from glassformer.trials.tuning.search import Search, plan_search
from glassformer.verbs.plan import plan
from helpers.beginnings import BODY, quick, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> Path:
    return quick(data["text"], out=tmp_path_factory.mktemp("runs") / "writer", **BODY, **{"tokenizer.kind": "char"})


def asking(data: str, *runs: Path, said: dict[str, Any] | None = None, **asked: Any) -> tuple[Question, list[str]]:
    heard: list[str] = []
    several = {"models": ("average",), "seeds": 2, "varied": {}, "from_runs": tuple(str(run) for run in runs), **asked}
    with listening(heard.append):
        return ask({"data.path": data, "training.steps": 2, **(said or {})}, CompareOptions(**several)), heard


def finetuned(question: Question) -> list[Job]:
    return [job for job in question.jobs if job.kind == TRAINED and job.begins]


@pytest.mark.slow
def test_two_rows_for_each_run(data: dict[str, str], writer: Path, tmp_path: Path) -> None:
    question, _ = asking(data["labels"], writer)
    jobs = finetuned(question)
    assert [(job.name, job.repeat, job.settings["training.seed"]) for job in jobs] == [
        ("writer fine-tuned", 0, 0),
        ("writer frozen", 0, 0),
        ("writer fine-tuned", 1, 1),
        ("writer frozen", 1, 1),
    ]
    others = [job for job in question.jobs if job.kind == TRAINED and not job.begins]
    assert {job.settings["data.test_fraction"] for job in [*jobs, *others]} == {0.2}
    assert not any(key.startswith("tokenizer.") for job in jobs for key in job.settings)
    assert all(any(key.startswith("tokenizer.") for key in job.settings) for job in others)
    assert [job.settings.get("training.last_blocks") for job in jobs] == [None, 0, None, 0]
    outcomes = []
    for job in jobs[:2]:
        folder = tmp_path / job.id
        folder.mkdir()
        outcome = run_job(job, folder, "test", lambda **event: None)
        assert outcome is not None
        whole = Run(writer).card()["parameters"] + 16
        assert (outcome.parameters, outcome.learned) == (whole, 16 if "frozen" in job.name else whole)
        outcomes.append(outcome)
    found = summarise(outcomes, title="", budget="")
    rows = {row.name: row for row in found.rows}
    assert "16 parameters learned" in rows["writer frozen"].marks
    assert not [mark for mark in rows["writer fine-tuned"].marks if "learned" in mark]
    assert [rows["writer frozen"].to_dict()[name] for name in ("parameters", "learned")] == [whole, 16]
    assert f",{whole},16," in found.csv()
    table = read_tensors(tmp_path / jobs[1].id / "run" / "model.safetensors")["embed.table.weight"]
    assert torch.equal(table, read_tensors(writer / "model.safetensors")["embed.table.weight"])


def test_other_weights_are_another_training(data: dict[str, str], writer: Path, tmp_path: Path) -> None:
    ids = []
    changed = shutil.copytree(writer, tmp_path / "writer")
    for seed in (0, 1):
        ids.append([job.id for job in finetuned(asking(data["labels"], changed)[0])])
        quick(data["text"], out=changed, overwrite=True, seed=seed + 1, **BODY, **{"tokenizer.kind": "char"})
    assert set(ids[0]).isdisjoint(ids[1])
    assert len({*ids[0], *ids[1]}) == 8


def test_settings_for_the_ladder_are_not_the_runs(data: dict[str, str], writer: Path) -> None:
    question, heard = asking(data["labels"], writer, models=("lstm",), said={"model.width": 24})
    jobs = [job for job in question.jobs if job.kind == TRAINED and job.repeat == 0]
    assert {job.name: job.settings.get("model.width") for job in jobs} == {
        "lstm": 24,
        "writer fine-tuned": None,
        "writer frozen": None,
    }
    assert "model.width: writer has its own: omitted there" in heard
    fractions, _ = asking(data["labels"], writer, varied={"data.train_fraction": [0.5, 1.0]}, seeds=1)
    assert len(finetuned(fractions)) == 4


def test_a_text_has_no_head_to_learn_alone(data: dict[str, str], writer: Path) -> None:
    question, _ = asking(data["text"], writer, models=("rnn",), seeds=1)
    assert [job.name for job in finetuned(question)] == ["writer fine-tuned"]


def test_short_names_and_what_cannot_be(data: dict[str, str], writer: Path) -> None:
    assert short_names(["/a/one", "/b/two"]) == ["one", "two"]
    assert short_names(["/a/x/run", "/b/x/run"]) == ["/a/x/run", "/b/x/run"]
    with pytest.raises(Misuse, match="--ablate"):
        asking(data["labels"], writer, ablate=True, models=())
    with pytest.raises(Misuse, match="--decoder-from"):
        compare(data["labels"], from_run=[writer], decoder_from=str(writer))
    for key in ("training.last_blocks", "training.layer_decay"):
        with pytest.raises(Misuse, match=f"--{key}.* fine-tuned and frozen.* remove it"):
            asking(data["labels"], writer, said={key: 1})
    with pytest.raises(SettingError, match="begins from a language model"):
        asking(data["text"], quick(data["labels"], out=writer.parent / "bow", model="average"), models=("rnn",))


def test_a_search_leaves_the_body_alone(data: dict[str, str], writer: Path) -> None:
    settings = {"model.from_run": str(writer)}
    search = plan_search(data["labels"], [], settings)
    searched = {dimension.key for dimension in search.spaces["transformer"]}
    assert {"training.lr", "training.layer_decay", "model.dropout", "model.pool"} <= searched
    assert searched.isdisjoint({"model.width", "model.layers", "model.heads", "tokenizer.min_count"})
    assert search.starts["transformer"]["model.width"] == 16


def test_other_weights_are_another_search(data: dict[str, str], writer: Path, tmp_path: Path) -> None:
    """Wherever they lie."""

    def planned(run: Path, **more: Any) -> Search:
        settings = {"model.from_run": str(run), **more}
        return plan_search(data["labels"], [], settings)

    moved = shutil.copytree(writer, tmp_path / "writer")
    first = planned(writer).identity()
    assert planned(moved).identity() == first
    quick(data["text"], out=moved, overwrite=True, seed=5, **BODY, **{"tokenizer.kind": "char"})
    assert "--model.from_run was a run with weights" in str(planned(moved).difference(first))
    alone = planned(writer, **{"training.last_blocks": 0})
    assert "model.dropout" not in {dimension.key for dimension in alone.spaces["transformer"]}


@pytest.mark.slow
def test_folds_and_a_refit(data: dict[str, str], writer: Path, tmp_path: Path) -> None:
    out = tmp_path / "folds"
    settings = {"from_run": str(writer), "steps": 2, "training.lr": 0.0, "training.weight_decay": 0.0}
    cross_validate(data["labels"], folds=2, out=out, refit=True, **settings)
    before = read_tensors(writer / "model.safetensors")
    for run in (out / "fold-2", out):
        assert Run(run).card()["from"]["new"] == ["head"]
        now = read_tensors(run / "model.safetensors")
        assert all(torch.equal(value, now[name]) for name, value in before.items())


def test_folds_and_comparisons_do_not_write_over_what_they_begin_from(
    data: dict[str, str], writer: Path, tmp_path: Path
) -> None:
    own = tmp_path / "jobs" / "own"
    shutil.copytree(writer, own)
    with pytest.raises(SettingError, match="own is or holds the run that --from begins from: name another folder"):
        cross_validate(data["labels"], folds=2, out=own, overwrite=True, from_run=str(own), steps=1)
    with pytest.raises(SettingError, match="is or holds the run that --from begins from: name another folder"):
        compare(data["labels"], models="bag", out=tmp_path, overwrite=True, from_run=str(own), steps=1)
    assert (own / "model.safetensors").is_file()


@pytest.mark.slow
def test_a_plan(data: dict[str, str], writer: Path) -> None:
    whole = plan(data["labels"], from_run=str(writer), probe=False)
    assert whole.to_dict()["parameters"] == Run(writer).card()["parameters"] + 16
    few = plan(data["labels"], from_run=str(writer), probe=False, **{"training.last_blocks": 1})
    assert few.to_dict()["parameters"] == whole.to_dict()["parameters"] == whole.to_dict()["learned"]
    assert few.to_dict()["learned"] < whole.to_dict()["learned"]
    assert f"{few.to_dict()['learned']:,} of them learned." in few.words[0]
    pairs = {"from_run": str(writer), "probe": False, "training.batch_tokens": 300}
    held = plan(data["pairs"], **pairs, **{"training.last_blocks": 1}).to_dict()["learned"]
    both = plan(data["pairs"], **pairs).to_dict()["learned"]
    encoder = both - held  # one block of it and the word vectors stay; the decoder is new, and trained
    assert 0 < encoder < Run(writer).card()["parameters"]
    with pytest.raises(SettingError, match="computed once"):
        plan(data["labels"], from_run=str(writer), probe=False, **{"training.last_blocks": 0})
    with pytest.raises(SettingError, match="needs DATA"):
        plan(training_tokens=1e6, from_run=str(writer))
