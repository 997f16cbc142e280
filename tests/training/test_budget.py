"""Minutes are for a whole command: reading, updates, validations, the last evaluation; told by a clock that moves as
each of them says it takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from glassformer.cli.terminal.progress import Watcher
from glassformer.config.errors import SettingError
from glassformer.data.order import drawn_rows
from glassformer.reporting.papers import leave_report
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.intervals import with_interval
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.translation import Translating
from glassformer.training.budget import MIN_EXAMPLES, Budget, fit_sample
from glassformer.training.checkpointer import Progress
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Ended, Noted, Started, Stepped, Validated
from glassformer.training.loop import Trainer
from glassformer.verbs.train import train
from helpers.fitting import CPU, Fit, Memory, Pairs, Training, linear
from helpers.running import StopAfter, log_of, tiny
from helpers.settings import training_settings


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.ended = False

    def __call__(self) -> float:
        return self.now


class Slow(Fit):
    """An update and a validation take as long as they are told to; of a validation, a part whatever it judges."""

    record = "row"

    def __init__(self, clock: Hand, *, update: float, same: float, each: float, count: int, **more: Any) -> None:
        super().__init__(**more)
        self.clock, self.update, self.same, self.each, self.count = clock, update, same, each, count
        self.parts = {"validation": None}
        self.judged: list[int] = []

    def record_count(self, part: str) -> int:
        return self.count

    def batch(self, step: int) -> Pairs:
        if step != 999:  # which is what it is judged on
            self.clock.now += self.update
        return super().batch(step)

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        judged = len(self.drawn(self.count))
        self.judged.append(judged)
        self.clock.now += self.same + judged * self.each
        return super().evaluate(model, part)


class Slowly:
    """A training of `Slow`, in a budget of minutes, and what follows its loop."""

    def __init__(self, minutes: float, *, reading: float = 0.0, parts: int = 2, papers: float = 4.0, **costs: Any):
        self.clock = Hand(reading)
        settings = {name: costs.pop(name) for name in ("patience", "keep") if name in costs}
        self.task = Slow(self.clock, **{"update": 0.5, "same": 0.0, "each": 0.001, "count": 1000, **costs})
        self.events: list[Any] = []
        self.trainer = Trainer(
            linear(),
            self.task,
            _settings(minutes=minutes, **settings),
            TrainerOptions(
                CPU,
                checkpointer=Memory(),
                listen=self.events.append,
                clock=self.clock,
                budget=Budget(60 * minutes, parts, float(parts), papers),
            ),
        )
        self.ended = self.trainer.run()
        self.loop = self.clock.now
        self.last = self.trainer.validator.last_task(["validation"], self.trainer.elapsed(), whole=False)
        for _ in range(parts):
            self.last.evaluate(linear(), "validation")

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Noted)]


def _settings(**more: Any) -> Any:

    return training_settings(**{"batch_size": 12, "schedule": "constant", "warmup": 0, **more})


@pytest.mark.sample(7)
@pytest.mark.parametrize("minutes", [1, 3])
@pytest.mark.parametrize("reading", [0.0, 25.0])
@pytest.mark.parametrize(
    "costs",
    [
        {},  # what is held out is soon judged
        {"each": 0.1, "count": 5000},  # it takes longer than the budget, as a translator's does
        {"each": 0.01, "same": 1.0, "count": 5000},  # written token by token, whatever is judged
        {"update": 4.0, "each": 0.02},  # and updates are slow too
        {"each": 0.0005, "count": 10**6},
    ],
)
def test_a_whole_command_ends_in_time(minutes: float, reading: float, costs: dict[str, float]) -> None:
    slowly = Slowly(minutes, reading=reading, **costs)
    seconds = 60 * minutes
    papers = min(4.0, 0.1 * (seconds - reading))
    assert 0.75 * seconds < slowly.clock.now <= seconds - papers + max(5, 0.05 * seconds)
    left = seconds - reading
    progress = slowly.trainer.context.progress
    assert progress.validating <= 0.15 * left + 4 * (costs.get("same", 0.0) + MIN_EXAMPLES * costs.get("each", 0.0))
    assert progress.seconds > 0.4 * left - 2 * costs.get("update", 0.0)  # most of it is for updates


def test_every_validation_judges_the_same() -> None:
    slowly = Slowly(1, each=0.01, count=5000)
    (told,) = [note for note in slowly.notes if note.startswith("each validation uses")]
    judged = int(told.split()[3])
    assert told == f"each validation uses {judged} of 5,000 rows, to take a tenth of the time"
    validations = len([event for event in slowly.events if isinstance(event, Validated)])
    assert validations >= 5
    assert slowly.task.judged.count(judged) >= validations
    assert MIN_EXAMPLES < judged <= 60 * 0.005 / 0.01


class OnFeatures(Slow):
    """The features of a part take as long as they do the first time that it is judged."""

    on_features = True

    def sample_part(self, part: Any) -> list[str]:
        return []

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        before = self.clock.now
        evaluation = super().evaluate(model, part)
        if self.parts[part]:
            self.clock.now = before
        else:
            self.parts[part].append("features")
        return evaluation


def test_features_of_a_sample_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Slow", OnFeatures)
    slowly = Slowly(1, each=0.02, count=5000)
    progress = slowly.trainer.context.progress
    assert progress.sample is not None
    judged = round(progress.sample * 5000)
    assert slowly.task.judged.count(judged) >= 5
    assert progress.evaluating == pytest.approx(0.02 * judged)  # as long as the last evaluation will take for as many
    assert progress.validating < 3 * progress.evaluating + 0.02 * MIN_EXAMPLES * 8


def test_without_minutes_nothing_is_sampled() -> None:
    clock = Hand()
    task = Slow(clock, update=0.1, same=0.0, each=10.0, count=1000)
    events: list[Any] = []
    Trainer(
        linear(),
        task,
        _settings(steps=20),
        TrainerOptions(CPU, checkpointer=Memory(), listen=events.append, clock=clock),
    ).run()
    assert set(task.judged) == {1000}
    assert not [event for event in events if isinstance(event, Noted)]


def test_reading_that_took_it_all_leaves_one_update() -> None:
    slowly = Slowly(1, reading=90.0, each=0.1, count=5000)
    assert slowly.ended.step == 1
    assert slowly.clock.now < 90 + 0.1 + 6 * MIN_EXAMPLES * 0.1
    assert len(slowly.task.judged) >= 2


# --- how much fits ---


@pytest.mark.parametrize(
    ("same", "each", "seconds", "low", "high"),
    [
        (0.0, 0.001, 10.0, 5000, 5000),  # all of it
        (0.0, 0.01, 1.0, 95, 105),
        (2.0, 0.01, 1.0, 16, 16),  # not even a try is worth it
        (0.4, 0.001, 1.0, 990, 1010),  # what is the same for all does not count
        (0.0, 5.0, 1.0, 16, 16),  # the least
    ],
)
def test_what_fits(same: float, each: float, seconds: float, low: int, high: int) -> None:
    measured: list[float] = []

    def measure(share: float) -> float:
        measured.append(same + share * 5000 * each)
        return measured[-1]

    share, growing = fit_sample(measure, 5000, 1.0, seconds)
    assert low <= round(5000 * share) <= high
    assert 0 < growing <= 1
    assert sum(measured) <= 4 * seconds + 2 * (same + 16 * each)


def test_a_first_measure_that_loads_much_is_made_again() -> None:
    costs = iter([3.0, 0.016, 0.064, 0.256])
    share, _ = fit_sample(lambda share: next(costs), 5000, 1.0, 0.3)
    assert round(5000 * share) == pytest.approx(300, rel=0.1)


def test_tokens_still_bound_a_validation() -> None:
    assert fit_sample(lambda share: 1e-6, 5000, 0.2, 10.0).share == 0.2


@pytest.mark.parametrize(("size", "count"), [(1, 1), (7, 3), (1000, 999), (1000, 16), (10**9, 5)])
def test_a_sample_is_always_the_same_and_in_a_larger_one(size: int, count: int) -> None:
    rows = drawn_rows(size, count)
    assert len(set(rows.tolist())) == len(rows) == min(count, size)
    assert rows.tolist() == sorted(rows.tolist())
    assert rows.min() >= 0
    assert rows.max() < size
    assert set(rows.tolist()) <= set(drawn_rows(size, count + 1).tolist())


def test_a_sample_is_drawn_evenly() -> None:
    """Rows that come in turns (a class and another) are not drawn in turns."""
    even = [np.mean(drawn_rows(size, size // 2) % 2) for size in (1000, 1002, 2048)]
    assert all(0.42 < share < 0.58 for share in even)


# --- enough ---


def test_a_model_that_has_converged_is_left() -> None:
    scores = [3.0, 2.0, *([2.01] * 100)]
    slowly = Slowly(1, scores=scores, count=1)
    assert slowly.ended.reason == "patience"
    assert 0.2 * 60 < slowly.loop < 0.4 * 60
    assert any(note.startswith("stopped early: converged:") for note in slowly.notes)


class Overfits(Slow):
    """Its validation loss falls until `turn` seconds and rises from then on, by `rise` per minute."""

    turn, rise = 12.0, 3.0

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        super().evaluate(model, part)
        since = self.clock.now - self.turn
        loss = 4 - 0.1 * since if since < 0 else 4 + self.rise * since / 60
        return Evaluation({"loss": loss}, "loss", lower_is_better=True)


@pytest.mark.parametrize("costs", [{}, {"each": 0.01, "count": 5000}])
def test_a_model_that_overfits_is_stopped_soon(monkeypatch: pytest.MonkeyPatch, costs: dict[str, Any]) -> None:
    monkeypatch.setitem(globals(), "Slow", Overfits)
    slowly = Slowly(1, **{"update": 0.1, "count": 1, **costs})
    assert slowly.ended.reason == "patience"
    assert slowly.loop <= Overfits.turn + 0.25 * 60  # it was at its best after a fifth of the time
    best = slowly.trainer.context.progress.best_step
    said = f"stopped early: overfitted: the validation loss has risen since step {best} "
    assert any(note.startswith(said) for note in slowly.notes)
    steps = [event.step for event in slowly.events if isinstance(event, Validated)]
    assert len([step for step in steps if step <= best]) >= 5 - 2 * bool(costs)


class Wobbles(Slow):
    """Its score on a sample drops a little after 20 seconds while its loss goes on falling."""

    min_sample, noise, drop = 16, 1.0, 0.0

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        super().evaluate(model, part)
        score = min(20.0, self.clock.now) if self.clock.now < 25 else 20.0 - self.drop
        return Evaluation({"chrf": score, "loss": 4 - 0.01 * self.clock.now}, "chrf", lower_is_better=False)


@pytest.mark.parametrize(("drop", "keeps_last"), [(0.3, True), (3.0, False)])
def test_within_the_noise_of_a_sample_the_loss_decides(
    drop: float, keeps_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wobbles, "drop", drop)
    monkeypatch.setitem(globals(), "Slow", Wobbles)
    slowly = Slowly(1, update=0.1, count=5000, each=0.01)
    progress = slowly.trainer.context.progress
    steps = [event.step for event in slowly.events if isinstance(event, Validated)]
    assert progress.sample is not None
    assert progress.sample < 1
    assert (progress.best_step == steps[-1]) == keeps_last
    assert progress.best_score == pytest.approx(-20.0)


@pytest.mark.parametrize(("drop", "keeps_last"), [(0.3, True), (3.0, False)])
def test_a_small_validation_part_is_as_noisy_as_a_sample(
    drop: float, keeps_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 16 records are scored each time: the standard error is that of a sample of 16."""
    monkeypatch.setattr(Wobbles, "drop", drop)
    monkeypatch.setitem(globals(), "Slow", Wobbles)
    slowly = Slowly(1, update=0.1, count=16, each=0.001)
    progress = slowly.trainer.context.progress
    steps = [event.step for event in slowly.events if isinstance(event, Validated)]
    assert progress.sample == 1.0
    assert (progress.best_step == steps[-1]) == keeps_last


@pytest.mark.parametrize(
    ("changes", "stops"),
    [({}, True), ({"risen": 2}, False), ({"improved": 28.0}, False), ({"best_step": 4}, False)],
)
def test_what_counts_as_overfitting(changes: dict[str, Any], stops: bool) -> None:
    """It follows from what a checkpoint holds, so that a resumed run stops where it would have stopped."""
    progress = Progress(**{"step": 20, "best_step": 10, "risen": 3, "improved": 20.0, "elapsed": 30.0, **changes})
    assert Budget(60.0).has_overfitted(progress, per_epoch=5) == stops


@pytest.mark.parametrize(("scores", "risen"), [([2.0, 2.05, 2.1, 2.2], 2), ([2.0, 2.2, 2.05], 0), ([2.0, 2.2, 1.9], 0)])
def test_clear_rises_in_a_row_are_counted(scores: list[float], risen: int) -> None:
    training = Training(linear(), Fit(scores=scores), steps=len(scores), validate_every=1)
    training.run()
    assert training.kept.snapshots[-1].progress.risen == risen


@pytest.mark.parametrize("more", [{"patience": 1000}, {"keep": "last"}])
def test_who_says_so_trains_on(more: dict[str, Any]) -> None:
    slowly = Slowly(1, scores=[3.0, 2.0, *([2.5] * 100)], count=1, **more)
    assert slowly.ended.reason == "finished"


def test_a_loss_that_falls_is_no_end() -> None:
    """Of a classifier on its plateau the accuracy stays, and the loss falls."""

    class Plateau(Slow):
        def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
            loss = 1 - 0.001 * len(self.judged)
            super().evaluate(model, part)
            accuracy = 0.61 if len(self.judged) == 1 else 0.6
            return Evaluation({"accuracy": accuracy, "loss": loss}, "accuracy", lower_is_better=False)

    clock = Hand()
    task = Plateau(clock, update=0.1, same=0.0, each=0.001, count=1)
    trainer = Trainer(
        linear(),
        task,
        _settings(minutes=1),
        TrainerOptions(CPU, checkpointer=Memory(), clock=clock),
    )
    assert trainer.run().reason == "finished"


def test_a_budget_that_was_used_up_stays_so() -> None:
    budget, progress = Budget(60.0, 2, 2.0, 4.0), Progress(step=5, seconds=1.0, elapsed=30.0)
    assert budget.part_done(progress) < 1
    progress.spent = 60.0
    assert budget.part_done(progress) == 1
    assert Budget(120.0, 2, 2.0, 4.0).part_done(progress) < 1  # who gives more goes on


# --- what is refused, and said ---


@pytest.mark.parametrize("settings", [{"steps": 0}, {"minutes": 0}, {"epochs": 0}])
def test_nothing_to_learn_is_refused_before_data_is_looked_for(settings: dict[str, Any]) -> None:
    name, _ = next(iter(settings.items()))
    with pytest.raises(SettingError, match=rf"^training\.{name} is 0"):
        train("nowhere.csv", **settings)


@pytest.mark.parametrize(("per_example", "said"), [(None, "400 tokens/s"), (4, "100 examples/s")])
def test_rows_and_images_are_counted_as_examples(
    per_example: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher()
    watcher(Started(0, 1, None, ("on cpu",), per_example))
    for step in (1, 2):
        watcher.last_line = -100.0  # a line now and then
        watcher(Stepped(step, 1.0, 0.1, None, 400 * step, float(step), 0.0))
    told = capsys.readouterr().err
    assert "training: 1 update; on cpu" in told
    assert said in told


# --- whole trainings ---


@contextmanager
def costs(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], clock: Hand, *, update: float, each: float
) -> Iterator[None]:
    """Every batch and every record that is judged moves the clock."""
    batch, evaluate = kind.batch, kind.evaluate

    def slow_batch(self: Any, step: int) -> Any:
        clock.now += 0 if clock.ended else update  # the doctor looks at batches too, faster than updates are
        return batch(self, step)

    def slow_evaluate(self: Any, *args: Any, **more: Any) -> Evaluation:
        evaluation: Evaluation = evaluate(self, *args, **more)
        clock.now += each * len(evaluation.records)
        return evaluation

    with monkeypatch.context() as patch:
        patch.setattr(kind, "batch", slow_batch)
        patch.setattr(kind, "evaluate", slow_evaluate)
        yield


KINDS: list[tuple[str, type[Any], dict[str, Any]]] = [
    ("reverse:rows=2000", LanguageModelling, tiny()),
    ("opinions:rows=1500", Labelling, {"model": "bag", "training.batch_size": 64}),
    ("reverse-pairs:rows=2000", Translating, {"model": "gru", "model.width": 8, "training.batch_tokens": 64}),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("data", "kind", "settings"), KINDS)
def test_a_training_ends_in_time_and_says_what_it_judged(
    data: str, kind: type[Any], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, events = Hand(3.0), list[Any]()

    def listen(event: Any) -> None:
        events.append(event)
        clock.ended = clock.ended or isinstance(event, Ended)

    drop = ("training.steps", "training.validate_every")
    plain = {key: value for key, value in settings.items() if key not in drop}
    monkeypatch.setattr("glassformer.reporting.papers.leave_report", leave_report)  # it is made of the sample
    with costs(monkeypatch, kind, clock, update=1.0, each=0.1):
        trained = train(data, out=tmp_path / "run", minutes=1, clock=clock, listen=listen, **plain)
    assert 40 < clock.now <= 60 + 6
    said = [event.text for event in events if isinstance(event, Noted)]
    judged = max(MIN_EXAMPLES, kind.min_sample)
    assert any(text.startswith(f"each validation uses {judged} of ") for text in said)
    assert any(text.startswith("the last evaluation uses ") for text in said)
    assert " drawn at random" in trained.summary
    primary = trained.evaluations["validation"].primary
    low, value, high = (trained.validation[name] for name in (f"{primary}_low", primary, f"{primary}_high"))
    assert low <= value <= high
    assert trained.validation["judged_share"] < 1
    card = Run(tmp_path / "run").card()
    assert card["validation"] == trained.validation
    assert "drawn at random" in (tmp_path / "run" / "README.md").read_text()
    assert (tmp_path / "run" / "report.html").exists()
    lines = [line for line in log_of(tmp_path / "run") if line["event"] == "validation"]
    counts = {line.get("texts", line.get("pairs", line.get("tokens"))) for line in lines}
    assert len(counts) == 1  # each saw as many


def test_a_draft_is_judged_whole_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs are compared on the same examples."""
    clock, events = Hand(), list[Any]()
    with costs(monkeypatch, Labelling, clock, update=1.0, each=0.5):
        trained = train(
            "opinions:rows=1500",
            out=tmp_path / "run",
            minutes=0.5,
            clock=clock,
            listen=events.append,
            draft=True,
            model="bag",
            **{"training.batch_size": 64},
        )
    assert trained.validation["texts"] == 150
    said = [event.text for event in events if isinstance(event, Noted)]
    assert "the last evaluation takes about 75 s" in said


@pytest.mark.slow
def test_going_on_has_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {key: value for key, value in tiny().items() if key != "training.steps"}
    clock, stop = Hand(2.0), StopAfter(15)
    with costs(monkeypatch, LanguageModelling, clock, update=1.0, each=0.001):
        first = train("reverse:rows=600", out=tmp_path / "run", minutes=1, clock=clock, listen=stop, **settings)
        assert first.reason == "interrupted"
        spent, again = clock.now, Hand(5.0)
    with costs(monkeypatch, LanguageModelling, again, update=1.0, each=0.001):
        events: list[Any] = []
        train(out=tmp_path / "run", resume=True, clock=again, listen=events.append)
    assert 50 < spent + again.now <= 61


# --- intervals ---


def evaluation(records: Sequence[dict[str, Any]], primary: str, value: float) -> Evaluation:
    return Evaluation({primary: value}, primary, lower_is_better=primary in ("loss", "rmse"), records=list(records))


def test_intervals_hold_what_they_are_of() -> None:
    task = Slow(Hand(), update=0, same=0, each=0, count=100).sample(0.5)
    words = ["a", "b"]
    rng = np.random.default_rng(3)
    right = rng.random(200) < 0.7
    classes = [{"label": "a", "predicted": "a" if hit else "b"} for hit in right]
    errors = rng.normal(size=200)
    sets = [({"a", "b"} if rng.random() < 0.5 else {"a"}, {words[int(rng.integers(2))]}) for _ in range(200)]
    hits = sum(len(true & predicted) for true, predicted in sets)
    sizes = sum(len(true) + len(predicted) for true, predicted in sets)
    texts = [{"output": f"the {word} sat", "target": "the cat sat"} for word in ("cat", "dog") * 50]
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF().corpus_score([one["output"] for one in texts], [[one["target"] for one in texts]]).score
    for one in (
        evaluation(classes, "accuracy", float(right.mean())),
        evaluation([{"error": float(error)} for error in errors], "rmse", float(np.sqrt((errors**2).mean()))),
        evaluation([{"labels": list(a), "predicted": list(b)} for a, b in sets], "micro_f1", 2 * hits / sizes),
        evaluation([{"loss": 2.0 * n, "tokens": n} for n in (3, 0, 5)] + [{"loss": 4.0, "tokens": 4}], "loss", 20 / 12),
        evaluation(texts, "chrf", chrf),
    ):
        metrics = with_interval(task, one).metrics
        primary = one.primary
        assert metrics[f"{primary}_low"] < one.metrics[primary] < metrics[f"{primary}_high"], primary
        middle = (metrics[f"{primary}_low"] + metrics[f"{primary}_high"]) / 2
        assert middle == pytest.approx(one.metrics[primary], rel=0.05)


def test_a_whole_evaluation_is_left_as_it_is() -> None:
    one = evaluation([{"label": "a", "predicted": "a"}], "accuracy", 1.0)
    assert with_interval(Fit(), one) is one


def test_a_metric_that_nobody_knows_has_no_interval() -> None:
    task = Slow(Hand(), update=0, same=0, each=0, count=100).sample(0.5)
    found = with_interval(task, evaluation([{}, {}], "elegance", 0.5))
    assert found.metrics == {"elegance": 0.5, "judged_share": 0.5}
    assert found.summary.endswith("(on 2 rows drawn at random)")
