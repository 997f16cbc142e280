"""The loop: what an update is made of, when it looks and saves, when it ends, and that it can go on from anywhere."""

import copy
import math
import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.config.errors import SettingError, TrainingFailed
from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.context import TrainerOptions
from glassformer.training.device import choose_compile
from glassformer.training.events import Checkpointed, Ended, Event, Noted, Started, Stepped, Validated
from glassformer.training.loop import Trainer
from helpers.fitting import CPU, Fit, Memory, Training, linear, trained
from helpers.running import identical, move_clock
from helpers.settings import training_settings
from helpers.support import same


def steps_of(training: Training, kind: type) -> list[int]:
    return [event.step for event in training.told(kind)]


# --- an update ---


def gradient(model: nn.Module, task: Fit, step: int) -> dict[str, torch.Tensor]:
    """Of the mean over what is judged in the whole batch, by autograd."""
    twin = copy.deepcopy(model)
    batch = task.batch(step)
    (task.loss(twin, batch.x, batch.y) / batch.count).backward()
    return {name: weight.grad for name, weight in twin.named_parameters() if weight.grad is not None}


def test_one_update_is_the_gradient_of_the_mean() -> None:
    model, task = linear(), Fit()
    wanted = gradient(model, task, 0)
    before = copy.deepcopy(model)
    batch = task.batch(0)
    training = trained(model, task, steps=1, optimizer="sgd", lr=0.1, grad_clip=None, weight_decay=0.0)
    for name, weight in model.named_parameters():
        same(weight, before.get_parameter(name) - 0.1 * wanted[name], 1e-6)
    (event,) = training.told(Stepped)
    assert event.loss == pytest.approx(task.loss(before, batch.x, batch.y).item() / batch.count, rel=1e-5)
    assert event.gradient_norm is None
    assert event.tokens == 12


@pytest.mark.parametrize("accumulation_steps", [2, 3, 6, 12])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_batch_in_pieces_is_the_whole_batch(optimizer: str, accumulation_steps: int) -> None:
    """Pieces hold different numbers of judged rows: a mean of their means would be another number."""
    task = Fit()
    counts = {task.batch(0).rows(first, first + 2).count for first in range(0, 12, 2)}
    assert len(counts) > 1
    settings: dict[str, Any] = {"steps": 4, "optimizer": optimizer, "lr": 0.05, "l2": 0.2}
    whole = trained(linear(), task, **settings)
    pieces = trained(linear(), task, accumulation_steps=accumulation_steps, **settings)
    for name, weight in whole.model.named_parameters():
        same(pieces.model.get_parameter(name), weight, 1e-6)
    for one, other in zip(whole.told(Stepped), pieces.told(Stepped), strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-6)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-5)


def test_pieces_must_divide_the_batch() -> None:
    with pytest.raises(SettingError, match="accumulation_steps 5 does not divide"):
        Training(linear(), Fit(), accumulation_steps=5)


def test_clipping_shortens_the_gradient_and_keeps_its_direction() -> None:
    model, task = linear(), Fit()
    wanted = gradient(model, task, 0)
    norm = math.sqrt(sum(float(part.square().sum()) for part in wanted.values()))
    assert norm > 0.5
    for clip, factor in ((0.5, 0.5 / norm), (2 * norm, 1.0)):
        start = linear()
        training = trained(linear(), task, steps=1, optimizer="sgd", lr=1.0, grad_clip=clip, weight_decay=0.0)
        assert training.told(Stepped)[0].gradient_norm == pytest.approx(norm, rel=1e-5)
        for name, weight in training.model.named_parameters():
            same(weight, start.get_parameter(name) - factor * wanted[name], 1e-5)


def test_l2_is_in_the_gradient_and_not_in_the_logged_loss() -> None:
    plain = trained(linear(), Fit(), steps=1, optimizer="sgd", lr=0.0)
    with_l2 = trained(linear(), Fit(), steps=1, optimizer="sgd", lr=0.0, l2=5.0)
    assert with_l2.told(Stepped)[0].loss == plain.told(Stepped)[0].loss
    assert with_l2.told(Stepped)[0].gradient_norm > plain.told(Stepped)[0].gradient_norm


class Noisy(nn.Sequential):
    """A linear map whose inputs are dropped at random."""

    def __init__(self) -> None:
        super().__init__(nn.Dropout(0.5), linear())


def test_random_numbers_follow_from_seed_and_step() -> None:
    losses = []
    for disturbed in (False, True):
        training = Training(Noisy(), Fit(), steps=5, seed=4)
        if disturbed:
            training.listen = lambda event, tell=training.events.append: tell(event) or torch.rand(7)
        training.run()
        losses.append([event.loss for event in training.told(Stepped)])
    assert losses[0] == losses[1]
    other = [event.loss for event in trained(Noisy(), Fit(), steps=5, seed=5).told(Stepped)]
    assert other != losses[0]


def test_random_numbers_are_new_in_every_step() -> None:
    class Draws(nn.Linear):
        drawn: list[float]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.drawn.append(torch.rand(()).item())
            return super().forward(x)

    drawn = []
    for seed in (4, 4, 5):
        model = Draws(3, 2)
        model.drawn = []
        trained(model, Fit(), steps=6, seed=seed)
        drawn.append(model.drawn)
    assert drawn[0] == drawn[1]
    assert len({*drawn[0], *drawn[2]}) == 12


# --- when ---


def test_validations_in_tenths_of_the_run() -> None:
    training = trained(linear(), Fit(), steps=40)
    assert steps_of(training, Validated) == list(range(4, 41, 4))
    assert steps_of(training, Checkpointed) == list(range(4, 41, 4))
    assert steps_of(training, Stepped) == list(range(1, 41))


def test_validations_and_checkpoints_as_asked() -> None:
    training = trained(linear(), Fit(), steps=13, validate_every=5, checkpoint_every=3)
    assert steps_of(training, Validated) == [5, 10, 13]
    assert steps_of(training, Checkpointed) == [3, 5, 6, 9, 10, 12, 13]


def test_a_checkpoint_is_written_once_and_after_its_validation() -> None:
    """Going on from it must not have to validate again, nor find it half replaced."""
    training = trained(linear(), Fit(), steps=6, validate_every=2, checkpoint_every=1)
    assert steps_of(training, Checkpointed) == [1, 2, 3, 4, 5, 6]
    order = [
        (type(event).__name__, event.step) for event in training.events if isinstance(event, Validated | Checkpointed)
    ]
    assert order[-2:] == [("Validated", 6), ("Checkpointed", 6)]


def test_the_stream_of_events() -> None:
    training = trained(linear(), Fit(), steps=2, validate_every=1)
    kinds = [type(event).__name__ for event in training.events]
    assert kinds == ["Started"] + ["Stepped", "Validated", "Checkpointed"] * 2 + ["Ended"]
    started, ended = training.events[0], training.events[-1]
    assert isinstance(started, Started)
    assert (started.step, started.steps, started.minutes) == (0, 2, None)
    assert isinstance(ended, Ended)
    assert (ended.step, ended.reason) == (2, "finished")


def test_epochs() -> None:
    """2.5 updates go through the data once."""
    for epochs, steps in ((1, 3), (2, 5), (0.1, 1), (4.4, 11)):
        assert trained(linear(), Fit(), epochs=epochs).trainer.context.progress.step == steps


def test_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    move_clock(monkeypatch, "training.budget")
    training = trained(linear(), Fit(), minutes=4 / 60, schedule="cosine", lr_floor=0.0, warmup=0, lr=0.1)
    assert 3.9 < training.trainer.context.progress.elapsed <= 4
    steps = training.told(Stepped)
    done = [event.done for event in steps]
    assert done == sorted(done)
    assert 0 <= done[0] < 0.01
    assert 0.95 < done[-1] < 1
    for event in steps:
        assert event.lr == pytest.approx(0.1 * 0.5 * (1 + math.cos(math.pi * event.done)))
    assert 10 <= len(training.told(Validated)) < 30


# --- best, and enough ---


def test_the_best_weights_are_kept() -> None:
    training = trained(linear(), Fit(scores=[3.0, 2.0, 2.5, 1.9, 1.9]), steps=5, validate_every=1)
    assert [step for step, _ in training.kept.bests] == [1, 2, 4]
    assert [event.best for event in training.told(Validated)] == [True, True, False, True, False]
    _, best = training.kept.bests[-1]
    identical(best, training.kept.snapshots[3].weights)


def test_where_higher_is_better() -> None:
    class Accuracy(Fit):
        def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
            return Evaluation({"accuracy": self.scores.pop(0)}, "accuracy", lower_is_better=False)

    training = trained(linear(), Accuracy(scores=[0.3, 0.5, 0.4]), steps=3, validate_every=1)
    assert [step for step, _ in training.kept.bests] == [1, 2]


def test_patience() -> None:
    scores = [3.0, 2.0, 2.5, 1.5, 1.6, 1.7, 1.8, 0.1]
    training = Training(linear(), Fit(scores=scores), steps=80, validate_every=10, patience=3)
    ended = training.run()
    assert (ended.reason, ended.step) == ("patience", 70)
    step, best = training.kept.bests[-1]
    assert step == 40
    identical(best, next(kept.weights for kept in training.kept.snapshots if kept.progress.step == 40))
    assert training.kept.snapshots[-1].progress.step == 70


def test_without_patience_it_goes_on() -> None:
    training = trained(linear(), Fit(scores=[1.0, *[2.0] * 7]), steps=8, validate_every=1)
    assert training.trainer.context.progress.step == 8


# --- going on ---


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "muon"])
@pytest.mark.parametrize("patience", [None, 2])
def test_going_on_from_any_checkpoint_is_never_having_stopped(optimizer: str, patience: int | None) -> None:
    """As if it had been killed right after each checkpoint, the last one among them."""
    settings: dict[str, Any] = {
        "steps": 9,
        "validate_every": 2,
        "checkpoint_every": 1,
        "optimizer": optimizer,
        "lr": 0.1,
    }
    scores = [3.0, 2.0, 2.5, 2.6, 2.4] if patience else []
    whole = Training(Noisy(), Fit(scores=scores), patience=patience, **settings)
    ended = whole.run()
    assert ended.step == (8 if patience else 9)
    assert len(whole.kept.snapshots) == ended.step
    for snapshot in whole.kept.snapshots:
        again = Training(
            Noisy(),
            Fit(scores=scores[snapshot.progress.step // 2 :]),
            patience=patience,
            resume=copy.deepcopy(snapshot),
            **settings,
        )
        assert again.run().reason == ended.reason
        last, expected = (again.kept.snapshots or [snapshot])[-1], whole.kept.snapshots[-1]
        assert last.progress.step == expected.progress.step
        identical(last.weights, expected.weights)
        identical(last.optimiser, expected.optimiser)
        assert last.progress.best_score == expected.progress.best_score
        assert last.progress.best_step == expected.progress.best_step
        later = [event.loss for event in whole.told(Stepped) if event.step > snapshot.progress.step]
        assert [event.loss for event in again.told(Stepped)] == later
        bests = [step for step, _ in whole.kept.bests if step > snapshot.progress.step]
        assert [step for step, _ in again.kept.bests] == bests


def test_a_finished_run_may_be_given_more() -> None:
    short = trained(Noisy(), Fit(), steps=4)
    more = Training(Noisy(), Fit(), steps=7, resume=short.kept.snapshots[-1])
    more.run()
    whole = trained(Noisy(), Fit(), steps=7)
    identical(more.kept.snapshots[-1].weights, whole.kept.snapshots[-1].weights)


def test_threads_are_kept() -> None:
    short = trained(linear(), Fit(), steps=1)
    assert short.kept.snapshots[-1].progress.threads == torch.get_num_threads() == 1
    short.kept.snapshots[-1].progress.threads = 2
    used = []
    for more in ({"resume": short.kept.snapshots[-1], "steps": 2}, {"threads": 3, "steps": 1}):
        training = Training(linear(), Fit(), **more)
        tell = training.listen
        training.listen = lambda event, tell=tell: (used.append(torch.get_num_threads()), tell(event))
        training.run()
    assert set(used) == {2, 3, 1}  # the last word, Ended, comes when they are given back
    assert torch.get_num_threads() == 1


def test_the_callers_random_numbers_are_left_alone() -> None:
    model = Noisy()
    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(3)
    trained(model, Fit(), steps=3)
    assert torch.equal(torch.rand(5), expected)


def test_a_batch_that_asks_for_nothing_changes_nothing() -> None:
    model = build_language_model(resolve({}, {"size": "nano", "model.context": 1}).model, vocab=7)
    ids = np.array([1, 5, 2, 1, 5, 2] * 3, dtype=np.uint16)
    parts = {name: SimpleNamespace(ids=ids, bytes=6, unknown=0) for name in ("train", "validation")}
    task = LanguageModelling(parts, context=1, batch_size=1, start=1)
    assert any(task.batch(step).count == 0 for step in range(12))
    settings = training_settings(steps=12, batch_size=1)
    Trainer(model, task, settings, TrainerOptions(CPU, checkpointer=Memory())).run()
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


# --- asked to stop ---


def stopped(step: int, number: int, times: int = 1, **settings: Any) -> Training:
    training = Training(Noisy(), Fit(), **settings)
    tell = training.listen

    def listen(event: Event) -> None:
        tell(event)
        if isinstance(event, Stepped) and event.step == step:
            for _ in range(times):
                os.kill(os.getpid(), number)

    training.listen = listen
    training.run()
    return training


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_step_and_saves(number: int) -> None:
    handler = signal.getsignal(number)
    training = stopped(3, number, steps=9, validate_every=4)
    ended = training.told(Ended)[0]
    assert (ended.reason, ended.step) == ("interrupted", 3)
    assert [kept.progress.step for kept in training.kept.snapshots] == [3]
    assert signal.getsignal(number) is handler
    again = Training(Noisy(), Fit(), resume=training.kept.snapshots[-1], steps=9, validate_every=4)
    again.run()
    identical(again.kept.snapshots[-1].weights, trained(Noisy(), Fit(), steps=9).kept.snapshots[-1].weights)


def test_a_signal_at_a_validation_saves_once() -> None:
    training = stopped(4, signal.SIGTERM, steps=9, validate_every=4)
    assert [kept.progress.step for kept in training.kept.snapshots] == [4]
    assert training.told(Ended)[0].reason == "interrupted"


def test_a_signal_in_the_last_step_is_too_late() -> None:
    """There is nothing left to go on with: it validates, saves, and has finished."""
    training = stopped(9, signal.SIGTERM, steps=9, validate_every=4)
    assert training.told(Ended)[0].reason == "finished"
    assert steps_of(training, Validated) == [4, 8, 9]


def test_a_second_ctrl_c_stops_at_once() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        stopped(3, signal.SIGINT, times=2, steps=9)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_compiler_that_dies_of_the_signal_has_not_failed(interrupted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to the whole group of processes ends the C++ compiler too."""

    def compiled(function: object, **how: object) -> Any:
        def dies(*tensors: torch.Tensor) -> None:
            if interrupted:
                os.kill(os.getpid(), signal.SIGTERM)
            raise RuntimeError("C++ compile error")

        return dies

    monkeypatch.setattr(torch, "compile", compiled)
    training = trained(linear(), Fit(), steps=3, compile="on")
    assert [event.text for event in training.told(Noted)] == (
        [] if interrupted else ["torch.compile failed (C++ compile error); going on without it"]
    )
    assert training.told(Ended)[0].reason == ("interrupted" if interrupted else "finished")


# --- numbers that are none ---


class Explodes(Fit):
    """In one step, one row of the batch is infinite."""

    def __init__(self, step: int, row: int = 0) -> None:
        super().__init__()
        self.step, self.row = step, row

    def batch(self, step: int) -> Any:
        batch = super().batch(step)
        if step + 1 == self.step:
            batch.y[self.row] = batch.x[self.row, 0] = torch.inf
        return batch


@pytest.mark.parametrize(("row", "accumulation_steps"), [(1, 1), (11, 4)])
def test_a_loss_that_is_not_finite_names_step_and_tensor(row: int, accumulation_steps: int) -> None:
    model = nn.Sequential(linear(), nn.Identity())
    training = Training(
        model, Explodes(4, row), steps=9, lr=0.3, checkpoint_every=1, accumulation_steps=accumulation_steps
    )
    with pytest.raises(TrainingFailed, match=r"at step 4 .*output of 0.*--resume --lr 0\.1$") as caught:
        training.run()
    assert "\n" not in str(caught.value)
    assert all(weight.isfinite().all() for weight in model.parameters())  # known before the weights are touched
    assert training.kept.snapshots[-1].progress.step == 3


def test_weights_from_which_the_next_loss_is_not_finite_are_no_good_checkpoint() -> None:
    training = Training(linear(), Explodes(4), steps=9, checkpoint_every=1)
    with pytest.raises(TrainingFailed):
        training.run()
    assert training.kept.forgotten == [3]
    training = Training(linear(), Explodes(4), steps=9, validate_every=9, checkpoint_every=2)
    with pytest.raises(TrainingFailed):
        training.run()
    assert training.kept.forgotten == []


def test_a_validation_that_is_not_finite_is_never_best() -> None:
    for scores in ([math.nan], [1.0, math.inf], [2.0, math.nan, 1.0]):
        finite = [score for score in scores[:1] if math.isfinite(score)]
        training = Training(linear(), Fit(scores=scores), steps=5, validate_every=1)
        with pytest.raises(TrainingFailed, match=r"validation loss became (nan|inf) after step"):
            training.run()
        assert len(training.kept.bests) == len(finite)


def test_a_parameter_that_is_not_finite() -> None:
    last = nn.Linear(2, 2)
    last.load_state_dict({"weight": torch.eye(2), "bias": torch.tensor([0.0, torch.nan])})
    training = Training(nn.Sequential(linear(), last), Fit(), steps=9)
    with pytest.raises(TrainingFailed, match=r"the loss became nan at step 1 .*not finite: parameter 1\.bias\)"):
        training.run()


def test_a_gradient_that_is_not_finite() -> None:
    class Steep(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return y + (y * 0).abs().sqrt()  # the root of 0 is 0, its slope is not a number

    training = Training(Steep(3, 2), Fit(), steps=9)
    with pytest.raises(TrainingFailed, match=r"a gradient is not finite at step 1 .*gradient of weight"):
        training.run()


@pytest.mark.parametrize(
    ("device", "steps", "how"),
    [
        ("cpu", 10**6, "off"),
        ("mps", 10**6, "off"),
        ("cuda", 999, "off"),
        ("cuda", 1_000, "on"),
        ("cuda", 20_000, "tuned"),
    ],
)
def test_long_runs_on_a_gpu_are_compiled(device: str, steps: int, how: str) -> None:
    assert choose_compile(training_settings(), torch.device(device), steps) == how
    assert choose_compile(training_settings(), torch.device(device), steps, steady=False) == "off"
    assert choose_compile(training_settings(compile="on"), torch.device(device), 1) == "on"
