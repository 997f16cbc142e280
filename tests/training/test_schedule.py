"""The learning rate over the run, by its formulas."""

import math

import pytest

from glassformer.training.events import Stepped
from glassformer.training.schedule import rate_factor
from helpers.fitting import Fit, linear, trained
from helpers.settings import training_settings


def factors(total: int, **settings: object) -> list[float]:
    made = training_settings(steps=total, **settings)  # type: ignore[arg-type]
    return [rate_factor(made, step, step / total, total) for step in range(total)]


def test_constant() -> None:
    assert factors(50, schedule="constant", warmup=0) == [1.0] * 50


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt", "constant"])
def test_warm_up_rises_in_even_steps_and_reaches_the_rate(schedule: str) -> None:
    rates = factors(1000, schedule=schedule, warmup=20)
    assert rates[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert rates[19] == 1.0


def test_warm_up_is_at_most_a_tenth_of_the_run() -> None:
    assert factors(50, schedule="constant", warmup=100)[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert factors(3, schedule="constant", warmup=100)[0] == 1.0  # one update of three


def test_cosine() -> None:
    rates = factors(200, schedule="cosine", warmup=10, lr_floor=0.2)
    for step in range(10, 200):
        assert rates[step] == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi * step / 200)) / 2)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    settings = training_settings(steps=200, schedule="cosine", lr_floor=0.2)
    assert rate_factor(settings, 200, 1.0, 200) == pytest.approx(0.2)
    assert rate_factor(settings, 100, 0.5, 200) == pytest.approx(0.6)
    assert rate_factor(settings, 300, 1.5, 200) == pytest.approx(0.2)  # never back up


def test_inverse_square_root() -> None:
    rates = factors(2000, schedule="inverse-sqrt", warmup=100)
    for step in (100, 399, 1999):
        assert rates[step] == pytest.approx(math.sqrt(100 / (step + 1)))
    assert rates[399] == pytest.approx(0.5)
    assert factors(100, schedule="inverse-sqrt", warmup=0)[3] == pytest.approx(0.5)


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt", "constant"])
def test_where_time_decides_warm_up_is_over_after_its_updates_or_a_tenth_of_the_time(schedule: str) -> None:
    """And then the schedule goes on, be there few updates or many: 20 slow ones must not all be at the full rate."""
    settings = training_settings(minutes=1, schedule=schedule, warmup=40, lr_floor=0.0)
    assert rate_factor(settings, 1, 0.01, None) == pytest.approx(0.1)  # 2 of 40 updates, but a tenth of a tenth
    assert rate_factor(settings, 29, 0.01, None) == pytest.approx(0.75)
    assert rate_factor(settings, 3, 0.08, None) == pytest.approx(0.8)
    half_way = {"cosine": 0.5, "inverse-sqrt": 1.0, "constant": 1.0}[schedule]
    assert rate_factor(settings, 20, 0.5, None) == pytest.approx(half_way)
    many = {"cosine": 0.5 * (1 + math.cos(0.05 * math.pi)), "inverse-sqrt": 0.5, "constant": 1.0}[schedule]
    assert rate_factor(settings, 159, 0.05, None) == pytest.approx(many)


def test_the_loop_uses_it() -> None:
    rates = [
        event.lr for event in trained(linear(), Fit(), steps=20, lr=0.3, schedule="cosine", warmup=2).told(Stepped)
    ]
    assert rates == pytest.approx([0.3 * factor for factor in factors(20, schedule="cosine", warmup=2)])


def test_the_way_of_the_rate_may_be_that_of_a_longer_run() -> None:
    """As in a refit, which stops where the weights were best."""
    whole = training_settings(steps=100, warmup=7)
    part = training_settings(steps=30, warmup=7, schedule_steps=100)
    for step in range(30):
        assert rate_factor(part, step, step / 30, 30) == rate_factor(whole, step, step / 100, 100)
    assert rate_factor(part, 99, 1.0, 30) == rate_factor(whole, 99, 0.99, 100)
    assert rate_factor(part, 200, 1.0, 30) == whole.lr_floor
