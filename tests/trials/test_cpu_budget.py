"""A budget in CPU seconds is a number of updates, whatever else the machine does; the clock is moved by the test."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.config.errors import Misuse, RunError, SettingError
from glassformer.trials.compare import compare
from glassformer.trials.running.cpu_budget import MAX_UPDATES, WARM_UP, row_updates, updates_within

MODULE = "glassformer.trials.running.cpu_budget"


def move(patch: pytest.MonkeyPatch, each: float) -> None:
    """A process that spends so many CPU seconds between two looks."""
    ticks = itertools.count()
    patch.setattr(f"{MODULE}.time", SimpleNamespace(process_time=lambda: each * next(ticks)))


@pytest.mark.parametrize(("each", "budget", "updates"), [(0.5, 60.0, 120), (0.001, 60.0, 60_000), (2.0, 1.0, 1)])
def test_as_many_updates_as_one_core_makes(
    each: float, budget: float, updates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(monkeypatch, each)
    found = updates_within(budget, {"data.path": "iris", "model.encoder": "linear"}, tmp_path / "pilot")
    assert found == pytest.approx(updates, abs=1)
    assert not (tmp_path / "pilot").exists()


def test_no_clock_on_a_wall_is_looked_at_and_threads_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine makes a wall's clock run faster: it is not asked. Threads that wait would count: there is one."""
    asked: dict[str, Any] = {}

    def train(data: None, **settings: Any) -> None:
        from glassformer.training.events import Stepped

        asked.update(settings)
        for step in range(1, MAX_UPDATES + WARM_UP + 1):
            settings["listen"](Stepped(step, 1.0, 0.1, None, 1, 1e6 * step, 0.0))

    monkeypatch.setattr(f"{MODULE}.train", train)
    move(monkeypatch, 0.25)
    assert updates_within(10.0, {"data.path": "iris"}, tmp_path / "pilot") == 40
    assert asked["training.threads"] == 1
    assert asked["training.validate_every"] == asked["training.steps"]
    assert asked["draft"]


def test_asked_to_stop_while_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}.train", lambda data, **settings: None)
    assert updates_within(10.0, {}, tmp_path / "pilot") is None


def test_all_seeds_of_a_row_make_as_many_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an update seemed to take when another seed began."""
    measured = iter([40, 50, 60])
    monkeypatch.setattr(f"{MODULE}.updates_within", lambda *args: next(measured))
    jobs = [tmp_path / name for name in ("bag-0", "bag-1", "bag-x-0", "bag-0")]
    for job in jobs:
        job.mkdir(exist_ok=True)
    assert [row_updates(10.0, {}, job) for job in jobs] == [40, 40, 50, 40]
    assert not any(any(job.iterdir()) for job in jobs)
    (tmp_path / "bag.updates.json").write_text('{"updates": "many"}')
    with pytest.raises(RunError, match="is damaged: remove it"):
        row_updates(10.0, {}, jobs[0])


def test_of_seeds_that_measure_at_once_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "bag-0", tmp_path / "bag-1"
    for job in (first, second):
        job.mkdir()

    def measure(seconds: float, settings: dict[str, Any], scratch: Path) -> int:
        if scratch.parent == first:
            row_updates(seconds, settings, second)
        return 40 if scratch.parent == second else 50

    monkeypatch.setattr(f"{MODULE}.updates_within", measure)
    assert row_updates(10.0, {}, first) == 40


@pytest.mark.parametrize(("settings", "told"), [
    ({"cpu_seconds": 5, "steps": 3}, "training.steps and --cpu-seconds: give one of them"),
    ({"cpu_seconds": 5, "vary": {"training.epochs": [1, 2]}}, "training.epochs and --cpu-seconds: give one of them"),
])  # fmt: skip
def test_one_budget(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse, match=told):
        compare("iris", models="linear", **settings)


def test_a_budget_that_is_none() -> None:
    with pytest.raises(SettingError, match="--cpu-seconds is 0, but must be above 0"):
        compare("iris", models="linear", cpu_seconds=0)
    with pytest.raises(Misuse, match="cpu_seconds wants a number, not 'ten'"):
        compare("iris", models="linear", cpu_seconds="ten")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_comparison_in_cpu_seconds(tmp_path: Path) -> None:
    """The whole way: jobs, the words for the budget, and what is there is not trained again nor taken for another."""
    said: list[str] = []
    asked = {"models": "linear", "seeds": 1, "floors": False, "references": False, "out": tmp_path / "out"}
    first = compare("iris", cpu_seconds=0.05, say=said.append, **asked)
    assert first.budget == "0.05 CPU seconds each"
    assert first.rows[0].updates[0] >= 1
    again = compare("iris", cpu_seconds=0.05, say=said.append, **asked)
    assert any("1 of 1 are done already" in line for line in said)
    assert again.rows[0].updates == first.rows[0].updates
    with pytest.raises(Misuse, match=r"another --cpu-seconds \(0.05, not 0.1\)"):
        compare("iris", cpu_seconds=0.1, **asked)
