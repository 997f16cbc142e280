"""What a comparison advises: against floors and references, and where the cheaper one will do."""

from dataclasses import replace

import pytest

from glassformer.trials.jobs import REFERENCE, Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from helpers.simulated import floor, outcomes_of, reference


def of(*groups: list[Outcome]) -> Comparison:
    return summarise([one for group in groups for one in group], title="a comparison", budget="100 updates each")


def said(comparison: Comparison) -> str:
    return " ".join(comparison.words)


@pytest.mark.parametrize(("best", "other", "chosen"), [(100.0, 60.0, "lstm"), (1.2, 0.3, "lstm"), (4.0, 1.9, "bag")])
def test_the_cheaper_is_recommended_only_if_that_saves_something(best: float, other: float, chosen: str) -> None:
    """At least half of the time, and a second."""
    found = of(outcomes_of("lstm", 0.862, seconds=best), outcomes_of("bag", 0.860, seconds=other))
    assert found.recommended is not None
    assert found.recommended.name == chosen
    hardly = "Use lstm: no model that is as good trains much faster."
    assert (hardly in found.words) == (chosen == "lstm")


def test_a_single_example_can_be_judged() -> None:
    rows = [outcomes_of(name, accuracy, count=1) for name, accuracy in (("lstm", 1.0), ("cnn", 0.0), ("rnn", 1.0))]
    varied = [replace(one, scores=[float(one.job.repeat)]) for row in rows for one in row]
    assert len(of(varied).rows) == 3


def test_what_is_recommended_is_what_comes_next() -> None:
    """One source: where scikit-learn or nothing is recommended, no run of ours is what to go on with."""
    fast = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(0.849))
    assert fast.recommended is not None
    assert fast.recommended.kind == REFERENCE
    assert of(floor(0.8), outcomes_of("lstm", 0.8)).recommended is None


@pytest.mark.parametrize(("accuracy", "words"), [
    (0.90, "(0.900), it is significantly worse by 0.050 ("),
    (0.851, "(0.851), it is not significantly different (−0.0"),
    (0.848, "(0.848), it is not significantly different (0.0"),
    (0.70, "(0.700), it is significantly better by 0.150 ("),
], ids=["wins", "is ahead", "ties", "loses"])  # fmt: skip
def test_the_reference(accuracy: float, words: str) -> None:
    found = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(accuracy))
    assert f"Compared with the best reference, sklearn:tfidf {words}" in said(found)
    assert found.recommended is not None
    assert (found.recommended.kind == REFERENCE) == (accuracy > 0.8)
    assert ("Use sklearn:tfidf" in said(found)) == (accuracy > 0.8)


def test_the_best_reference_is_compared_and_the_cheap_one_is_recommended() -> None:
    pairs = outcomes_of("sklearn:tfidf-ngrams", 0.903, kind=REFERENCE, seeds=1, seconds=40.0, steps=0)
    found = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(0.90), pairs)
    assert "Compared with the best reference, sklearn:tfidf-ngrams (0.903), it is significantly worse" in said(found)
    (use,) = [word for word in found.words if word.startswith("Use ")]
    assert use.startswith("Use sklearn:tfidf: compared with sklearn:tfidf-ngrams it is not significantly different (−")
    assert use.endswith(", and it trains in 2.0 s instead of 40 s.")


def test_a_trained_model_that_is_cheaper_than_the_reference_is_used() -> None:
    found = of(outcomes_of("bag:tfidf", 0.85, seconds=0.5), reference(0.851))
    assert "Use bag:tfidf: compared with sklearn:tfidf it is not significantly different (−0.00" in said(found)


def test_what_does_not_beat_the_floor_is_not_recommended() -> None:
    found = of(floor(0.5), outcomes_of("lstm", 0.501))
    assert "Compared with the best floor, majority class (0.500), it is not significantly different" in said(found)
    assert "No model is recommended: none is significantly better than the floors." in said(found)
    assert found.recommended is None
    assert "it is significantly worse by" in said(of(floor(0.6), outcomes_of("lstm", 0.5)))


def test_a_transformer_that_does_not_beat_the_floor_or_the_reference_is_not_worth_it() -> None:
    models = [outcomes_of("lstm", 0.60), outcomes_of("transformer", 0.70, seconds=40.0)]
    worth = "Is the Transformer worth it?"
    assert f"{worth} Yes" in said(of(floor(0.5), *models))
    no = f"{worth} No: compared with"
    assert f"{no} majority class, transformer is significantly worse by" in said(of(floor(0.8), *models))
    better, level = (of(floor(), *models, reference(score)) for score in (0.80, 0.699))
    assert f"{no} sklearn:tfidf, transformer is significantly worse by 0.100 (" in said(better)
    assert f"{no} sklearn:tfidf, transformer is not significantly different" in said(level)


def test_a_reference_that_never_differs() -> None:
    made = outcomes_of("lstm", 0.8, seconds=90.0, seeds=1)
    same = outcomes_of("sklearn:tfidf", 0.5, kind=REFERENCE, seeds=1, seconds=2.0, scores=made[0].scores)
    found = of(floor(), made, [replace(one, metrics=made[0].metrics) for one in same])
    assert "it is not significantly different (0.000, −0.005 to 0.005), and it trains in 2.0 s instead" in said(found)
