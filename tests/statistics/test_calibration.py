"""Reliability by hand, temperatures that are known, and answering only when sure."""

import numpy as np
import pytest
from scipy import optimize, special

from glassformer.statistics.calibration import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Threshold,
    coverage,
    expected_error,
    fit_temperature,
    reliability,
    threshold_for,
)
from glassformer.statistics.intervals import share_interval


def test_bins_by_hand() -> None:
    bins = reliability(np.array([0.05, 0.31, 0.39, 0.3, 1.0, 0.95]), np.array([0, 1, 0, 0, 1, 1], bool))
    assert [each.count for each in bins] == [1, 3, 2]
    assert [each.confidence for each in bins] == pytest.approx([0.05, 1 / 3, 0.975])
    assert [each.accuracy for each in bins] == pytest.approx([0, 1 / 3, 1])
    assert bins[1].interval == share_interval(1, 3)
    assert expected_error(bins) == pytest.approx((0.05 + 0 + 2 * 0.025) / 6)
    (whole,) = reliability(np.array([0.2, 0.8]), np.array([True, False]), bins=1)
    assert (whole.count, whole.confidence, whole.accuracy) == (2, 0.5, 0.5)


def test_edges_go_up() -> None:
    """Every tenth opens its own bin, whatever 0.3 · 10 is in binary."""
    edges = np.arange(10) / 10
    assert [each.count for each in reliability(edges, np.ones(10, bool))] == [1] * 10


def test_no_guess_no_error() -> None:
    assert reliability(np.array([]), np.array([], bool)) == []
    assert expected_error([]) == 0


def test_a_calibrated_model_has_a_small_error() -> None:
    random = np.random.default_rng(0)
    sure = random.uniform(0.4, 1, 40_000)
    right = random.random(40_000) < sure
    assert expected_error(reliability(sure, right)) < 0.01
    assert expected_error(reliability(np.sqrt(sure), right)) == pytest.approx((np.sqrt(sure) - sure).mean(), abs=0.01)


@pytest.mark.parametrize("hotter", [0.5, 1.0, 3.0])
def test_a_temperature_that_is_known(hotter: float) -> None:
    """Answers drawn from a model's probabilities; its logits multiplied by 3 need 3 as their temperature."""
    random = np.random.default_rng(2)
    logits = random.normal(0, 2, (20_000, 5))
    answers = (random.random(20_000)[:, None] > special.softmax(logits, 1).cumsum(1)).sum(1).clip(max=4)
    found = fit_temperature(hotter * logits, answers)
    assert found == pytest.approx(hotter, rel=0.03)

    def loss(temperature: float) -> float:
        return float(-special.log_softmax(hotter * logits / temperature, 1)[np.arange(20_000), answers].mean())

    best = optimize.minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-8}).x
    assert found == pytest.approx(best, rel=1e-4)
    assert fit_temperature(hotter * logits + 1e4, answers) == pytest.approx(found, rel=1e-6)


def test_temperatures_without_end() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 3.0]])
    assert fit_temperature(logits, np.array([0, 1])) == pytest.approx(MIN_TEMPERATURE, rel=1e-4)
    assert fit_temperature(logits, np.array([1, 0])) == pytest.approx(MAX_TEMPERATURE, rel=1e-4)


SURE = np.array([0.9, 0.2, 0.8, 0.5, 0.5])
RIGHT = np.array([True, False, True, False, True])


def test_answering_only_the_surest() -> None:
    shares, accuracies = coverage(SURE, RIGHT)
    assert shares.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1])
    assert accuracies.tolist() == pytest.approx([1, 1, 2.5 / 3, 3 / 4, 3 / 5])
    turned = coverage(SURE[::-1], RIGHT[::-1])
    assert turned[1].tolist() == pytest.approx(accuracies.tolist())  # whichever of equals comes first


def test_thresholds() -> None:
    assert threshold_for(SURE, RIGHT, 1.0) == Threshold(0.8, 0.4, 1.0)
    assert threshold_for(SURE, RIGHT, 0.8) == Threshold(0.8, 0.4, 1.0)  # equals are answered together or not at all
    assert threshold_for(SURE, RIGHT, 0.75) == Threshold(0.5, 0.8, 0.75)
    assert threshold_for(SURE, RIGHT, 0.6) == Threshold(0.2, 1.0, pytest.approx(0.6))
    assert threshold_for(SURE, ~RIGHT, 0.9) is None
    assert threshold_for(np.array([]), np.array([], bool), 0.9) is None


def test_a_threshold_is_what_it_says() -> None:
    random = np.random.default_rng(3)
    sure = random.random(500).round(2)
    right = random.random(500) < sure
    for wanted in (0.6, 0.7, 0.8, 0.9):
        found = threshold_for(sure, right, wanted)
        assert found is not None
        answered = sure >= found.threshold
        assert (answered.mean(), right[answered].mean()) == pytest.approx((found.coverage, found.accuracy))
        assert found.accuracy >= wanted
        lower = [right[sure >= value].mean() for value in np.unique(sure) if value < found.threshold]
        assert all(value < wanted for value in lower)
