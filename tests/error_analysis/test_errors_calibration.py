"""Calibration, temperature and threshold: of scores whose truth is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer.error_analysis.calibration import MIN_FITTED, ScoredExamples, calibration_finding, halves
from glassformer.error_analysis.finding import ErrorFinding
from glassformer.rendering.panels import Lines, Table, Words


def drawn(count: int, seed: int, sharper: float = 1.0) -> ScoredExamples:
    """Three classes, drawn from the very probabilities that the logits say; then the logits are made sharper."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1.5, (count, 3))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    answers = (chances.cumsum(1) < random.random((count, 1))).sum(1)
    return ScoredExamples(logits * sharper, answers)


def found_in(
    shown: ScoredExamples, fitted: ScoredExamples | None, accuracy: float = 0.9, missing: str = "gone"
) -> ErrorFinding:
    return calibration_finding(shown, fitted, "text", accuracy, missing)


def table(found: ErrorFinding) -> Table:
    panel = found.panels[0]
    assert isinstance(panel, Table)
    return panel


def words(found: ErrorFinding) -> str:
    panel = found.panels[-1]
    assert isinstance(panel, Words)
    return panel.text


def test_the_temperature_that_was_hidden_is_found_and_mends_it() -> None:
    shown, fitted = drawn(3000, 1, sharper=2.5), drawn(3000, 2, sharper=2.5)
    found = found_in(shown, fitted)
    before, after = table(found).rows
    assert before[1] == 1.0
    assert after[1] == pytest.approx(2.5, rel=0.1)
    assert float(after[2] or 0) < float(before[2] or 0)
    assert float(after[3] or 0) < 0.03 < float(before[3] or 0)
    assert after[5] == before[5] == pytest.approx(shown.right.mean())
    assert found.sentence.startswith("The model is surer than it is right:")
    assert "fitted on the validation part (3,000 texts), never on what is shown" in table(found).note


def test_the_temperature_never_sees_what_is_shown() -> None:
    """It is that of the examples it was fitted on, whatever is shown."""
    fitted = drawn(500, 3, sharper=0.5)
    temperatures = {table(found_in(drawn(300, seed, sharper), fitted)).rows[1][1] for seed, sharper in ((5, 3), (6, 1))}
    assert len(temperatures) == 1


def test_a_model_that_is_as_sure_as_it_is_right_is_not_blamed() -> None:
    assert found_in(drawn(2000, 7), drawn(2000, 8)).sentence == ""


def test_the_reliability_curve() -> None:
    shown = drawn(1000, 9)
    curve = found_in(shown, None).panels[1]
    assert isinstance(curve, Lines)
    diagonal, line = curve.series
    assert (diagonal.x, diagonal.y) == ([0, 1], [0, 1])
    confidence = shown.confidence()
    for x, y, low, high in zip(line.x, line.y, line.low or (), line.high or (), strict=True):
        here = (confidence * 10).astype(int) == int(x * 10)
        assert y == pytest.approx(shown.right[here].mean())
        assert x == pytest.approx(confidence[here].mean())
        assert low <= y <= high


def sure(*pairs: tuple[float, bool]) -> ScoredExamples:
    """Two classes; the first is always guessed, with this probability, and right or not."""
    logits = np.array([[np.log(p / (1 - p)), 0.0] for p, _ in pairs])
    return ScoredExamples(logits, np.array([0 if right else 1 for _, right in pairs]))


LADDER = sure(*[(0.95, True)] * 8, *[(0.85, True)] * 8, *[(0.75, n % 2 == 0) for n in range(8)], *[(0.65, False)] * 8)


def test_below_which_probability_a_person_should_look() -> None:
    """Chosen on others: here 16 of 20 are right from 0.75 on, and the shown part says what that comes to."""
    shown = sure(*[(0.95, True)] * 3, (0.8, False), *[(0.7, True)] * 4, (0.6, False), (0.6, False))
    text = words(found_in(shown, LADDER, accuracy=0.8))
    assert text.startswith(
        "Below a probability of 0.75 a person should look instead: that is 60 % of the texts (6 of 10)."
    )
    assert "Of the other 4, 75 % are right here (30–95.4 %)" in text
    assert "where the threshold was chosen, 83 %, and 80 % was asked for" in text


def test_a_threshold_among_answers_that_are_all_very_sure() -> None:
    """Rounded to four digits it would be 0.9999, and answer everything."""
    unsure, enough = [(0.99992, False)] * 10, [(0.99998, True)] * 10
    fitted = sure(*unsure, *enough)
    text = words(found_in(sure(*unsure[:4], *enough[:6]), fitted, accuracy=0.9))
    assert text.startswith("Below a probability of 0.99998 a person should look instead: that is 40 % of the texts")
    assert "Of the other 6, 100 % are right here" in text


def test_a_model_that_is_never_wrong_has_no_temperature() -> None:
    found = found_in(drawn(50, 1), sure(*[(0.9, True)] * MIN_FITTED))
    assert len(table(found).rows) == 1
    assert (
        "No temperature was fitted: on the validation part (20 texts), no temperature fits best." in table(found).note
    )
    assert "temperature" not in found.sentence


def test_no_probability_is_enough() -> None:
    wrong = sure(*[(0.9, False)] * MIN_FITTED)
    assert "No probability is high enough" in words(found_in(LADDER, wrong, accuracy=0.5))
    assert "None is left to answer here" in words(found_in(sure((0.6, True)), LADDER, accuracy=0.99))


def test_coverage_and_accuracy() -> None:
    curve = found_in(LADDER, None, accuracy=0.9).panels[2]
    assert isinstance(curve, Lines)
    wanted, line = curve.series
    assert wanted.y == [0.9, 0.9]
    assert line.x[-1] == 1
    assert line.y[-1] == pytest.approx(20 / 32)
    assert line.y[:16] == [1.0] * 16
    assert line.y[23] == pytest.approx(20 / 24)


@pytest.mark.parametrize("count", [1, 2, MIN_FITTED - 1])
def test_of_few_examples_nothing_is_fitted_and_that_is_said(count: int) -> None:
    found = found_in(drawn(count, 1), drawn(count, 2))
    assert len(table(found).rows) == 1
    assert "too few to fit a temperature on" in table(found).note
    assert "No threshold was chosen" in words(found)


def test_without_other_examples_the_reason_is_told() -> None:
    assert (
        "No temperature was fitted: the data is gone."
        in table(found_in(drawn(50, 1), None, missing="the data is gone")).note
    )


def test_one_score_for_two_classes() -> None:
    scores = np.array([[2.0], [-1.0], [0.5]], np.float32)
    scored = ScoredExamples.of(scores, np.array([1, 0, 0]))
    sigmoid: NDArray[np.float64] = 1 / (1 + np.exp(-scores[:, 0].astype(float)))
    np.testing.assert_allclose(scored.confidence(), np.maximum(sigmoid, 1 - sigmoid))
    assert scored.right.tolist() == [True, True, False]
    assert scored.loss() == pytest.approx(-np.log([sigmoid[0], 1 - sigmoid[1], 1 - sigmoid[2]]).mean())


def test_halves_share_no_example() -> None:
    scored = ScoredExamples(np.arange(22.0).reshape(11, 2), np.zeros(11, int))
    one, other = halves(scored)
    assert (len(one), len(other)) == (5, 6)
    rows = np.concatenate([one.logits[:, 0], other.logits[:, 0]])
    assert sorted(rows.tolist()) == scored.logits[:, 0].tolist()
    assert one.logits.tolist() != scored.logits[:5].tolist()
