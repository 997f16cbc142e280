"""The average of the weights: the numbers themselves, where it is used, and that training does not notice it."""

import copy
import math
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from glassformer.config.errors import SettingError, TrainingFailed
from glassformer.models.weights import put_weights, take_weights, trained_weights
from glassformer.training import loop
from glassformer.training.checkpointer import Snapshot
from glassformer.training.context import TrainerOptions
from glassformer.training.distributed.processes import Processes
from glassformer.training.events import Event, Stepped, Validated
from glassformer.training.loop import Trainer
from glassformer.training.optimiser import Average
from helpers.fitting import CPU, Fit, Memory, Training, linear, trained
from helpers.running import identical
from helpers.settings import training_settings
from helpers.support import same

OFTEN: dict[str, Any] = {"checkpoint_every": 1, "validate_every": 1, "lr": 0.2, "optimizer": "adamw"}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in take_weights(model).items()}


def written_out(start: dict[str, Tensor], updates: list[dict[str, Tensor]], span: int) -> list[dict[str, np.ndarray]]:
    """The average after each update."""
    average = {name: value.double().numpy() for name, value in start.items()}
    out = []
    for number, weights in enumerate(updates):
        keep = min(1 - 1 / span, (1 + number) / (10 + number))
        average = {name: keep * old + (1 - keep) * weights[name].numpy() for name, old in average.items()}
        out.append(average)
    return out


# --- the numbers ---


@pytest.mark.parametrize("span", [2, 3, 1000])
def test_the_average_written_out(span: int) -> None:
    """25 updates: with 2 and 3 the factor reaches its largest value, with 1000 it does not."""
    training = trained(linear(), Fit(), steps=25, average=span, **OFTEN)
    snapshots = training.kept.snapshots
    expected = written_out(weights_of(linear()), [kept.weights for kept in snapshots], span)
    for kept, average in zip(snapshots, expected, strict=True):
        assert kept.progress.averaged == kept.progress.step
        assert kept.average.keys() == average.keys()
        for name, value in average.items():
            same(kept.average[name], value, 1e-6)
            assert (kept.average[name] - kept.weights[name]).abs().max() > 1e-4


def test_a_span_of_one_update_is_no_average() -> None:
    with pytest.raises(SettingError, match=r"training\.average is 1, but must be at least 2"):
        training_settings(average=1)


def test_training_does_not_notice() -> None:
    plain = trained(linear(), Fit(), steps=8, **OFTEN)
    averaged = trained(linear(), Fit(), steps=8, average=5, **OFTEN)
    for one, other in zip(plain.kept.snapshots, averaged.kept.snapshots, strict=True):
        identical(one.weights, other.weights)
        identical(one.optimiser, other.optimiser)
    losses = [[event.loss for event in training.told(Stepped)] for training in (plain, averaged)]
    assert losses[0] == losses[1]


def test_unset_there_is_none() -> None:
    plain = trained(linear(), Fit(), steps=3, **OFTEN)
    assert all(kept.average == {} and kept.progress.averaged == 0 for kept in plain.kept.snapshots)
    by_step = {kept.progress.step: kept.weights for kept in plain.kept.snapshots}
    for step, best in plain.kept.bests:
        identical(best, by_step[step])


class Odd(nn.Module):
    """A shared weight, a frozen one, a buffer that training moves, and one weight in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.first = linear()
        self.second = nn.Linear(3, 2)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)
        self.norm = nn.BatchNorm1d(2)
        self.rough = nn.Parameter(torch.full((5,), 1.0, dtype=torch.bfloat16))


def moved(model: Odd, by: float) -> Odd:
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point() and value is not model.second.bias:
                value.add_(by)
    return model


def test_shared_weights_once_frozen_ones_and_buffers_not() -> None:
    model = Odd()
    average = Average(trained_weights(model), 4)
    assert set(average.state()) == {"first.weight", "first.bias", "norm.weight", "norm.bias", "rough"}
    start = weights_of(model)
    average.update(0)
    for name, value in average.state().items():
        assert torch.equal(value, start[name].float())  # of weights that stay, every average is the same
    assert average.update(1) == 2
    trained_now = weights_of(moved(model, 0.5))
    average.update(2)
    with average.in_use():
        within = weights_of(model)
        assert model.second.weight is model.first.weight
    for name in ("norm.running_mean", "norm.running_var", "second.bias"):
        assert torch.equal(within[name], trained_now[name])
    same(within["first.weight"], start["first.weight"] + 0.5 * 9 / 12, 1e-6)


def test_half_precision_is_averaged_in_float32() -> None:
    """What one update adds would be rounded away; and what was trained comes back as it was."""
    model = Odd()
    average = Average(trained_weights(model), 1000)
    moved(model, 0.0078125)  # the next number after 1 in bfloat16
    average.update(10**6)
    assert average.state()["rough"].dtype == torch.float32
    same(average.state()["rough"], torch.full((5,), 1 + 0.0078125 / 1000), 1e-7)
    before = weights_of(model)
    with average.in_use():
        assert model.rough.dtype == torch.bfloat16
        assert torch.equal(model.rough, torch.ones(5, dtype=torch.bfloat16))
    identical(weights_of(model), before)


def test_double_precision_stays() -> None:
    model = linear().double()
    average = Average(trained_weights(model), 3)
    average.update(0)
    assert {value.dtype for value in average.state().values()} == {torch.float64}


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_the_weights_are_back_bit_for_bit(fails: bool) -> None:
    model = Odd()
    average = Average(trained_weights(model), 3)
    moved(model, 1 / 3)
    average.update(0)
    before, averages = weights_of(model), {name: value.clone() for name, value in average.state().items()}
    places = {name: value.data_ptr() for name, value in take_weights(model).items()}
    error = KeyboardInterrupt if fails else None
    try:
        with average.in_use():
            within = weights_of(model)
            if error:
                raise error
    except KeyboardInterrupt:
        assert fails
    assert not torch.equal(within["first.weight"], before["first.weight"])
    identical(weights_of(model), before)
    identical(average.state(), averages)
    assert {name: value.data_ptr() for name, value in take_weights(model).items()} == places


# --- where it is used ---


def test_it_is_validated_heard_and_kept() -> None:
    model, task = linear(), Fit()
    training = Training(model, task, steps=9, average=4, **OFTEN)
    tell, heard = training.listen, {}

    def listen(event: Event) -> None:
        tell(event)
        if isinstance(event, Validated):
            heard[event.step] = weights_of(model)

    training.listen = listen
    training.run()
    assert len(training.kept.bests) > 1
    twin = linear()
    for kept, event in zip(training.kept.snapshots, training.told(Validated), strict=True):
        identical(heard[event.step], kept.average)
        put_weights(twin, kept.average, "the average")
        assert task.evaluate(twin, "validation").score == event.evaluation.score
    by_step = {kept.progress.step: kept.average for kept in training.kept.snapshots}
    for step, best in training.kept.bests:
        identical(best, by_step[step])
    identical(weights_of(model), training.kept.snapshots[-1].weights)


def test_the_culprit_is_looked_for_in_the_trained_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = linear(), []
    training = Training(model, Fit(scores=[1.0, math.nan]), steps=5, average=4, **{**OFTEN, "checkpoint_every": None})
    update = training.trainer.context.optimiser.step

    def step(factor: float) -> None:
        update(factor)
        seen.append(weights_of(model))

    training.trainer.context.optimiser.step = step  # type: ignore[method-assign]
    looked: list[dict[str, Tensor]] = []
    monkeypatch.setattr(loop, "first_not_finite", lambda model, compute: looked.append(weights_of(model)))
    with pytest.raises(TrainingFailed, match=r"validation loss became nan after step 2"):
        training.run()
    identical(looked[0], seen[-1])
    assert len(training.kept.bests) == 1
    assert len(training.told(Validated)) == 1


def test_an_update_left_out_is_not_averaged() -> None:
    """As in fp16: the loss is scaled so far up that its gradients overflow, and down again until they do not."""
    training = Training(linear(), Fit(), steps=12, average=3, **OFTEN)
    training.trainer.step.scaled, training.trainer.context.progress.loss_scale = True, 2.0**131
    training.run()
    snapshots = training.kept.snapshots
    start = weights_of(linear())
    before = [start, *(kept.weights for kept in snapshots[:-1])]
    made = [
        kept
        for kept, old in zip(snapshots, before, strict=True)
        if not all(torch.equal(kept.weights[name], old[name]) for name in old)
    ]
    assert 2 < len(made) < 10
    assert snapshots[-1].progress.averaged == len(made)
    for name, value in written_out(start, [kept.weights for kept in made], 3)[-1].items():
        same(snapshots[-1].average[name], value, 1e-6)


# --- going on ---


class Noisy(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Dropout(0.5), linear(), nn.BatchNorm1d(2))


def test_going_on_from_any_checkpoint_is_never_having_stopped() -> None:
    settings = {**OFTEN, "steps": 9, "validate_every": 2, "average": 4}
    whole = trained(Noisy(), Fit(), **settings)
    expected = whole.kept.snapshots[-1]
    for snapshot in whole.kept.snapshots[:-1]:
        again = trained(Noisy(), Fit(), resume=copy.deepcopy(snapshot), **settings)
        last = again.kept.snapshots[-1]
        identical(last.weights, expected.weights)
        identical(last.average, expected.average)
        assert last.progress.averaged == expected.progress.averaged == 9
        assert last.progress.best_score == expected.progress.best_score
        bests = {step: best for step, best in whole.kept.bests if step > snapshot.progress.step}
        assert [step for step, _ in again.kept.bests] == list(bests)
        for step, best in again.kept.bests:
            identical(best, bests[step])


def test_it_may_begin_later() -> None:
    """From the weights as they are by then, whatever the checkpoint says of an average that it does not hold."""
    snapshot = trained(linear(), Fit(), steps=4, **OFTEN).kept.snapshots[-1]
    snapshot.progress.averaged = 3
    more = trained(linear(), Fit(), steps=9, average=3, resume=copy.deepcopy(snapshot), **OFTEN)
    expected = written_out(snapshot.weights, [kept.weights for kept in more.kept.snapshots], 3)
    assert [kept.progress.averaged for kept in more.kept.snapshots] == [1, 2, 3, 4, 5]
    for kept, average in zip(more.kept.snapshots, expected, strict=True):
        for name, value in average.items():
            same(kept.average[name], value, 1e-6)


def test_it_may_end_earlier() -> None:
    snapshot = trained(linear(), Fit(), steps=4, average=3, **OFTEN).kept.snapshots[-1]
    more = trained(linear(), Fit(), steps=6, resume=copy.deepcopy(snapshot), **OFTEN)
    assert all(kept.average == {} and kept.progress.averaged == 0 for kept in more.kept.snapshots)
    identical(more.kept.snapshots[-1].weights, trained(linear(), Fit(), steps=6, **OFTEN).kept.snapshots[-1].weights)


def test_going_on_with_another_span() -> None:
    snapshot = trained(linear(), Fit(), steps=12, average=50, **OFTEN).kept.snapshots[-1]
    (kept,) = trained(linear(), Fit(), steps=13, average=2, resume=copy.deepcopy(snapshot), **OFTEN).kept.snapshots
    for name, value in snapshot.average.items():
        same(kept.average[name], (value + kept.weights[name]) / 2, 1e-6)


# --- two processes ---


def one_of_two(rank: int, folder: Path, resume: Snapshot | None) -> None:
    """Trains with another process, from weights of its own, and leaves what it has come to."""
    resume = copy.deepcopy(resume)  # its tensors come in memory that the two share
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    trainer = Trainer(
        linear(seed=10 * rank),
        Fit(),
        training_settings(steps=6, batch_size=12, schedule="constant", warmup=0, average=4, **OFTEN),
        TrainerOptions(CPU, checkpointer=Memory(), processes=Processes(rank, 2), resume=resume),
    )
    trainer.run()
    torch.save((trainer.context.average.state(), trainer.context.progress.averaged), folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("resumed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_every_process_holds_the_same_average(tmp_path: Path, resumed: bool) -> None:
    one = trained(linear(), Fit(), steps=6, average=4, **OFTEN)
    resume = one.kept.snapshots[2] if resumed else None
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=one_of_two, args=(rank, tmp_path, resume)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
        assert process.exitcode == 0
    (first, count), (second, other_count) = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    identical(first, second)
    assert count == other_count == 6
    for name, value in one.kept.snapshots[-1].average.items():
        same(first[name], value, 1e-5)
