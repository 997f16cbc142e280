"""From outcomes to a comparison: what it says in each case, of models whose true quality is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from glassformer.statistics.intervals import mean_interval, share_interval
from glassformer.trials.jobs import EXISTING, FLOOR, REFERENCE, Job, Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.results.verdict import BEST, LEVEL, RECOMMENDED
from helpers.simulated import failed, floor, outcomes_of

WORTH = "Is the Transformer worth it?"


def of(*groups: list[Outcome]) -> Comparison:
    return summarise([one for group in groups for one in group], title="a comparison", budget="100 updates each")


def said(comparison: Comparison) -> str:
    return " ".join(comparison.words)


def marks(comparison: Comparison) -> dict[str, list[str]]:
    return {row.label: list(row.marks) for row in comparison.rows}


def test_a_clear_winner() -> None:
    found = of(floor(), outcomes_of("lstm", 0.80), outcomes_of("transformer", 0.88, seconds=40.0))
    assert [row.name for row in found.rows] == ["transformer", "lstm", "majority class"]
    assert found.words[0] == "Best of the trained models: transformer (accuracy 0.880 ± 0.005, 3 seeds)."
    assert found.words[1].startswith(
        "Compared with the next model, lstm (0.800), it is significantly better by 0.080 (0.0"
    )
    assert "the best floor, majority class (0.500), it is significantly better by 0.38 (0.3" in said(found)
    assert "Use transformer: no model that is as good trains much faster." in found.words
    assert f"{WORTH} Yes: compared with lstm, transformer is significantly better by 0.080 (" in said(found)
    assert "; it trains in 40 s, lstm in 10 s." in said(found)
    assert marks(found) == {"transformer": [BEST, RECOMMENDED], "lstm": [], "majority class": ["floor"]}
    assert found.best is found.rows[0] is found.recommended
    behind = found.behind[1]
    assert behind is not None
    assert behind.low < 0.08 < behind.high
    assert behind.value == pytest.approx(0.08)
    assert behind.seeds


def test_a_tie_goes_to_the_cheaper() -> None:
    found = of(floor(), outcomes_of("bag:tfidf", 0.860, seconds=3.0), outcomes_of("transformer", 0.862, seconds=180.0))
    assert "bag:tfidf (0.860), it is not significantly different (0.002, −0.0" in found.words[1]
    assert "Use bag:tfidf: compared with transformer it is not significantly different (−0.002, " in said(found)
    assert ", and it trains in 3.0 s instead of 3.0 min." in said(found)
    assert f"{WORTH} No: compared with bag:tfidf, transformer is not significantly different (" in said(found)
    assert "it trains in 3.0 min, bag:tfidf in 3.0 s." in said(found)
    assert found.recommended is not None
    assert found.recommended.name == "bag:tfidf"
    assert marks(found)["bag:tfidf"] == [LEVEL, RECOMMENDED]


def test_the_transformer_is_worse() -> None:
    found = of(outcomes_of("bag:tfidf", 0.90), outcomes_of("transformer", 0.80))
    assert f"{WORTH} No: compared with bag:tfidf, transformer is significantly worse by 0.100 (" in said(found)


def test_a_transformer_that_costs_nothing() -> None:
    found = of(outcomes_of("lstm", 0.860, seconds=50.0), outcomes_of("transformer", 0.862, seconds=20.0))
    assert f"{WORTH} Yes: compared with lstm, transformer is not significantly different (" in said(found)
    assert "it trains in 20 s, lstm in 50 s." in said(found)


def test_one_seed() -> None:
    found = of(outcomes_of("lstm", 0.80, seeds=1), outcomes_of("cnn", 0.70, seeds=1))
    assert "One seed each: intervals do not cover the chance of training, and another seed may reverse" in said(found)
    assert any("interval over the examples; with one seed" in note for note in found.notes)
    assert found.words[0].startswith("Best of the trained models: lstm (accuracy 0.800 (0.7")
    assert found.words[0].endswith(" to 0.824)).")
    assert found.words[1].startswith("Compared with the next model, cnn (0.700), it is better by 0.100 (0.0")
    assert found.words[1].endswith(") on these examples.")
    assert "significantly" not in said(found).replace("not significantly worse", "")
    expected = share_interval(800, 1000)
    interval = found.rows[0].interval
    assert interval is not None
    assert (interval.low, interval.high) == (expected.low, expected.high)
    assert found.behind[1] is not None
    assert not found.behind[1].seeds
    assert "3 seeds" not in said(found)


def test_several_seeds_have_students_interval() -> None:
    group = outcomes_of("lstm", 0.80, spread=0.01)
    found = of(group, floor())
    interval, expected = found.rows[0].interval, mean_interval([0.79, 0.80, 0.81])
    assert interval is not None
    assert expected is not None
    assert (interval.low, interval.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert found.rows[1].interval is None  # fitted again, a floor is the same
    assert any("over 3 seeds (Student's t)" in note for note in found.notes)


def test_all_failed() -> None:
    found = of(failed("lstm", "no memory"), failed("cnn", "a bad setting"), floor())
    assert found.words[0] == "No model was trained to the end, so there is nothing to compare."
    assert "lstm failed: no memory." in found.words
    assert found.recommended is None
    nothing = of(failed("lstm", "no memory"))
    assert nothing.best is None
    assert math.isnan(nothing.rows[0].score)
    nothing.to_dict()


def test_some_seeds_failed() -> None:
    group = [*outcomes_of("lstm", 0.8, seeds=2), failed("lstm", "no memory")[2]]
    found = of(group, outcomes_of("cnn", 0.7))
    assert marks(found)["lstm"] == [BEST, RECOMMENDED, "1 of 3 seeds failed"]
    assert "lstm: 1 of 3 seeds failed: no memory." in found.words
    assert len(found.rows[0].values) == 2


def test_one_model_only() -> None:
    found = of(outcomes_of("lstm", 0.8))
    assert len(found.words) == 1


def test_other_examples_cannot_be_paired() -> None:
    found = of(outcomes_of("lstm", 0.8), outcomes_of("cnn", 0.7, examples="others"))
    assert "Compared with the next model, cnn (0.700), it is not comparable example by example." in found.words
    assert found.behind == [None, None]
    assert marks(found)["cnn"] == []


def test_folds_are_paired_one_by_one() -> None:
    """Each fold has examples of its own; together they are one list."""

    def folded(name: str, accuracy: float) -> list[Outcome]:
        return [
            replace(one, examples=f"fold {fold}", job=replace(one.job, settings={"data.fold": fold}))
            for fold, one in enumerate(outcomes_of(name, accuracy))
        ]

    found = of(folded("lstm", 0.85), folded("cnn", 0.75))
    assert found.behind[1] is not None
    assert found.behind[1].value == pytest.approx(0.10)
    assert not found.behind[1].seeds
    assert "3 folds" in found.words[0]
    assert any("folds share training rows" in note for note in found.notes)
    part = of(folded("lstm", 0.85)[:2], folded("cnn", 0.75)[1:])
    assert part.behind[1] is not None  # the fold that both have
    assert part.behind[1] != found.behind[1]


def test_lower_is_better() -> None:
    def text(name: str, loss: float, tokenizer: str = "one") -> list[Outcome]:
        chance = np.random.default_rng(len(name))
        return [
            Outcome(
                job=one.job,
                part="test",
                metrics={"loss": loss + 0.001 * seed, "bits_per_byte": loss / 2},
                primary="loss",
                lower_is_better=True,
                scores=(-loss - 0.001 * seed + chance.normal(0, 0.01, 50)).tolist(),
                weights=[10.0] * 49 + [3.0],
                examples="same",
                seconds=5.0,
                tokenizer=tokenizer,
            )
            for seed, one in enumerate(outcomes_of(name, 0.5))
        ]

    found = of(text("lstm", 2.0), text("rnn", 2.5))
    assert [row.name for row in found.rows] == ["lstm", "rnn"]
    assert "better by 0.5004 (" in found.words[1]
    assert " nats" in found.words[1]
    assert "All models have the same tokenizer." in found.notes
    assert any("50 windows of text of the test part; the lower, the better" in note for note in found.notes)
    mixed = of(text("lstm", 2.0), text("rnn", 2.5, "two"))
    assert mixed.rows[0].metric == "bits_per_byte"
    assert mixed.behind == [None, None]
    slow = of([replace(one, seconds=9.0) for one in text("lstm", 2.0)], text("rnn", 2.5, "two"))
    assert slow.recommended is slow.best
    below = said(of(text("lstm", 2.0), [replace(one, job=replace(one.job, kind=FLOOR)) for one in text("n-gram", 1)]))
    assert "Compared with the best floor, n-gram (" in below
    assert "No model is recommended" in below
    assert any("2 different tokenizers: the loss per token does not compare" in note for note in mixed.notes)


def test_a_reference_whose_package_is_missing_is_skipped() -> None:
    error = "a reference of compare needs scikit-learn: pip install 'glassformer[sklearn]'"
    missing = Outcome(job=Job(name="sklearn:tfidf", kind=REFERENCE), error=error, skipped=True)
    found = of(outcomes_of("lstm", 0.8), outcomes_of("cnn", 0.7), [missing])
    assert marks(found)["sklearn:tfidf"] == ["reference", "skipped"]
    assert found.words[-1] == f"sklearn:tfidf was skipped: {error}."
    assert "failed" not in said(found)
    (row,) = [row for row in found.to_dict()["rows"] if row["name"] == "sklearn:tfidf"]
    assert (row["failed"], row["skipped"]) == (0, True)


def test_two_examples_tell_nothing() -> None:
    """They differ alike, so that there is no spread to judge by: the interval is nearly all that is possible."""
    found = of(outcomes_of("lstm", 1.0, count=2, spread=0.0), outcomes_of("cnn", 0.0, count=2, spread=0.0))
    behind = found.behind[1]
    assert behind is not None
    assert (behind.low, behind.high, behind.p) == (pytest.approx(2 * 0.025**0.5 - 1), 1.0, 0.5)
    assert "cnn (0.0), it is not significantly different (" in said(found)
    assert LEVEL in marks(found)["cnn"]


def test_runs_of_before_and_what_to_know_of_them() -> None:
    given = [
        replace(one, note="it may have seen these examples")
        for one in outcomes_of("runs/a", 0.8, kind=EXISTING, seeds=1)
    ]
    assert marks(of(given, outcomes_of("cnn", 0.7)))["runs/a"] == [
        BEST, RECOMMENDED, "trained before", "it may have seen these examples",
    ]  # fmt: skip


def test_what_has_learned_from_the_examples_has_no_rank() -> None:
    seen = [replace(one, seen=True) for one in outcomes_of("runs/a", 0.99, kind=EXISTING, seeds=1)]
    found = of(seen, outcomes_of("cnn", 0.7), outcomes_of("lstm", 0.8))
    assert [row.name for row in found.rows] == ["lstm", "cnn", "runs/a"]
    assert found.behind[2] is None
    assert marks(found)["runs/a"] == ["trained before"]
    assert found.words[0].startswith("Best of the trained models: lstm")


def test_within_chance_is_rarely_wrong() -> None:
    """Of models that are truly alike, about one in twenty seems apart; of those truly apart, nearly all do."""

    def model(name: str, share: float, seed: int) -> list[Outcome]:
        chance = np.random.default_rng([seed, *name.encode()])
        hard = np.random.default_rng(seed).normal(0, 0.1, 300)
        made = outcomes_of(name, 0.5)
        right = [
            (chance.random(300) < np.clip(share + hard + chance.normal(0, 0.01), 0, 1)).astype(float) for _ in made
        ]
        return [
            replace(one, scores=row.tolist(), metrics={"accuracy": float(row.mean())})
            for one, row in zip(made, right, strict=True)
        ]

    alike = [of(model("a", 0.8, seed), model("b", 0.8, seed)).behind[1] for seed in range(60)]
    apart = [of(model("a", 0.8, seed), model("b", 0.6, seed)).behind[1] for seed in range(20)]
    assert sum(one is not None and one.low > 0 for one in alike) <= 8
    assert sum(one is not None and one.low > 0 for one in apart) >= 19
