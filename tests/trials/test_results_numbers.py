"""What rows are ranked by, and that the table's scores differ by what their pairs differ."""

import math
from dataclasses import replace

import numpy as np
import pytest

from glassformer.trials.jobs import Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from helpers.simulated import outcomes_of


def of(*groups: list[Outcome]) -> Comparison:
    return summarise([one for group in groups for one in group], title="a comparison", budget="100 updates each")


def test_squared_errors_become_differences_of_rmse() -> None:
    def numbers(name: str, rmse: float) -> Outcome:
        errors = np.random.default_rng(len(name)).choice([-1, 1], 400) * rmse * np.tile([0.5, math.sqrt(1.75)], 200)
        return Outcome(
            job=outcomes_of(name, 0.5)[0].job,
            part="test",
            metrics={"rmse": float(np.sqrt(np.mean(errors**2)))},
            primary="rmse",
            lower_is_better=True,
            scores=(-(errors**2)).tolist(),
            examples="same",
            seconds=1.0,
        )

    found = of([numbers("mlp", 2.0)], [numbers("linear", 3.0)])
    assert found.behind[1] is not None
    assert found.behind[1].value == pytest.approx(1.0)
    interval = found.rows[0].interval
    assert interval is not None
    assert interval.high - 2.0 == pytest.approx(1.966 * np.std(np.tile([1.0, 7.0], 200), ddof=1) / 20 / 4, rel=0.01)


def test_how_far_an_rmse_is_behind_is_the_difference_of_the_scores() -> None:
    """Also where one seed went astray, and its squares weigh more than all others."""

    def numbers(name: str, *roots: float) -> list[Outcome]:
        chance = np.random.default_rng(len(name))
        made = []
        for one, root in zip(outcomes_of(name, 0.5), roots, strict=True):
            errors = chance.normal(0, 1, 300)
            errors *= root / np.sqrt(np.mean(errors**2))
            given = {"metrics": {"rmse": root}, "primary": "rmse", "lower_is_better": True}
            made.append(replace(one, scores=(-(errors**2)).tolist(), **given))
        return made

    found = of(numbers("mlp", 1.0, 1.0, 4.0), numbers("linear", 2.2, 2.2, 2.2))
    assert [row.name for row in found.rows] == ["mlp", "linear"]
    behind = found.behind[1]
    assert behind is not None
    assert behind.value == pytest.approx(0.2)
    assert behind.low < 0 < behind.high
    perfect = of(numbers("mlp", 0.0, 0.0, 0.0), numbers("linear", 2.0, 2.0, 2.0)).behind[1]
    assert perfect is not None
    assert perfect.value == pytest.approx(2.0)


def labelled(name: str, scores: list[float], whole: float, primary: str = "micro_f1") -> list[Outcome]:
    return [replace(one, scores=scores, metrics={primary: whole}, primary=primary) for one in outcomes_of(name, 0.5)]


def test_several_labels_are_ranked_by_what_is_paired() -> None:
    """Micro F1, which is no mean over the examples, stands beside."""
    found = of(labelled("lstm", [1.0, 0.5, 0.75, 0.75], 0.61), labelled("cnn", [0.5, 0.5, 0.75, 0.25], 0.67))
    assert [row.name for row in found.rows] == ["lstm", "cnn"]
    assert [row.score for row in found.rows] == [0.75, 0.5]
    assert found.behind[1] is not None
    assert found.behind[1].value == pytest.approx(0.25)
    header, _, first, *_ = [line for line in found.markdown().splitlines() if line.startswith("|")]
    assert header.startswith("| model | mean F1 of the examples | micro F1 of all | behind the best |")
    assert first.startswith("| lstm | 0.75 | 0.61 |")
    assert "metrics_micro_f1" in found.csv()
    told = of(labelled("lstm", [80.0, 60.0], 71.0, "chrf"), labelled("cnn", [50.0, 40.0], 44.0, "chrf"))
    assert (told.rows[0].metric, told.rows[0].score) == ("sentence_chrf", 70.0)


def test_no_share_is_beyond_the_ends_of_its_scale() -> None:
    interval = of(outcomes_of("lstm", 0.65, spread=0.2)).rows[0].interval
    assert interval is not None
    assert (round(interval.low, 3), interval.high) == (0.153, 1.0)
    found = of(outcomes_of("lstm", 0.65, spread=0.2), outcomes_of("cnn", 0.3, spread=0.0, seeds=2))
    assert "accuracy 0.65 (0.15 to 1.00), 3 seeds" in found.words[0]
    assert "2 seeds alike" in found.rows[1].marks


def test_folds_of_other_sizes_count_alike() -> None:
    """As in the mean over folds that the table shows."""

    def folded(name: str, *accuracies: float) -> list[Outcome]:
        return [
            replace(outcomes_of(name, accuracy, count=count, seeds=1)[0], examples=str(count))
            for accuracy, count in zip(accuracies, (100, 300), strict=True)
        ]

    def numbered(made: list[Outcome]) -> list[Outcome]:
        settings = [{"data.fold": number} for number in range(len(made))]
        jobs = [replace(one.job, repeat=n, settings=settings[n]) for n, one in enumerate(made)]
        return [replace(one, job=job) for one, job in zip(made, jobs, strict=True)]

    found = of(numbered(folded("lstm", 0.9, 0.8)), numbered(folded("cnn", 0.6, 0.9)))
    assert [row.score for row in found.rows] == pytest.approx([0.85, 0.75])
    assert found.behind[1] is not None
    assert found.behind[1].value == pytest.approx(0.1)


def test_a_metric_that_is_not_defined_in_one_fold_has_no_mean() -> None:
    first, second = outcomes_of("lstm", 0.9, seeds=2)
    (row,) = of([replace(first, metrics={**first.metrics, "r2": 0.5}), second]).rows
    assert row.metrics.keys() == first.metrics.keys()
