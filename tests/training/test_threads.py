"""The number of CPU threads: measured on a busy machine only, and stored with the run."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from glassformer.training import threads
from glassformer.training.events import Noted, Stepped
from glassformer.training.threads import ThreadTuner, Work, is_busy
from helpers.fitting import CPU, Fit, Training, linear
from helpers.running import identical


class Machine:
    """Seconds of one piece of work by the number of threads, and whether other processes run."""

    def __init__(self, *seconds: float, busy: bool = True) -> None:
        self.seconds = dict(enumerate(seconds, start=1))
        self.busy = busy
        self.measured: list[int] = []

    def seconds_of(self, work: Work) -> float:
        work()
        self.measured.append(torch.get_num_threads())
        return self.seconds[self.measured[-1]]

    def tuner(self) -> ThreadTuner:
        return ThreadTuner(len(self.seconds), lambda count: self.busy, self.seconds_of)


class Stateful(nn.Sequential):
    """A model whose forward pass draws random numbers and changes buffers."""

    def __init__(self) -> None:
        super().__init__(nn.BatchNorm1d(3), nn.Dropout(0.5), linear())


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def training_on(machine: Machine, *, steps: int = 40, own: int = 2, model: nn.Module | None = None) -> Training:
    """A training run that begins with `own` threads."""
    training = Training(model or Stateful(), Fit(), steps=steps, validate_every=steps)
    training.trainer.progress.threads, training.trainer.tuner = own, machine.tuner()
    return training


def notes_of(training: Training) -> list[str]:
    return [event.text for event in training.told(Noted)]


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [((1, 2), 1), ((2, 1), 2), ((1, 1.1), 2), ((3, 1, 9, 2), 2), ((1, 2, 3, 4, 5), 1)],
)
def test_the_fastest_number_is_chosen_if_it_is_clearly_faster(seconds: tuple[float, ...], chosen: int) -> None:
    machine = Machine(*seconds)
    torch.set_num_threads(len(seconds))
    choice = machine.tuner().choose(lambda: None, lambda each: 10_000 * each)
    assert choice == chosen
    assert torch.get_num_threads() == len(seconds)
    torch.set_num_threads(1)


@pytest.mark.parametrize(("busy", "whole", "passes"), [(False, 1e9, 0), (True, 25, 1), (True, 1e9, 3)])
def test_a_quiet_machine_and_a_short_run_are_not_measured(busy: bool, whole: float, passes: int) -> None:
    machine = Machine(1, 2, busy=busy)
    choice = machine.tuner().choose(lambda: None, lambda each: whole)
    assert (choice is None) == (passes < 3)
    assert len(machine.measured) == passes


def test_a_busy_machine_gets_fewer_threads_and_says_so() -> None:
    training = training_on(Machine(0.1, 0.21))
    training.run()
    assert notes_of(training) == ["other processes use the CPU: 1 thread instead of 2 (--training.threads)"]
    assert training.trainer.progress.threads == 1


def test_measuring_leaves_no_trace_in_the_weights() -> None:
    runs = [training_on(Machine(0.1, 0.2, busy=busy), own=1) for busy in (False, True)]
    for run in runs:
        torch.manual_seed(5)
        run.model.load_state_dict(runs[0].model.state_dict())
    states = []
    for run in runs:
        run.run()
        states.append(run.model.state_dict())
    assert not runs[0].trainer.tuner.seconds_of.__self__.measured
    assert runs[1].trainer.tuner.seconds_of.__self__.measured
    identical(*states)
    assert [event.loss for event in runs[0].told(Stepped)] == [event.loss for event in runs[1].told(Stepped)]


@pytest.mark.parametrize("settings", [{"threads": 2}, {"compile": "on"}])
def test_a_given_number_and_a_compiled_step_are_left_alone(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    given = Training(linear(), Fit(), steps=40, **settings)
    trainer = type(given.trainer)(
        linear(),
        Fit(),
        given.trainer.settings,
        device=CPU,
        checkpointer=given.kept,  # type: ignore[arg-type]
        listen=given.events.append,
        tuner=Machine(1, 2).tuner(),
    )
    assert trainer.tuner is None


@pytest.mark.parametrize(("shares", "busy"), [([0.5, 0.6, 0.7, 0.8], True), ([0.5, 0.99], False)])
def test_one_quiet_look_is_enough(shares: list[float], busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter(shares)
    monkeypatch.setattr(threads, "_share_of_cores", lambda *arguments: next(left))
    assert is_busy(2) is busy


def test_the_share_of_cores_is_cpu_time_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = iter([0.0, 0.01, 0.04]), iter([5.0, 5.06])
    monkeypatch.setattr(threads.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(threads.time, "process_time", lambda: next(cpu))
    numbers = torch.ones(4)
    assert threads._share_of_cores(2, numbers, torch.empty(4)) == pytest.approx(0.75)
