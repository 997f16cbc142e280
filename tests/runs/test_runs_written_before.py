"""Everything the version before the great renaming wrote still loads, answers the same, and goes on.

What it wrote lies in `fixtures/written_before`; `make.py` there says how it was made. Settings, views and options are
called here as they were called then.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from fixtures.written_before import make
from glassformer.training import muon

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

WRITTEN = Path(make.__file__).parent
RUNS = sorted(path.stem for path in (WRITTEN / "runs").glob("*.json"))
ON_WHOLE_TEXTS = {"masked": "Anna found the key", "masked-bert": "Anna found the key", "imported-masked": "the river"}
"""Where what is asked of a run is not what one looks at."""
TRAINED_AGAIN = (
    "language-transformer", "language-lstm", "masked", "fine-tuned", "fine-tuned-head", "labels-bag", "labels-lstm",
    "labels-transformer", "multilabel", "regression-transformer", "images-cnn", "mixed-transformer",
    "translation-transformer", "translation-lstm-additive",
)  # fmt: skip


def copied(folder: Path) -> Path:
    """A copy of it all; the paths in it lead from there."""
    return Path(shutil.copytree(WRITTEN, folder / "here", ignore=shutil.ignore_patterns("*.py", "__pycache__")))


@pytest.fixture(scope="module")
def one_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("written"))


@pytest.fixture
def to_read(one_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(one_copy)


@pytest.fixture
def to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A copy of its own; the number of threads of what goes on is that of its run."""
    monkeypatch.chdir(copied(tmp_path))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)


@pytest.fixture(autouse=True)
def muon_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its iteration was another, so that numbers would differ however well a run goes on."""

    def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
        wide = matrices.shape[-2] <= matrices.shape[-1]
        x = matrices if wide else matrices.mT
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            square = x @ x.mT
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        return x if wide else x.mT

    monkeypatch.setattr(muon, "orthogonalise", orthogonalise)


def said_then(name: str) -> Any:
    return json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))


def same(now: Any, then: Any, within: float = 1e-4) -> None:
    """Texts, labels and counts exactly, numbers to some digits: processors differ in the last ones."""
    assert type(now) is type(then) or {type(now), type(then)} == {int, float}
    if isinstance(then, dict):
        assert now.keys() == then.keys()
        for key, value in then.items():
            same(now[key], value, within)
    elif isinstance(then, list):
        assert len(now) == len(then)
        for one, other in zip(now, then, strict=True):
            same(one, other, within)
    else:
        assert now == (pytest.approx(then, rel=within, abs=within) if isinstance(then, float) else then)


# --- runs ---


@pytest.mark.usefixtures("to_read")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_answers_as_it_did(name: str) -> None:
    then = said_then(f"runs/{name}")
    same(make.answers(f"runs/{name}", then["examples"]), then["answers"])


@pytest.mark.usefixtures("to_read")
@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("imported-masked", "vectors")])
def test_a_run_is_as_good_as_it_was(name: str) -> None:
    run = "runs/refitted/held-out" if name == "refitted" else f"runs/{name}"
    same(make.metrics(run), said_then(f"runs/{name}")["metrics"], 1e-3)


@pytest.mark.usefixtures("to_read")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_can_be_looked_into(name: str) -> None:
    run = gf.load(f"runs/{name}", "cpu")
    text = ON_WHOLE_TEXTS.get(name, said_then(f"runs/{name}")["examples"][0])
    assert gf.look(run, text, view="all", device="cpu").to_dict()


@pytest.mark.usefixtures("to_read")
@pytest.mark.parametrize(
    ("name", "view", "more"),
    [
        ("language-transformer", "lens", {}),
        ("language-transformer", "decided", {}),
        ("language-transformer", "worth", {"without": "0.1"}),
        ("language-transformer", "roles", {}),
        ("language-transformer", "numbers", {"position": 2}),
        ("language-transformer", "learning", {}),
        ("language-transformer", "versus", {"versus": "qrs>sr", "beside": "runs/language-gpt2"}),
        ("translation-transformer", "alignment", {}),
        ("translation-lstm-additive", "numbers", {"target": "dcba"}),
        ("labels-lstm", "states", {}),
        ("labels-transformer", "step", {"answer": "positive"}),
        ("images-transformer", "patches", {}),
    ],
)
def test_views_by_the_names_they_had(name: str, view: str, more: dict[str, Any]) -> None:
    text = "abc>cb" if name.startswith("language") else said_then(f"runs/{name}")["examples"][0]
    assert gf.look(f"runs/{name}", text, view=view, device="cpu", **more).to_dict()


# --- trainings with their settings ---


@pytest.mark.usefixtures("to_go_on")
@pytest.mark.parametrize("name", TRAINED_AGAIN)
def test_the_same_settings_train_the_same(name: str) -> None:
    """From the card of the run, so with every setting by the name it had; what --from takes is what it took."""
    gf.train(config=f"runs/{name}/glassformer.json", out="again", draft=True)
    same(make.losses("again"), make.losses(f"runs/{name}"), 1e-3)


@pytest.mark.usefixtures("to_go_on")
def test_a_run_to_begin_from_gives_its_body() -> None:
    data, settings, _ = make.RUNS["fine-tuned-head"]
    gf.train(data, out="again", draft=True, **{**settings, "steps": 1})
    body, head = (gf.load(run, "cpu").model.encoder.state_dict() for run in ("runs/masked", "again"))
    assert body.keys() == head.keys()
    assert all(torch.equal(body[name], head[name]) for name in body)


@pytest.mark.usefixtures("to_go_on")
@pytest.mark.parametrize("data", [make.OPINIONS, make.TAGS])
def test_vectors_made_elsewhere_are_begun_from(data: str) -> None:
    assert gf.train(data, out="again", draft=True, steps=2, **{"from": "runs/vectors"}).steps == 2


@pytest.mark.usefixtures("to_go_on")
def test_a_translator_is_begun_from_a_translator_and_from_a_language_model() -> None:
    more = {"steps": 2, "draft": True, **make.SMALL}
    assert gf.train(make.PAIRS, out="one", **{"from": "runs/translation-transformer"}, **more).steps == 2
    writer = {"decoder_from": "runs/language-transformer", "model.context": 16}
    assert gf.train(make.PAIRS, out="other", **{**make.TRANSFORMER, **writer}, **more).steps == 2


# --- what was stopped on the way ---


@pytest.mark.usefixtures("to_go_on")
@pytest.mark.parametrize("name", make.HALF)
def test_a_checkpoint_goes_on(name: str) -> None:
    trained = gf.train(out=f"half/{name}", resume=True)
    assert (trained.reason, trained.steps) == ("finished", 2 * make.STOPPED_AFTER)
    same_end(f"half/{name}")


@pytest.mark.usefixtures("to_go_on")
def test_a_refit_that_waited() -> None:
    gf.train(out="half/waits-for-refit", resume=True)
    same_end("half/waits-for-refit")


@pytest.mark.usefixtures("to_go_on")
def test_folds_go_on() -> None:
    found = gf.cross_validate(out="half/folds", resume=True, refit=True)
    assert len(found.folds) == 2
    same_end("half/folds")


def same_end(run: str) -> None:
    """What the version that began it came to."""
    then = said_then(run)
    assert make.card(run)["steps"] == then["steps"]
    same(make.losses(run), then["losses"], 1e-3)
    same(make.sizes_of(run), then["sizes"], 1e-3)


# --- many trainings ---


@pytest.mark.usefixtures("to_go_on")
@pytest.mark.parametrize("name", make.COMPARISONS)
def test_a_comparison_goes_on(name: str) -> None:
    """What was done is not done again: not even its file is written anew."""
    out = f"comparisons/{name}"
    done = {path: path.stat().st_mtime_ns for path in Path(out).rglob("outcome.json")}
    same(make.compare_again(out, make.COMPARISONS[name]), said_then(out)["rows"], 1e-3)
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(done) == {"finished": 2, "half": 1}[name]
    assert len(list(Path(out, "cells").iterdir())) == len(said_then(out)["rows"])


@pytest.mark.usefixtures("to_go_on")
@pytest.mark.parametrize("name", make.TUNINGS)
def test_a_search_goes_on(name: str) -> None:
    heard: list[str] = []
    asked = {**make.SMALL, **make.TUNINGS[name]}
    tuned = gf.tune(out=f"tuning/{name}", trials=make.TRIALS + 2, say=heard.append, **asked)
    assert f"going on with tuning/{name}: {make.TRIALS} trials so far" in heard
    assert len(tuned.trials) == make.TRIALS + 2
    then = said_then(f"tuning/{name}")["trials"]
    same([trial.value for trial in tuned.trials][: make.TRIALS], [value for _, value in then])
    assert all(trial.state == "complete" for trial in tuned.trials)


@pytest.mark.usefixtures("to_go_on")
def test_the_recipe_of_a_search_trains() -> None:
    trained = gf.train(config="tuning/sqlite/recipe.yaml", out="again", draft=True)
    best = max(said_then("tuning/sqlite")["trials"], key=lambda trial: trial[1])
    assert trained.validation["accuracy"] == pytest.approx(best[1])
