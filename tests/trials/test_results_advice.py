"""What a comparison advises: against floors and references, and where the cheaper one will do."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from glassformer.trials.outcome import REFERENCE, Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.results.rows import compare_rows, rows_of
from helpers.simulated import floor, outcomes_of, reference

TFIDF = "scikit-learn's TF-IDF of words with logistic regression"


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
    hardly = "Use lstm: its score is the best, and what cannot be told from it trains hardly faster."
    assert (hardly in found.words) == (chosen == "lstm")


def test_how_small_a_difference_could_be_seen() -> None:
    found = of(outcomes_of("lstm", 0.8, count=75), outcomes_of("cnn", 0.76, count=75))
    behind = found.behind[1]
    assert behind is not None
    (note,) = [note for note in found.notes if "told apart by less" in note]
    half = math.floor(1000 * (behind.high - behind.low) / 2) / 1000
    assert note == f"With 75 examples and 3 seeds, no two rows could be told apart by less than {half:.3f} accuracy."
    assert "± is over seeds alone, how far behind is paired on the same examples too: the two need not agree." in (
        found.notes
    )


def test_how_small_a_difference_is_of_all_pairs() -> None:
    """Of two that are nearly the same, neither the best: nobody else asks for their difference."""
    random = np.random.default_rng(8)
    base = outcomes_of("cnn", 0.6, seeds=1)[0]
    twin = replace(base, cell=replace(base.cell, name="rnn"), scores=[1 - base.scores[0], *base.scores[1:]])
    shuffled = random.permutation(outcomes_of("lstm", 0.9, seeds=1)[0].scores).tolist()
    best = replace(outcomes_of("lstm", 0.9, seeds=1)[0], scores=shuffled)
    rows = rows_of([best, base, twin])
    lead = compare_rows(rows[1], rows[2])
    assert lead is not None
    (note,) = [note for note in of([best], [base], [twin]).notes if "told apart by less" in note]
    assert float(re.findall(r"less than (0\.\d+)", note)[0]) <= (lead.high - lead.low) / 2


def test_a_single_example_can_be_judged() -> None:
    rows = [outcomes_of(name, accuracy, count=1) for name, accuracy in (("lstm", 1.0), ("cnn", 0.0), ("rnn", 1.0))]
    varied = [replace(one, scores=[float(one.cell.repeat)]) for row in rows for one in row]
    assert len(of(varied).rows) == 3


def test_what_is_told_is_never_below_what_could_be_told() -> None:
    """The leader beats the next by little, since they are nearly the same model; others differ more, and tell less."""
    random = np.random.default_rng(3)
    hard = random.random(1000)

    def model(name: str, share: float, noise: float) -> list[Outcome]:
        made = outcomes_of(name, 0.5, seeds=1)[0]
        right = (hard + random.normal(0, noise, 1000) < share).astype(float)
        return [replace(made, scores=right.tolist(), metrics={"accuracy": float(right.mean())})]

    found = of(*(model(name, *of) for name, of in MODELS.items()))
    (note,) = [note for note in found.notes if "told apart by less" in note]
    least, usual = (float(number) for number in re.findall(r"less than (0\.\d+)", note))
    halves = [(behind.high - behind.low) / 2 for behind in found.behind if behind is not None]
    assert least <= min(halves) < usual
    told = [float(number) for number in re.findall(r"by (0\.\d+) \(0", said(found))]
    assert told
    assert min(told) >= least
    assert min(told) < usual  # which was said to be hardly seen


MODELS = {"lstm": (0.80, 0.0), "bilstm": (0.77, 0.0), "cnn": (0.7, 0.4), "rnn": (0.7, 0.4), "average": (0.7, 0.4)}


def test_what_is_recommended_is_what_comes_next() -> None:
    """One source: where scikit-learn or nothing is recommended, no run of ours is what to go on with."""
    fast = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(0.849))
    assert fast.recommended is not None
    assert fast.recommended.kind == REFERENCE
    assert of(floor(0.8), outcomes_of("lstm", 0.8)).recommended is None


@pytest.mark.parametrize(("accuracy", "words"), [
    (0.90, "(0.900; it trains in 2.0 s, lstm in 90 s) is better than every model that was judged here, by 0.050 ("),
    (0.851, f"{TFIDF} (0.851) cannot be told from lstm by these examples (ahead by 0.001, −0.0"),
    (0.848, f"{TFIDF} (0.848) cannot be told from lstm by these examples (behind by 0.002, −0.0"),
    (0.70, f"It beats {TFIDF} (0.700), by 0.150 ("),
], ids=["wins", "is ahead", "ties", "loses"])  # fmt: skip
def test_the_reference(accuracy: float, words: str) -> None:
    found = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(accuracy))
    assert words in said(found)
    assert found.recommended is not None
    assert (found.recommended.kind == REFERENCE) == (accuracy > 0.8)
    assert ("start with it" in said(found)) == (accuracy > 0.8)


def test_the_best_reference_is_named_and_then_the_cheap_one() -> None:
    pairs = outcomes_of("sklearn:tfidf-ngrams", 0.903, kind=REFERENCE, seeds=1, seconds=40.0, steps=0)
    found = of(floor(), outcomes_of("lstm", 0.85, seconds=90.0), reference(0.90), pairs)
    (best, cheap) = [word for word in found.words if word.startswith("scikit-learn")]
    assert "character n-grams with logistic regression (0.903; it trains in 40 s, lstm in 90 s) is better" in best
    assert "start with it" not in best
    assert cheap.startswith(
        f"{TFIDF} cannot be told from sklearn:tfidf-ngrams by these examples (behind by 0.003, −0.0"
    )
    assert cheap.endswith("and trains in 2.0 s instead of 40 s: start with it.")


def test_a_trained_model_that_is_cheaper_than_the_reference_is_used() -> None:
    found = of(outcomes_of("bag:tfidf", 0.85, seconds=0.5), reference(0.851))
    assert "Use bag:tfidf: it cannot be told from sklearn:tfidf by these examples (behind by 0.00" in said(found)
    assert "start with it" not in said(found)


def test_what_does_not_beat_the_floor_is_not_recommended() -> None:
    found = of(floor(0.5), outcomes_of("lstm", 0.501))
    assert "It does not beat the best floor, majority class (0.500) beyond chance" in said(found)
    assert "look whether the labels can be told" in said(found)
    assert "it is not shown that anything worth a model was learned here" in said(found)
    assert found.recommended is None
    assert "It does not beat the best floor, majority class" in said(of(floor(0.6), outcomes_of("lstm", 0.5)))


def test_a_transformer_that_does_not_beat_the_floor_or_the_reference_is_not_worth_it() -> None:
    models = [outcomes_of("lstm", 0.60), outcomes_of("transformer", 0.70, seconds=40.0)]
    worth = "Is the Transformer worth it?"
    assert f"{worth} Yes" in said(of(floor(0.5), *models))
    assert f"{worth} Not here: no trained model beats the best floor, majority class." in of(floor(0.8), *models).words
    assert f"{worth} Not here: sklearn:tfidf is better, by 0.100 (" in said(of(floor(), *models, reference(0.80)))
    assert f"{worth} Not by these numbers: sklearn:tfidf cannot be told" in said(of(floor(), *models, reference(0.699)))


def test_a_reference_that_never_differs() -> None:
    made = outcomes_of("lstm", 0.8, seconds=90.0, seeds=1)
    same = outcomes_of("sklearn:tfidf", 0.5, kind=REFERENCE, seeds=1, seconds=2.0, scores=made[0].scores)
    found = of(floor(), made, [replace(one, metrics=made[0].metrics) for one in same])
    assert "cannot be told from lstm by these examples (difference 0.000, −0.005 to 0.005), and trains in 2.0 s" in (
        said(found)
    )
