"""What the doctor advises: from where the settings stand, and in flags that there are."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.cli.train import PARSER
from glassformer.config.resolve import ALIASES, keys, resolve
from glassformer.diagnosis.advice import Advice
from glassformer.diagnosis.data import (
    class_imbalance,
    truncated_texts,
    unknown_tokens,
)
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
    vanishing_gradients,
)
from glassformer.diagnosis.loss import (
    divergence,
    first_loss,
    flat_loss,
    generalisation_gap,
    learning_rate_too_high,
    missing_causal_mask,
    overfitting,
    stopped_too_early,
    too_good_loss,
)
from glassformer.training.events import Diverged, Finding
from helpers.kinds import write_rows

LABELS = {"task": "classification"}
RUNS: dict[str, dict[str, Any]] = {
    "writer": {},
    "bare": {
        "model.residual": False,
        "model.norm": "none",
        "model.qk_norm": False,
        "model.causal_mask": False,
        "model.style": "classic",
        "training.grad_clip": None,
        "training.weight_decay": 0.0,
        "size": "small",
        "minutes": 3,
    },
    "rnn": {"model": "rnn", "lr": 5.0},
    "bag": {**LABELS, "model": "bag", "epochs": 5, "tokenizer.vocab_size": 500},
    "lstm": {**LABELS, "model": "lstm", "lr": 1e-9, "optimizer": "sgd", "data.validation": "held.csv"},
    "cnn": {**LABELS, "model": "cnn", "data.folds": 5, "tokenizer.kind": "char"},
    "table": {"task": "regression", "data.kind": "table", "model": "mlp", "data.validation_fraction": 0.3},
    "linear": {"task": "multilabel", "data.kind": "table", "model": "linear"},
    "own": {**LABELS, "model": "own"},
    "translator": {"task": "translation", "model": "lstm", "model.attention": "none"},
    "full": {**LABELS, "model": "average", "model.dropout": 0.5, "training.patience": 2, "size": "nano"},
}


def advice_of(name: str) -> Advice:
    return Advice(resolve({}, RUNS[name]))


def every_finding(advise: Advice) -> Iterator[Finding | None]:
    """Each check on numbers that it must find something in."""
    still, moving = ({"gradient": gradient, "weight": 1.0, "update": 1e-9} for gradient in (1e-10, 1.0))
    layers, upside = {"b.0": still, "b.1": moving}, {"b.0": moving, "b.1": still}
    validated = [{"step": step, "loss": loss} for step, loss in ((1, 5.0), (2, 1.0), (3, 4.0), (4, 5.0))]
    for rows in ((1,), ()):
        yield divergence(Diverged(7, "the loss became nan", "output of head", 8, rows, "soup", 16, 0.01), advise)
    yield class_imbalance("ab", [99, 1], advise)
    yield class_collapse("ab", [[20, 0], [9, 0]], advise)
    yield class_collapse("abc", [[20, 0, 0], [9, 0, 0], [0, 0, 7]], advise)
    yield first_loss(9.0, 1.0, "evenly", advise)
    yield first_loss(0.1, 1.0, "evenly", advise)
    yield missing_causal_mask(advise)
    yield too_good_loss(0.01, advise)
    yield flat_loss([1.0] * 40, 0.4, advise)
    yield overfitting(validated, "loss", advise, lower=True, guessing=2.0)
    yield generalisation_gap(0.01, 3.0, 1.0, advise)
    yield stopped_too_early(validated[:2], 2.0, advise, 2)
    yield vanishing_gradients([layers] * 8, advise)
    yield vanishing_gradients([upside] * 8, advise)
    yield vanishing_gradients([{"a": still, "b": moving}] * 8, advise)
    yield small_validation([{"label": "a", "predicted": "ab"[n % 2]} for n in range(100)], "text", advise)
    yield no_better_than_chance({"loss": 9.0}, [], 1.0, advise)
    yield ignored_source([{"target": f"right {n}", "output": "x"} for n in range(20)], advise)
    yield learning_rate_too_high([1.0] * 20 + [9.0] * 30, advise)
    yield learning_rate_too_low([layers] * 8, advise)
    yield unknown_tokens({"train": 0.1, "validation": 0.3}, advise)
    yield truncated_texts(9, 10, advise)
    yield dead_units({"a": 0.9}, advise)
    yield saturated_units({"a": 0.9}, advise)
    for share in (0.0, 1.0):
        yield from attention_heads({"0.0": share}, advise)


@pytest.mark.parametrize("name", RUNS)
def test_every_flag_is_one_of_train(name: str) -> None:
    """And it can be given to this very run: the settings it makes are whole ones, and not those that it has."""
    advise, known = advice_of(name), PARSER
    flags = {option for action in known._actions for option in action.option_strings}
    for number, finding in enumerate(every_finding(advise)):
        assert finding is not None, number
        assert finding.advice.strip()
        assert "None" not in finding.advice
        advice = re.sub(r"glassformer look RUN --view \w+", "", finding.advice)
        for flag, value in re.findall(r"(--[\w.-]*\w)(?: ([\w.+-]*\w))?", advice):
            assert flag in flags, finding.advice
            key = flag.removeprefix("--")
            key = ALIASES.get(key, key)
            if key not in keys() or not value or finding.kind in ("leak", "cut", "not-finite"):
                continue
            changed = resolve({}, {**RUNS[name], key: value})  # refuses what does nothing here
            assert changed != advise.config, finding.advice


def test_steps_start_from_what_is_set() -> None:
    assert Advice(resolve({}, {"model.dropout": 0.3})).dropout() == "--model.dropout 0.5"
    assert Advice(resolve({}, {})).dropout() == "--model.dropout 0.1"
    full = advice_of("full")
    assert (full.dropout(), full.clip(), full.smaller()) == (None,) * 3
    assert advice_of("linear").dropout() is None  # it has none
    bare = advice_of("bare")
    assert bare.clip() == "--training.grad_clip 1"
    assert (bare.smaller(), bare.shorter()) == ("--size tiny", "--minutes 1.5")
    assert bare.longer() == "a longer training run (--minutes 6)"
    assert "--training.patience 3" in advice_of("writer").remedies("overfitting")


def test_even_classes_are_given_no_weights() -> None:
    bag = advice_of("bag")
    assert bag.balanced([50, 50]) is None
    assert bag.balanced([90, 10]) == "--training.class_weights balanced"
    found = class_collapse("ab", [[20, 0], [20, 0]], bag)
    assert found is not None
    assert "class_weights" not in found.advice


@pytest.mark.parametrize(
    ("settings", "lower", "other"),
    [
        ({**LABELS, "model": "lstm", "lr": 5.0}, "--lr 0.002", "the usual rate (--lr 0.002)"),
        ({"lr": 1e12}, "--lr 0.003", "the usual rate (--lr 0.003)"),
        ({"lr": 1e12, "optimizer": "sgd"}, "--lr 0.5", "the usual rate (--lr 0.5)"),
        ({**LABELS, "model": "bag", "lr": 0.06}, "--lr 0.02", "--lr 0.006, --lr 0.6)"),
    ],
)
def test_a_rate_far_off_comes_back_to_the_usual_one(settings: dict[str, Any], lower: str, other: str) -> None:
    advise = Advice(resolve({}, settings))
    assert advise.lower_rate() == lower
    assert other in advise.another_rate()
    assert Advice(resolve({}, {**settings, "lr": 1e-9})).higher_rate() == f"--lr {advise.usual:g}"


def test_rare_words_are_advised_to_be_counted(tmp_path: Path) -> None:
    rows = [{"text": f"word{number % 3} seldom{number}", "label": "ab"[number % 2]} for number in range(60)]
    data = write_rows(tmp_path / "rows.csv", rows)
    run = gf.train(data, out=tmp_path / "run", model="bag", steps=2, draft=True).run
    (unknown,) = [finding for finding in gf.doctor(run).findings if finding.kind == "unknown"]
    assert "--tokenizer.min_count 1" in unknown.advice
    assert "vocab_size" not in unknown.advice
