"""Real small searches: what is tried, kept, chosen and said of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import glassformer as gf
from glassformer.config.errors import Misuse, SettingError
from glassformer.runs.run import Run
from glassformer.tasks.prediction import Classification
from glassformer.trials.tuning.result import TuneResult, write_recipe
from glassformer.trials.tuning.search import Search, plan_search
from glassformer.trials.tuning.storage import open_study
from glassformer.verbs.train import train
from helpers.searching import DATA, QUICK, SPACE, Pretended, search
from helpers.tables import opinions, write_table


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    """Five trials at one go."""
    return search(tmp_path_factory.mktemp("whole") / "search", 5)


def test_the_first_trial_is_what_train_would_do(five: TuneResult, tmp_path: Path) -> None:
    first = five.trials[0]
    assert five.start == first
    plain = train(DATA, out=tmp_path / "plain", draft=True, **QUICK)
    assert first.value == plain.validation["accuracy"]
    assert five.best.value == max(trial.value for trial in five.trials if trial.value is not None)
    assert five.best.value >= first.value


def test_what_it_leaves(five: TuneResult) -> None:
    out = Path(five.out)
    assert [trial.number for trial in five.trials] == [0, 1, 2, 3, 4]
    assert [path.name for path in (out / "trials").iterdir()] == [str(five.best.number)]
    assert not (out / "best").exists()
    assert five.run is None
    card = Run.open(out / "trials" / str(five.best.number)).card()
    assert card["validation"]["accuracy"] == five.best.value
    assert "test" not in card
    numbers = json.loads((out / "tune.json").read_text())
    assert numbers["best"]["settings"] == five.best.settings
    assert len(numbers["trials"]) == 5
    assert (numbers["summary"], numbers["importance"]) == (five.summary, five.importance)
    assert [trial["summary"] for trial in numbers["trials"]] == [trial.summary for trial in five.trials]
    assert "training.lr" in (out / "tune.html").read_text()
    assert "The best of 5 validation scores is optimistic" in five.summary
    five.view().save(out.parent / "tune.svg")
    assert {panel.title for panel in five.view().panels} >= {"The best settings", "Trials", "Score by trial"}


@pytest.mark.slow
def test_the_recipe_trains_the_same_model(five: TuneResult, tmp_path: Path) -> None:
    again = train(DATA, config=five.recipe, out=tmp_path / "again", draft=True)
    assert again.validation["accuracy"] == five.best.value
    assert again.validation == Run.open(Path(five.out) / "trials" / str(five.best.number)).card()["validation"]
    recipe = yaml.safe_load(Path(five.recipe).read_text())
    assert recipe["model"]["encoder"] == "average"
    assert recipe["training"]["steps"] == 3
    assert recipe["training"]["lr"] == five.best.settings["training.lr"]
    train(config=five.recipe, out=tmp_path / "alone", draft=True)  # it says where the data is, too


def test_a_recipe_says_what_is_switched_off(tmp_path: Path) -> None:
    write_recipe(tmp_path / "recipe.yaml", {"task": "classification", "training.grad_clip": None}, "")
    assert yaml.safe_load((tmp_path / "recipe.yaml").read_text())["training"] == {"grad_clip": None}


def test_a_search_goes_on_where_it_stopped(five: TuneResult, tmp_path: Path) -> None:
    said: list[str] = []
    search(tmp_path / "search", 2)
    again = search(tmp_path / "search", 5, say=said.append)
    assert any("2 trials so far" in line for line in said)
    assert [trial.settings for trial in again.trials] == [trial.settings for trial in five.trials]
    assert [trial.value for trial in again.trials] == [trial.value for trial in five.trials]
    said.clear()
    search(tmp_path / "search", 5, say=said.append)
    assert not any(line.startswith("trial ") for line in said)


def test_the_same_command_finds_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Pretended(monkeypatch)
    first = gf.tune(DATA, trials=1, space=SPACE, final=False, **QUICK)
    assert first.out == "runs/tune-opinions-average-1"
    assert len(gf.tune(DATA, trials=2, space=SPACE, final=False, **QUICK).trials) == 2
    other = gf.tune(DATA, trials=1, space=SPACE, final=False, **{**QUICK, "steps": 4})
    assert other.out == "runs/tune-opinions-average-2"


def test_another_search_in_the_same_place_is_refused(five: TuneResult) -> None:
    with pytest.raises(Misuse, match=r"holds another search: --training.steps was 3, and now is 4; name another --out"):
        search(Path(five.out), 5, steps=4)
    with pytest.raises(Misuse, match=r"is a different one: --training.steps was 3, and now is 4"):
        search(Path(five.out).parent / "other", 5, steps=4, storage=Path(five.out) / "study.log")


def test_the_test_part_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    evaluate = Classification.evaluate

    def watched(self: Classification, model: Any, part: str, **more: Any) -> Any:
        looked.append(part)
        return evaluate(self, model, part, **more)

    monkeypatch.setattr(Classification, "evaluate", watched)
    held = {"data.test_fraction": 0.2}
    tuned = search(tmp_path / "search", 3, final=True, **held)
    assert looked.count("test") == 1
    assert looked[-1] == "test"
    assert tuned.run is not None
    card = Run.open(tuned.run).card()
    assert card["test"] == tuned.test
    assert card["validation"]["accuracy"] == tuned.best.value
    assert f"Test: accuracy {card['test']['accuracy']:.4f}" in tuned.summary
    again = search(tmp_path / "search", 3, final=True, **held)
    assert looked.count("test") == 1
    assert (again.test, again.looks) == (tuned.test, 1)


@pytest.mark.slow
def test_models_are_chosen_among(tmp_path: Path) -> None:
    tuned = gf.tune(DATA, out=tmp_path / "search", model="bag,cnn", trials=5, final=False, steps=2, lr=0.01)
    models = [trial.settings["model"] for trial in tuned.trials]
    assert models[:2] == ["bag", "cnn"]  # each as it starts
    for trial in tuned.trials[2:]:
        assert ("model.kernel" in trial.settings) == (trial.settings["model"] == "cnn")
        assert ("model.weighting" in trial.settings) == (trial.settings["model"] == "bag")
    assert tuned.model == tuned.best.settings["model"]
    rows = next(panel for panel in tuned.view().panels if panel.title == "model").to_dict()["rows"]
    assert sum(row[1] for row in rows) == sum(trial.state == "complete" for trial in tuned.trials)
    train(DATA, config=tuned.recipe, out=tmp_path / "again", draft=True)


def test_a_space_for_several_models(tmp_path: Path) -> None:
    """Short names and sections too; what one of them has no use for is searched for the other."""
    space = {"lr": [0.01, 0.1], "model": {"kernel": [2, 3], "dropout": [0.0, 0.5]}}
    plan = plan_search(DATA, ["bag", "cnn"], {"steps": 2}, space=space)
    searched = {model: [dimension.key for dimension in dimensions] for model, dimensions in plan.spaces.items()}
    assert searched == {
        "bag": ["training.lr", "model.dropout"],
        "cnn": ["training.lr", "model.kernel", "model.dropout"],
    }
    with pytest.raises(SettingError, match=r"space: model.window is fixed, or used by none of bag, cnn"):
        plan_search(DATA, ["bag", "cnn"], {"steps": 2}, space={**space, "model.window": [3, 5]})


def test_a_score_is_the_mean_over_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended(monkeypatch)
    tuned = search(tmp_path / "search", 2, seeds=3, seed=5)
    assert [told["training.seed"] for told in pretended.told] == [5, 6, 7, 5, 6, 7]
    assert tuned.trials[0].value == pytest.approx(1 - abs(2e-3 * 2 - 0.01) + 0.006)
    assert "mean over 3 seeds" in tuned.summary


def test_which_settings_mattered(five: TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended(monkeypatch)
    tuned = search(tmp_path / "search", 20)
    shares = tuned.importance
    assert next(iter(shares)) == "training.lr"
    assert shares["training.lr"] > 0.6
    assert sum(shares.values()) == pytest.approx(1)
    assert five.importance == {}  # of five trials nothing can be said


def test_nothing_is_trained_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended(monkeypatch)
    tuned = search(tmp_path / "search", 9, space={"model.dropout": [0.0, 0.5]})
    assert len(tuned.trials) == 9
    assert len(pretended.told) <= 3  # as it starts, and the two of the space
    assert any("as trial" in trial.why for trial in tuned.trials)


def test_a_start_outside_the_space_is_tried_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended(monkeypatch)
    tuned = search(tmp_path / "search", 3, space={"training.lr": {"low": 0.5, "high": 0.9}})
    assert "training.lr" not in pretended.told[0]
    assert tuned.best.number == 0
    assert [0.5 <= told["training.lr"] <= 0.9 for told in pretended.told[1:]] == [True, True]


@pytest.mark.slow
def test_hopeless_trials_are_stopped_early(tmp_path: Path) -> None:
    """Half of the rates of this space are so small that nothing is learned."""
    table = write_table(tmp_path / "opinions.csv", opinions(120))
    bad = {"training.lr": {"low": 1e-6, "high": 0.5, "log": True}}
    plain = {"model": "average", "model.width": 16, "model.head_layers": 0, "dropout": 0.0, "model.word_dropout": 0.0}
    how = {"data.validation_fraction": 0.4, "training.validate_every": 2, "training.batch_size": 32, "steps": 8}
    tuned = gf.tune(table, out=tmp_path / "search", trials=12, space=bad, final=False, **plain, **how)
    early = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert early
    assert all("worse than half of the others at validation" in trial.why for trial in early)
    assert all(trial.value < tuned.best.value for trial in early)
    assert f"{len(early)} of them stopped early" in tuned.summary
    assert tuned.trials[0].state == "complete"


def test_every_trial_can_be_trained_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optuna.Trial.should_prune", lambda trial: True)
    assert [trial.state for trial in search(tmp_path / "a", 2).trials] == ["complete", "pruned"]
    assert [trial.state for trial in search(tmp_path / "b", 2, prune=False).trials] == ["complete", "complete"]


def test_minutes_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended(monkeypatch)
    tuned = search(tmp_path / "search", trials=None, minutes=1e-9)  # type: ignore[arg-type]
    assert len(tuned.trials) == 1  # the first is not cut short


def test_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders, as on two machines, and one study."""
    Pretended(monkeypatch)
    storage = tmp_path / "shared.log"
    first = search(tmp_path / "here", 2, storage=storage, study="mine")
    second = search(tmp_path / "there", 4, storage=storage, study="mine")
    assert (len(first.trials), len(second.trials)) == (2, 4)
    assert {path.name for path in tmp_path.iterdir()} == {"here", "there", "shared.log"}
    assert not (tmp_path / "here" / "study.log").exists()


@pytest.mark.slow
def test_storages_that_cannot_be(tmp_path: Path, five: TuneResult) -> None:
    for storage in ("trials.txt", "trials.db", "sqlite:///trials.db"):
        with pytest.raises(Misuse, match=f"--storage {storage}: name a journal that ends in .log, or the URL of a"):
            search(tmp_path / "a", 1, storage=storage)
    with pytest.raises(Misuse, match="cannot be used"):
        search(tmp_path / "b", 1, storage="nonsense://somebody:secret@host/db")


def test_a_password_is_not_said(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as error:
        search(tmp_path / "b", 1, storage="nonsense://somebody:secret@host/db")
    assert "secret" not in str(error.value)


def test_a_search_is_the_same_in_another_process(five: TuneResult, tmp_path: Path) -> None:
    plan = Search(
        task="classification",
        settings={"data.path": "/here/a.csv", "training.steps": 3},
        spaces={"bag": list(five.search.spaces[five.model])},
        starts={"bag": {"training.lr": 0.01, "model.dropout": 0.5, "model.pool": "mean"}},
    )
    again = Search.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == plan
    with open_study(f"{tmp_path}/a.log", "x", plan), open_study(f"{tmp_path}/a.log", "x", again):
        pass


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"trials": 0}, "--trials is 0, but must be at least 1"),
        ({"minutes": -1}, "--minutes is -1, but must be above 0"),
        ({"jobs": 0}, "--jobs is 0"),
        ({"trials": "many"}, "trials wants a whole number, not 'many'"),
        ({"minutes": "many"}, "minutes wants a number, not 'many'"),
        ({"data.refit": True}, "data.refit leaves no validation part"),
        ({"data.validation_fraction": 0.0}, "nothing is held out"),
        ({"task": "language-model", "model": "bilstm"}, "model.bidirectional reads the future"),
        ({"storage": "postgresql://x"}, "--storage postgresql://x needs a package that is not installed: psycopg"),
        ({"seeds": 0}, "--seeds is 0"),
        ({"model": "average,bga"}, "unknown model 'bga'; did you mean bag?"),
        ({"model": "bag,bag"}, "names a model twice"),
        ({"space": {"model.kernel": [2, 3]}}, "space: model.kernel is not used by average; it belongs to cnn"),
        ({"space": {"model.width": [4, 8]}}, "every setting in it is fixed"),
        ({"space": {"training.epochs": [1, 2]}}, "every setting in it is fixed"),  # by --steps
        ({"task": "language-model", "model": "lstm", "space": {"tokenizer.vocab_size": [300, 400]}},
         "losses per token would not compare"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse) as error:
        search(tmp_path / "search", **{"trials": 2, **more})
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "search").exists()


def test_without_optuna(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    from glassformer import trials
    from glassformer.trials import tuning

    monkeypatch.setattr(trials, "tuning", tuning)  # restores the package too, not only sys.modules
    for name in [name for name in sys.modules if name.startswith("glassformer.trials.tuning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Misuse, match=r"tune needs optuna: pip install 'glassformer\[tune\]'"):
        gf.tune(DATA, out=tmp_path / "search")


def test_a_score_over_folds(tmp_path: Path) -> None:
    """The mean of trainings with another fold held out each; the recipe knows nothing of folds."""
    tuned = gf.tune("opinions:rows=120", model="bag", trials=1, folds=2, final=False, out=tmp_path / "t", steps=2)
    assert tuned.best.settings
    alone = [
        gf.train("opinions:rows=120", model="bag", steps=2, out=tmp_path / f"f{fold}", draft=True,
                 **{"data.folds": 2, "data.fold": fold}).validation["accuracy"]
        for fold in (0, 1)
    ]  # fmt: skip
    assert tuned.best.value == pytest.approx(sum(alone) / 2)
    assert "mean over 2 folds" in tuned.summary
    assert "fold" not in Path(tuned.recipe).read_text()
    assert tuned.summary.startswith("1 trial. ")
    assert "optimistic" not in f"{tuned.summary} {Path(tuned.recipe).read_text()}"  # of one score nothing was chosen
    assert repr(tuned).startswith(tuned.summary)
    assert len(repr(tuned)) < 600
    with pytest.raises(Misuse, match="--seeds and --folds: each fold is trained once, give one of them"):
        gf.tune("opinions:rows=120", model="bag", folds=2, seeds=2, out=tmp_path / "u")
