"""Each check of the doctor is a function of a few numbers: what it must find, and what it must leave alone."""

import math
from typing import Any

import numpy as np
import pytest

from glassformer.config.resolve import resolve
from glassformer.diagnosis.advice import Advice, TrainingFacts
from glassformer.diagnosis.data import (
    class_imbalance,
    truncated_texts,
    unknown_tokens,
)
from glassformer.diagnosis.doctor import Doctor
from glassformer.diagnosis.evaluation import (
    class_collapse,
    ignored_source,
    no_better_than_chance,
    small_validation,
)
from glassformer.diagnosis.layers import (
    attention_heads,
    dead_units,
    learning_rate_too_low,
    saturated_units,
    stacks,
    vanishing_gradients,
)
from glassformer.diagnosis.loss import (
    divergence,
    first_loss,
    flat_loss,
    generalisation_gap,
    learning_rate_too_high,
    loss_spikes,
    overfitting,
    stopped_too_early,
    too_good_loss,
)
from glassformer.families.base import FAMILIES
from glassformer.training.events import NOTE, PROBLEM, WARNING, Diverged, Finding

LN_V = math.log(4096)


def advice_for(**settings: Any) -> Advice:
    """Of a run with these settings, by dotted key with __ for the dot."""
    return Advice(resolve({}, {key.replace("__", "."): value for key, value in settings.items()}))


PLAIN = advice_for()
LABELS = advice_for(task="classification", model="bag")


def named(finding: Finding | None, kind: str, severity: str, *words: str) -> None:
    """Of this kind and so bad, with these words, and with something to try."""
    assert finding is not None
    assert (finding.kind, finding.severity) == (kind, severity)
    assert finding.words.endswith(".")
    assert finding.advice
    for word in words:
        assert word in finding.words


def noise(count: int, spread: float = 0.1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, count)


def test_first_loss() -> None:
    guess = "ln of 4,096 tokens"
    for healthy in (LN_V, 1.1 * LN_V, 0.8 * LN_V):
        assert first_loss(healthy, LN_V, guess, PLAIN) is None
    named(first_loss(2 * LN_V, LN_V, guess, PLAIN), "first-loss", WARNING, "16.64", "2.0 times", guess, "8.32")
    named(first_loss(90.0, LN_V, guess, PLAIN), "first-loss", PROBLEM, "90.00")
    named(first_loss(1.0, LN_V, guess, PLAIN), "first-loss", WARNING, "1.00", "already knows")
    assert first_loss(0.2, 1.0, "always the mean", PLAIN, squared=True) is None  # a batch of like numbers
    assert first_loss(3.0, 1.0, "always the mean", PLAIN, squared=True) is None  # one with an outlier
    named(first_loss(70.0, 1.0, "always the mean", PLAIN, squared=True), "first-loss", PROBLEM, "always the mean")


def test_too_few_bits() -> None:
    assert too_good_loss(0.8, PLAIN) is None
    named(too_good_loss(0.01, PLAIN), "leak", WARNING, "0.010 bits")


def test_a_loss_that_does_not_fall() -> None:
    still, slowly = 0.7 + noise(100), 0.7 - 0.001 * np.arange(100) + noise(100, 0.01)
    named(flat_loss(still.tolist(), 0.34, PLAIN), "flat", WARNING, "34%", "of 100")
    assert flat_loss(slowly.tolist(), 0.34, PLAIN) is None
    assert flat_loss(still[:29].tolist(), 0.34, PLAIN) is None  # too few to tell
    assert "--lr 0.0003, --lr 0.03)" in flat_loss(still.tolist(), 0.34, PLAIN).advice  # type: ignore[union-attr]


def sizes(**gradients: float) -> dict[str, dict[str, float]]:
    return {
        name.replace("__", "."): {"gradient": value, "weight": 0.1, "update": 1e-4} for name, value in gradients.items()
    }


def blocks(*gradients: float) -> dict[str, dict[str, float]]:
    return sizes(**{f"encoder__blocks__{number}": value for number, value in enumerate(gradients)}, head=1.0)


def test_gradients_that_do_not_arrive() -> None:
    assert vanishing_gradients([blocks(0.01, 0.1, 0.05)] * 8, PLAIN) is None
    found = vanishing_gradients([blocks(1e-6, 1e-3, 0.1)] * 8, PLAIN)
    named(found, "vanishing", WARNING, "encoder.blocks.0", "1.0e-06", "encoder.blocks.2", "1.0e-01")
    named(vanishing_gradients([blocks(1e3, 1.0, 0.01)] * 8, PLAIN), "exploding", WARNING, "encoder.blocks.0", "1e+05")
    assert vanishing_gradients([blocks(1e-6, 1e-3, 0.1)] * 5, PLAIN) is None  # too early to tell
    first = [blocks(0.0, 0.0, 0.1)] * 4 + [blocks(0.1, 0.1, 0.1)] * 5  # weights that start at 0 hold back at first
    assert vanishing_gradients(first, PLAIN) is None
    named(vanishing_gradients([blocks(0.0, 0.0, 0.0) | sizes(head=0.0)] * 8, PLAIN), "vanishing", PROBLEM, "any layer")
    named(vanishing_gradients([sizes(embed=0.0, head=0.3)] * 8, PLAIN), "vanishing", WARNING, "to embed")
    for nothing in (blocks(0.0, 0.1, 0.1), blocks(0.1, 0.1, 0.0)):
        found = vanishing_gradients([nothing] * 8, PLAIN)
        assert found is not None
        assert "encoder.blocks.0" in found.words
        assert "inf" not in found.words


def test_stacks_by_number() -> None:
    layers = sizes(a__10=1.0, a__9=1.0, a__0=1.0, b__c__1=1.0, head=1.0)
    assert stacks(layers) == [["a.0", "a.9", "a.10"], ["b.c.1"]]


def test_a_rate_too_high() -> None:
    falling = 2.0 * np.exp(-np.arange(200) / 80) + noise(200, 0.05)
    assert learning_rate_too_high(falling.tolist(), PLAIN) is None
    jumping = falling.copy()
    jumping[[50, 51, 90, 150]] += 5.0
    assert loss_spikes(jumping.tolist()) == [51, 91, 151]
    named(learning_rate_too_high(jumping.tolist(), PLAIN), "rate-high", WARNING, "3 times", "step 51", "step 151")
    named(learning_rate_too_high([2.0] * 20 + [9.0] * 30, PLAIN), "rate-high", PROBLEM, "from 2 to 9")
    learned = np.abs(noise(200, 0.01))  # little is left: odd examples stand out, and do no harm
    learned[:5], learned[[60, 100, 140]] = 0.7, 0.2
    assert learning_rate_too_high(learned.tolist(), PLAIN) is None


def test_a_rate_too_low() -> None:
    def moving(share: float) -> list[dict[str, dict[str, float]]]:
        return [{"head": {"gradient": 1.0, "weight": 0.5, "update": 0.5 * share}, "still": _STILL}] * 8

    assert learning_rate_too_low(moving(1e-4), PLAIN) is None
    named(learning_rate_too_low(moving(1e-8), PLAIN), "rate-low", WARNING, "1.0e-08")
    assert learning_rate_too_low(moving(1e-8)[:5], PLAIN) is None


_STILL = {"gradient": 0.0, "weight": 0.0, "update": 0.0}


def validations(*losses: float, **metrics: list[float]) -> list[dict[str, Any]]:
    return [
        {"step": 10 * (place + 1), "loss": loss, **{name: values[place] for name, values in metrics.items()}}
        for place, loss in enumerate(losses)
    ]


def test_validation_after_its_best() -> None:
    how: dict[str, Any] = {"lower": True, "guessing": LN_V}
    rose = overfitting(validations(5.0, 4.0, 4.2, 4.6, 5.1), "loss", PLAIN, **how)
    named(rose, "overfitting", WARNING, "lowest at step 20 (4)", "5.1 by step 50", "by heart")
    assert overfitting(validations(5.0, 4.0, 5.1), "loss", PLAIN, **how) is None  # one validation is chance
    assert overfitting(validations(5.0, 4.0, 4.1, 4.1, 4.2), "loss", PLAIN, **how) is None
    assert overfitting([{"step": 1, "accuracy": 1.0}] * 9, "accuracy", PLAIN, **how) is None
    losses, classes = (0.5, 0.3, 0.4, 0.5), {"lower": False, "guessing": math.log(2)}
    kept = overfitting(validations(*losses, accuracy=[0.8, 0.9, 0.9, 0.9]), "accuracy", PLAIN, **classes)
    named(kept, "overfitting", NOTE, "surer than it is right")
    fell = overfitting(validations(*losses, accuracy=[0.8, 0.9, 0.8, 0.7]), "accuracy", PLAIN, **classes)
    named(fell, "overfitting", WARNING, "by heart")
    tiny = overfitting(validations(0.02, 0.01, 0.012, 0.013, accuracy=[1.0] * 4), "accuracy", PLAIN, **classes)
    assert tiny is None


def test_the_gap_between_training_and_validation() -> None:
    named(generalisation_gap(0.01, 0.6, math.log(2), PLAIN), "gap", NOTE, "0.01", "0.6")
    assert generalisation_gap(0.4, 0.6, math.log(2), PLAIN) is None
    assert generalisation_gap(0.001, 0.05, math.log(2), PLAIN) is None
    named(generalisation_gap(1.0, 6.0, None, PLAIN), "gap", NOTE)


def test_a_training_that_ended_too_early() -> None:
    named(
        stopped_too_early(validations(5, 4, 3, 2, 1), LN_V, PLAIN, 50),
        "still-falling",
        NOTE,
        "2 at step 40",
        "1 at step 50",
    )
    assert stopped_too_early(validations(5, 4, 3.01, 3.005, 3.0), LN_V, PLAIN, 50) is None
    assert stopped_too_early(validations(5, 4, 3, 2, 2.5), LN_V, PLAIN, 50) is None
    assert stopped_too_early(validations(0.1, 0.02, 0.01, 0.009, 0.005), LN_V, PLAIN, 50) is None  # not worth it
    named(stopped_too_early(validations(6, 3), LN_V, PLAIN, 20), "still-falling", NOTE, "6 at step 10", "3 at step 20")
    assert stopped_too_early(validations(3.2, 3.0), LN_V, PLAIN, 20) is None  # over half the budget, that is little
    assert stopped_too_early(validations(3.0), LN_V, PLAIN, 10) is None
    found = stopped_too_early(validations(5, 4, 3, 2, 1), LN_V, advice_for(epochs=4), 50)
    assert found is not None
    assert found.advice == "a longer training run (--epochs 8)"


def records(right: int, of: int) -> list[dict[str, Any]]:
    return [{"text": "t", "label": "a", "predicted": "a" if place < right else "b"} for place in range(of)]


def test_too_little_held_out() -> None:
    named(small_validation(records(50, 100), "text", LABELS), "small-validation", NOTE, "100 texts", "0.5", "± 0.096")
    assert small_validation(records(2500, 5000), "text", LABELS) is None
    windows = [{"tokens": 8, "loss": 8 * loss} for loss in (1.0, 9.0, 2.0)]
    named(small_validation(windows, "window", LABELS), "small-validation", NOTE, "3 windows", "its loss, 4")
    assert small_validation([{"tokens": 8, "loss": 8.0 + 0.01 * place} for place in range(9)], "window", LABELS) is None
    errors = [{"error": error} for error in (1.0, -9.0, 2.0, 0.1)]
    named(small_validation(errors, "example", LABELS), "small-validation", NOTE, "4 examples")
    several = [{"text": "t", "labels": ["a"], "predicted": [], "loss": loss} for loss in (1.0, 9.0, 2.0)]
    named(small_validation(several, "text", LABELS), "small-validation", NOTE, "3 texts", "its loss, 4")
    assert small_validation([], "text", LABELS) is None


def answers(model: str, truth: str) -> list[dict[str, Any]]:
    return [{"label": label, "predicted": said} for label, said in zip(truth, model, strict=True)]


def test_no_better_than_guessing() -> None:
    anything = [{}] * 100
    several = {"micro_f1": 0.2, "majority_micro_f1": 0.2, "majority": 0.1, "loss": 0.1}
    named(no_better_than_chance(several, anything, 0.69, LABELS), "no-better", WARNING, "0.200")
    assert no_better_than_chance({**several, "micro_f1": 0.3}, anything, 0.69, LABELS) is None
    assert no_better_than_chance(several, [{}] * 10, 0.69, LABELS) is None
    named(no_better_than_chance({"loss": 8.5}, anything, LN_V, PLAIN), "no-better", WARNING, "8.5", "8.32")
    assert no_better_than_chance({"loss": 3.0}, anything, LN_V, PLAIN) is None


def test_the_largest_class_is_judged_on_the_same_examples() -> None:
    """Ten more right and none wrong: a sure gain, though the interval of the accuracy alone holds the other's."""
    metrics, truth = {"accuracy": 0.86, "majority": 0.8}, "a" * 120 + "b" * 30
    counts = {"a": 1200, "b": 300}
    sure = answers("a" * 120 + "a" * 20 + "b" * 10, truth)
    assert no_better_than_chance(metrics, sure, 0.69, LABELS, counts) is None
    chance = answers("b" * 8 + "a" * 112 + "a" * 20 + "b" * 10, truth)
    found = no_better_than_chance(metrics, chance, 0.69, LABELS, counts)
    named(found, "no-better", WARNING, "accuracy", "(over 150) is 0.813", "'a' has 0.800 (difference: -0.04 to 0.07)")
    worse = answers("b" * 30 + "a" * 90 + "a" * 30, truth)
    found = no_better_than_chance(metrics, worse, 0.69, LABELS, counts)
    named(found, "no-better", WARNING, "is 0.600", "'a' has 0.800")


def test_with_class_weights_the_classes_count_alike() -> None:
    """Rare classes are found at the cost of accuracy: what the advice promised is not held against the model."""
    truth, counts = "a" * 190 + "b" * 10, {"a": 1600, "b": 400}
    found_rare = answers("a" * 170 + "b" * 20 + "b" * 8 + "a" * 2, truth)
    metrics = {"accuracy": 0.89, "majority": 0.95, "loss": 0.3}
    weighted = advice_for(task="classification", **{"training.class_weights": "balanced"})
    assert no_better_than_chance(metrics, found_rare, 0.69, weighted, counts) is None
    named(no_better_than_chance(metrics, found_rare, 0.69, LABELS, counts), "no-better", WARNING, "is 0.890")
    nothing = answers("ab" * 95 + "ab" * 5, truth)
    found = no_better_than_chance(metrics, nothing, 0.69, weighted, counts)
    named(found, "no-better", WARNING, "mean recall of the classes", "is 0.500", "'a' has 0.500")


@pytest.mark.parametrize(
    ("counts", "settings", "reason"),
    [
        ({"a": 1900, "b": 100}, {}, "Since class 'b' has few of the training rows, the mean recall"),
        (
            {"a": 1600, "b": 400},
            {"training.choose_by": "macro_f1"},
            "With training.choose_by macro_f1, the mean recall",
        ),
    ],
)
def test_mean_recall_counts_for_rare_classes(counts: dict[str, int], settings: dict[str, str], reason: str) -> None:
    truth = "a" * 190 + "b" * 10
    found_rare = answers("a" * 170 + "b" * 20 + "b" * 8 + "a" * 2, truth)
    metrics = {"accuracy": 0.89, "majority": 0.95, "loss": 0.3}
    advise = advice_for(task="classification", **settings)
    assert no_better_than_chance(metrics, found_rare, 0.69, advise, counts) is None
    nothing = answers("ab" * 95 + "ab" * 5, truth)
    named(no_better_than_chance(metrics, nothing, 0.69, advise, counts), "no-better", WARNING, reason)


def test_numbers_that_the_mean_tells_as_well() -> None:
    draw = np.random.default_rng(1)
    true = draw.normal(0, 1, 60)

    def judged(said: np.ndarray) -> Finding | None:
        wrong = said - true
        r2 = 1 - float((wrong**2).mean() / true.var())
        told = [{"number": number, "error": error} for number, error in zip(true, wrong, strict=True)]
        return no_better_than_chance({"rmse": 1.0, "r2": r2, "loss": 2.0}, told, 1.0, LABELS)

    assert judged(0.7 * true + 0.2 * draw.normal(0, 1, 60)) is None
    named(judged(0.1 * true + 0.35 * draw.normal(0, 1, 60)), "no-better", WARNING, "not significantly above 0")
    named(judged(true[::-1] * 3), "no-better", WARNING, "not significantly above 0")


def test_advice_speaks_of_what_the_data_has() -> None:
    def advice(**settings: Any) -> str:
        finding = no_better_than_chance({"loss": 9.0}, [{}] * 100, 1.0, advice_for(**settings))
        assert finding is not None
        return finding.advice

    assert "check the data (glassformer data show)" in advice()
    labels = {"task": "classification", "model": "transformer"}
    assert "positions" not in advice(**labels)
    without = advice(**labels, **{"model.positions": "none"})
    assert without.startswith("positions, since the order of tokens is not seen (--model.positions rotary), ")


def test_outputs_that_tell_nothing_of_their_source() -> None:
    targets = [f"{year}-07-{day:02}" for year in (1969, 1989, 2011) for day in range(1, 11)]
    right = [{"target": target, "output": f"{target[:-1]}0"} for target in targets]
    assert ignored_source(right, PLAIN) is None
    others = [{"target": target, "output": "1989-0-0-0"} for target in targets]
    named(ignored_source(others, PLAIN), "no-better", WARNING, "30 validation pairs", "does not read")
    assert ignored_source(others[:19], PLAIN) is None  # too few to tell


def test_classes_of_unlike_size() -> None:
    names = ("a", "b", "c")
    named(class_imbalance(names, [900, 50, 50], LABELS), "imbalance", NOTE, "900 of 1,000 (90%)", "'a'")
    named(class_imbalance(names, [500, 490, 10], LABELS), "imbalance", NOTE, "10 are 'c'")
    assert class_imbalance(names, [400, 300, 300], LABELS) is None
    weighted = advice_for(task="classification", model="bag", training__class_weights="balanced")
    for advise in (LABELS, weighted):
        found = class_imbalance(names, [900, 50, 50], advise)
        assert found is not None
        assert ("class_weights" in found.advice) is (advise is LABELS)


def test_one_class_is_all_that_is_said() -> None:
    names = ("a", "b", "c")
    found = class_collapse(names, [[20, 0, 0], [9, 0, 0], [8, 0, 0]], LABELS)
    named(found, "collapse", PROBLEM, "'a'", "37 validation examples")
    found = class_collapse(names, [[18, 0, 2], [1, 0, 8], [0, 0, 8]], LABELS)
    named(found, "missed-class", WARNING, "'b' (9 examples)")
    assert class_collapse(names, [[18, 1, 1], [1, 7, 1], [0, 0, 8]], LABELS) is None
    assert class_collapse(names, [[18, 0, 2], [1, 0, 2], [0, 0, 8]], LABELS) is None  # 3 examples may be chance
    assert class_collapse(("a", "b"), [[20, 0], [0, 0]], LABELS) is None  # there is no other class to say


def test_what_is_lost_in_reading() -> None:
    assert unknown_tokens({"train": 0.0, "validation": 0.02}, PLAIN) is None
    named(unknown_tokens({"train": 0.01, "validation": 0.08}, PLAIN), "unknown", NOTE, "8.0% of validation")
    named(unknown_tokens({"train": 0.0, "validation": 0.2}, PLAIN), "unknown", WARNING, "never learned")
    assert unknown_tokens({}, PLAIN) is None
    short = advice_for(model__context=64)
    named(truncated_texts(20, 100, short), "cut", NOTE, "20 of 100", "64 tokens")
    named(truncated_texts(70, 100, short, dropped=True), "cut", WARNING, "left out")
    assert truncated_texts(5, 100, short) is None
    assert truncated_texts(0, 0, short) is None


def test_units_and_heads() -> None:
    named(dead_units({"a": 0.1, "b": 0.6}, PLAIN), "dead-units", WARNING, "60% of b")
    named(dead_units({"a": 0.95}, PLAIN), "dead-units", PROBLEM, "95% of a")
    assert dead_units({"a": 0.4}, PLAIN) is None
    named(
        saturated_units({"layers.0.gates.f": 0.7, "layers.0.states": 0.1}, PLAIN),
        "stuck",
        WARNING,
        "70% of layers.0.gates.f",
    )
    assert saturated_units({"a": 0.3}, PLAIN) is None
    assert attention_heads({"0.0": 0.01, "0.1": 0.5, "1.0": 0.6, "1.1": 0.999}, PLAIN) == []
    (found,) = attention_heads({"0.0": 0.01, "0.1": 0.5, "1.0": 0.01, "1.1": 0.02}, PLAIN)
    named(found, "heads-one-token", NOTE, "3 of 4 heads", "0.0, 1.0, 1.1")
    (found,) = attention_heads({"0.0": 1.0, "0.1": 0.999}, PLAIN)
    named(found, "heads-everywhere", NOTE, "2 of 2 heads")


@pytest.mark.parametrize(
    ("rows", "words"),
    [((3,), "with example 4 of 16 in the batch of step 8, 'soup'"), (tuple(range(16)), "with every example"), ((), "")],
)
def test_where_numbers_stopped_being_finite(rows: tuple[int, ...], words: str) -> None:
    diverged = Diverged(7, "the loss became nan at step 8", "output of head", 8, rows, "soup", 16, 0.01)
    found = divergence(diverged, PLAIN)
    named(found, "not-finite", PROBLEM, "The loss became nan at step 8", "began in output of head", words)
    assert ("look at that example" in found.advice) is (len(rows) == 1)
    assert "--resume --lr 0.01" in found.advice
    facts = TrainingFacts(FAMILIES["language-model"], PLAIN, guessing=2.0, guess="evenly")
    assert [finding.step for finding in Doctor(facts).diverged(diverged)] == [8]


def test_a_doctor_who_takes_up_a_log_says_nothing_twice() -> None:
    facts = TrainingFacts(FAMILIES["language-model"], PLAIN, guessing=2.0, guess="evenly")
    lines = [
        {"event": "step", "step": step, "loss": 2.0, "done": (step - 1) / 60, "layers": blocks(1e-6, 0.1)}
        for step in range(1, 61)
    ]
    whole, half = Doctor(facts), Doctor(facts)
    told = [(line, whole.hear(line)) for line in lines]
    findings = [finding for _, found in told for finding in found]
    assert {finding.kind for finding in findings} == {"vanishing"}
    half.take_up([*lines[:30], *({"event": "finding", **finding.to_dict()} for finding in findings)])
    assert [finding for line in lines[30:] for finding in half.hear(line)] == []
    assert half.log == whole.log
