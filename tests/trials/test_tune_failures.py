"""Trials that fail, are stopped or get lost: the search goes on, or says at once why it cannot."""

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import DataError, RunError, SettingError, TrainingFailed
from glassformer.trials.tuning import trial as one_trial
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.storage import give_up, optuna
from glassformer.trials.tuning.trial import record_of
from helpers.running import StopAfter
from helpers.searching import DATA, Pretended, search, study_of


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TrainingFailed("the loss became nan at step 3"), "the loss became nan at step 3"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "out of memory"),
        (SettingError("model.a and model.b cannot be"), "model.a and model.b cannot be"),
    ],
)
def test_a_trial_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:
    class Failing(Pretended):
        def score(self, settings: dict[str, Any]) -> float:
            if len(self.told) == 2:
                raise error
            return super().score(settings)

    Failing(monkeypatch)
    said: list[str] = []
    tuned = search(tmp_path / "search", 4, say=said.append)
    assert [trial.state == "complete" for trial in tuned.trials] == [True, False, True, True]
    assert tuned.trials[1].why == why
    assert any(line.startswith("trial 1: ") and why in line for line in said)


def test_what_would_fail_every_time_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Pretended):
        error: Exception = DataError("there is nothing to learn from")

        def score(self, settings: dict[str, Any]) -> float:
            raise self.error

    Failing(monkeypatch)
    with pytest.raises(DataError, match="there is nothing to learn from"):
        search(tmp_path / "data", 4)
    Failing.error = TrainingFailed("not finite")
    with pytest.raises(RunError, match="none of the first 5 trials has a score; the last: not finite"):
        search(tmp_path / "failed", 9)


def test_ctrl_c_gives_the_trial_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(one_trial.Watch):
        stopper = StopAfter(2)

        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if self.trial.number == 1:
                self.stopper(event)

    with monkeypatch.context() as patch:
        patch.setattr(one_trial, "Watch", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "search", 3)
    tuned = search(tmp_path / "search", 3)
    assert [trial.number for trial in tuned.trials] == [0, 2, 3]
    assert all(trial.state == "complete" for trial in tuned.trials)
    with_study = study_of(tmp_path / "search")
    assert with_study.trials[1].params == with_study.trials[2].params


def test_a_trial_that_others_took_for_lost_does_not_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept is heard of again once its trial was given to another."""

    class Slept(Pretended):
        def score(self, settings: dict[str, Any]) -> float:
            if len(self.told) == 2:
                study = study_of(tmp_path / "search")
                assert give_up(study, 1, retry=True)
            return super().score(settings)

    Slept(monkeypatch)
    said: list[str] = []
    tuned = search(tmp_path / "search", 3, say=said.append)
    assert "trial 1: another process gave it up, so it does not count here" in said
    assert [trial.number for trial in tuned.trials] == [0, 2, 3]
    lost, again = study_of(tmp_path / "search").trials[1:3]
    assert lost.params == again.params


def test_where_a_model_starts_is_tried_though_the_time_was_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Pretended):
        def score(self, settings: dict[str, Any]) -> float:
            if len(self.told) == 2:
                raise one_trial.Stopped
            return 0.5

    Late(monkeypatch)
    how: dict[str, Any] = {"space": {"training.lr": [0.5, 0.6]}, "final": False, "steps": 3}
    first = gf.tune(DATA, out=tmp_path / "search", model="average,bag", trials=2, **how)
    assert [trial.settings for trial in first.trials] == [{"model": "average"}]
    again = gf.tune(DATA, out=tmp_path / "search", model="average,bag", trials=2, **how)
    assert [trial.settings for trial in again.trials] == [{"model": "average"}, {"model": "bag"}]


def test_a_trial_stopped_early_has_the_score_it_had_last() -> None:
    pruned = optuna.trial.create_trial(state=optuna.trial.TrialState.PRUNED, intermediate_values={3: 0.3, 1: 0.1})
    plan = Search(task="classification", settings={}, spaces={"average": []}, starts={})
    assert record_of(pruned, plan).value == 0.3
