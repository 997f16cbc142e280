"""Comparisons of models whose truth is known, by the hundred: what they say is as sure as they say."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from glassformer.statistics.significance import difference, seed_spread
from glassformer.trials.jobs import Job, Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.results.verdict import BEST, LEVEL
from helpers.attempts import Tried

EXAMPLES, ALIKE, SEEDS_DIFFER = 200, 0.8, 0.03

pytestmark = pytest.mark.trust


def table(random: Generator, models: Sequence[float], seeds: int) -> tuple[Comparison, NDArray[np.float64]]:
    """A comparison of classifiers of kinds that are right so often, and how often each training truly is."""
    hard = random.normal(0, 0.05, EXAMPLES)
    outcomes, truths = [], np.array(models)[:, None] + random.normal(0, SEEDS_DIFFER, (len(models), seeds))
    for model, shares in enumerate(truths):
        for seed, share in enumerate(shares):
            right = (random.random(EXAMPLES) < share + hard).astype(float)
            outcomes.append(
                Outcome(
                    job=Job(name=f"model {model}", repeat=seed),
                    part="test",
                    metrics={"accuracy": float(right.mean())},
                    primary="accuracy",
                    scores=right.tolist(),
                    examples="same",
                    seconds=1.0,
                )
            )
    return summarise(outcomes, title="a comparison", budget=""), truths


def tells_apart(comparison: Comparison) -> bool:
    return any(BEST not in row.marks and LEVEL not in row.marks for row in comparison.rows)


@pytest.mark.parametrize(("rows", "times"), [(2, 2000), (8, 400)])
def test_models_alike_are_told_apart_in_one_table_of_twenty_at_most(rows: int, times: int, tried: Tried) -> None:
    random = np.random.default_rng(rows)
    wrong = sum(tells_apart(table(random, [ALIKE] * rows, 3)[0]) for _ in range(times))
    assert wrong / times <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / times)
    tried("`compare`: false positives", f"{rows} equal models, 3 seeds with deviation {SEEDS_DIFFER}", times,
          f"in {100 * wrong / times:.1f} % of the tables; 5 % allowed")  # fmt: skip


def test_a_model_that_is_better_is_found(tried: Tried) -> None:
    """What is never wrong since it says nothing would be of no use."""
    random, times = np.random.default_rng(5), 150
    tables = [table(random, [0.95, *[0.7] * 7], 3)[0] for _ in range(times)]
    said = sum("significantly better by" in one.words[1] for one in tables)
    assert said / times >= 0.9
    tried("`compare`: power", "8 models, 3 seeds, one model better by 0.25", times,
          f"found in {100 * said / times:.0f} %")  # fmt: skip


def test_one_seed_speaks_of_this_training_alone(tried: Tried) -> None:
    random, times = np.random.default_rng(7), 800
    scores, differences = [], []
    for _ in range(times):
        found, truths = table(random, [ALIKE] * 2, 1)
        true_of = {f"model {model}": float(shares[0]) for model, shares in enumerate(truths)}
        best, other = found.rows
        assert best.interval is not None
        behind = found.behind[1]
        assert behind is not None
        scores.append(best.interval.low <= true_of[best.name] <= best.interval.high)
        differences.append(behind.low <= true_of[best.name] - true_of[other.name] <= behind.high)
        assert "it is significantly" not in " ".join(found.words)
        assert "intervals do not cover the chance of training" in " ".join(found.words)
    held = float(np.mean(differences))
    assert held >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / times) - 0.01
    assert np.mean(scores) >= 0.9  # the better of two was lucky a little: of one score alone that is not corrected
    tried("intervals of one seed", "difference of two models", times,
          f"miss the truth in {100 * (1 - held):.1f} %; 5 % claimed")  # fmt: skip


def test_a_row_whose_seeds_differ_more_than_all_others(tried: Tried) -> None:
    """What many quiet rows tell of seeds is not true of a noisy one: its own few seeds have to tell it."""
    random, times = np.random.default_rng(11), 400
    held = 0
    for _ in range(times):
        shares = [random.normal(ALIKE, spread, (3, 1)) for spread in (0.08, *[0.005] * 7)]
        models = [(random.random((3, EXAMPLES)) < share).astype(float) for share in shares]
        lead = difference(models[0], models[1], spread=seed_spread(models))
        held += lead.low <= 0 <= lead.high
    assert held / times >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / times)
    tried("intervals of a noisy model", "8 models, one with a deviation of 0.08 over seeds",
          times, f"miss the truth in {100 * (1 - held / times):.1f} %; 5 % claimed")  # fmt: skip
