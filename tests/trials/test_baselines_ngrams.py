"""n-grams with Kneser–Ney smoothing, against the formulas written out with dictionaries; and as a floor."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from glassformer.config.resolve import resolve
from glassformer.data.packing.store import Tokens
from glassformer.families.base import FAMILIES
from glassformer.families.build import prepare
from glassformer.families.recognition import infer_config
from glassformer.models.build import build_language_model
from glassformer.tasks.language_model import LanguageModelling
from glassformer.trials.baselines.language import (
    DEFAULT_DISCOUNTS,
    KneserNey,
    best_length,
    discounts_of,
    judge_unigrams,
    records_of,
)
from glassformer.trials.baselines.registry import NGRAM, UNIGRAM, evaluate_baseline
from glassformer.trials.jobs import FLOOR
from helpers.running import tiny
from helpers.simulated import judged

START, END, VOCAB = 0, 1, 13
Gram = tuple[int, ...]


def documents(count: int, seed: int = 0) -> list[list[int]]:
    """Each token depends on the two before it, most of the time."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        words = chance.integers(2, VOCAB - 1, 2).tolist()
        while chance.random() < 0.93:
            follows = 2 + (words[-1] * 3 + words[-2]) % (VOCAB - 3)
            words.append(int(follows) if chance.random() < 0.6 else int(chance.integers(2, VOCAB - 1)))
        made.append([START, *words, END])
    return made


def joined(texts: list[list[int]]) -> Any:
    return np.array([id for text in texts for id in text], np.int64)


class Slow:
    """The formulas, word for word."""

    def __init__(self, texts: list[list[int]], order: int) -> None:
        self.order = order
        whole: dict[int, Counter[Gram]] = {length: Counter() for length in range(1, order + 1)}
        for text in texts:
            for length in whole:
                for place in range(len(text) - length + 1):
                    gram = tuple(text[place : place + length])
                    if gram[-1] != START:
                        whole[length][gram] += 1
        self.counts: dict[int, dict[Gram, int]] = {order: dict(whole[order])}
        for length in range(1, order):
            before = Counter(gram[1:] for gram in whole[length + 1])
            self.counts[length] = {
                gram: count if gram[0] == START else before[gram] for gram, count in whole[length].items()
            }
        self.discounts = {length: self._discounts(counts) for length, counts in self.counts.items()}

    @staticmethod
    def _discounts(counts: dict[Gram, int]) -> list[float]:
        n = [sum(count == k for count in counts.values()) for k in range(5)]
        if min(n[1:]) == 0:
            return [0.0, *DEFAULT_DISCOUNTS]
        y = n[1] / (n[1] + 2 * n[2])
        found = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
        return [0.0, *found] if all(0 < d <= k for k, d in enumerate(found, 1)) else [0.0, *DEFAULT_DISCOUNTS]

    def chance(self, word: int, history: Gram) -> float:
        return self._at(word, history[-(self.order - 1) :] if self.order > 1 else ())

    def _at(self, word: int, history: Gram) -> float:
        lower = self._at(word, history[1:]) if history else 1 / (VOCAB - 1)
        length = len(history) + 1
        counts, discount = self.counts[length], self.discounts[length]
        after = {gram: count for gram, count in counts.items() if gram[:-1] == history}
        total = sum(after.values())
        if total == 0:
            return lower
        taken = sum(discount[min(count, 3)] for count in after.values())
        own = counts.get((*history, word), 0)
        return (own - discount[min(own, 3)] + taken * lower) / total


@pytest.fixture(scope="module")
def text() -> tuple[list[list[int]], list[list[int]]]:
    return documents(60), documents(7, seed=1)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_as_the_formulas_say(text: tuple[list[list[int]], list[list[int]]], order: int) -> None:
    train, held_out = text
    model, slow = KneserNey.count(joined(train), VOCAB, START, 5), Slow(train, order)
    ids = joined(held_out)
    found = model.probabilities(ids, np.arange(len(ids)))[order - 1]
    expected = [
        slow.chance(document[place], tuple(document[:place]))
        for document in held_out
        for place in range(1, len(document))
    ]
    np.testing.assert_allclose(found[ids != START], expected, rtol=1e-12)


def test_probabilities_sum_to_1(text: tuple[list[list[int]], list[list[int]]]) -> None:
    """After any history, met or not; of all tokens but START, those never seen among them."""
    model = KneserNey.count(joined(text[0]), VOCAB, START, 4)
    for history in ([START], [START, 3], [5, 4, 7], [END, 2], [12, 12, 12], [3], [2, 9, 9, 9]):
        totals = np.zeros(4)
        for word in range(1, VOCAB):
            ids = np.array([*history, word])
            chances = [one[-1] for one in model.probabilities(ids, np.arange(len(ids)))]
            assert min(chances) > 0
            totals += chances
        np.testing.assert_allclose(totals, 1, rtol=1e-12)


def test_nothing_beyond_the_reach_is_seen(text: tuple[list[list[int]], list[list[int]]]) -> None:
    model = KneserNey.count(joined(text[0]), VOCAB, START, 4)
    ids = joined(text[1])
    near = model.probabilities(ids, np.full(len(ids), 1))
    other = ids.copy()
    other[:-2] = 4
    np.testing.assert_array_equal(near[3][-1], model.probabilities(other, np.full(len(ids), 1))[3][-1])
    assert near[3][-1] != model.probabilities(ids, np.full(len(ids), 3))[3][-1]


def test_a_text_without_documents() -> None:
    ids = np.array([2, 3, 2, 3, 2, 4], np.int64)
    model = KneserNey.count(ids, 5, None, 3)
    total = sum(model.probabilities(np.array([2, 3, word]), np.arange(3))[2][-1] for word in range(5))
    assert total == pytest.approx(1)
    assert model.size(1) == 3
    assert model.size(2) == 3 + 3


def test_discounts() -> None:
    counts = np.array([1] * 60 + [2] * 20 + [3] * 10 + [4] * 6 + [9] * 4)
    y = 60 / 100
    np.testing.assert_allclose(discounts_of(counts), [0, 1 - 2 * y / 3, 2 - 3 * y / 2, 3 - 4 * y * 0.6])
    np.testing.assert_allclose(discounts_of(np.array([50, 60, 70])), [0, *DEFAULT_DISCOUNTS])


# --- as a floor ---


def task_of(train: list[list[int]], test: list[list[int]], context: int = 7) -> LanguageModelling:
    parts = {
        name: Tokens(joined(texts).astype(np.uint16), bytes=999, characters=999, documents=len(texts), unknown=0)
        for name, texts in (("train", train), ("validation", test), ("test", test))
    }
    return LanguageModelling(parts, context=context, start=START)


def test_counting_single_tokens(text: tuple[list[list[int]], list[list[int]]]) -> None:
    task = task_of(*text)
    found, learned = judge_unigrams(task, "test", VOCAB)
    train = [id for document in text[0] for id in document[1:]]
    expected = [-np.log((train.count(id) + 1) / (len(train) + VOCAB - 1)) for one in text[1] for id in one[1:]]
    assert found.metrics["loss"] == pytest.approx(np.mean(expected))
    assert found.metrics["tokens"] == len(expected)
    assert learned == VOCAB - 1


def test_windows_and_tokens_are_those_of_a_model(text: tuple[list[list[int]], list[list[int]]]) -> None:
    task = task_of(*text)
    records = records_of(task, "test", lambda ids, reach: np.full(len(ids), 0.5))
    model = build_language_model(resolve({}, {**tiny("rnn"), "model.context": 7}).model, vocab=VOCAB).eval()
    keys = ("start", "tokens", "covered")
    judged = task.evaluate(model, "test").records
    assert [[record[key] for key in keys] for record in records] == [[record[key] for key in keys] for record in judged]
    assert task.judge("test", records).metrics["loss"] == pytest.approx(np.log(2))


def test_no_more_is_seen_than_a_model_sees(text: tuple[list[list[int]], list[list[int]]]) -> None:
    """Nothing before the window; the last window reaches back, so that it is whole."""
    task = task_of(*text, context=11)
    given: list[Any] = []
    records_of(task, "test", lambda ids, reach: given.append(reach) or np.ones(len(ids)))  # type: ignore[func-returns-value]
    last = len(given[0]) - 1
    whole = last // 11 * 11
    assert whole < last
    expected = [0, *((place - 1) % 11 + 1 for place in range(1, whole + 1))]
    expected += [place - (last - 11) for place in range(whole + 1, last + 1)]
    assert given[0].tolist() == expected


def test_the_length_is_chosen_in_validation(text: tuple[list[list[int]], list[list[int]]]) -> None:
    """Tokens that depend on two others want three of them together."""
    train = documents(2000, seed=3)
    task = task_of(train, text[1])
    assert best_length(KneserNey.count(joined(train), VOCAB, START, 6), task) == 3


def test_on_a_real_text() -> None:
    settings = {"data.path": "docstrings", "data.test_fraction": 0.05, "data.validation_fraction": 0.05}
    config, _ = infer_config({}, {**settings, "data.train_fraction": 0.1, "tokenizer.kind": "char"})
    prepared = prepare(config)
    one, many = (evaluate_baseline(FLOOR, name, config, prepared, "test") for name in (UNIGRAM, NGRAM))
    single, several = one.evaluation, many.evaluation
    assert several.metrics["loss"] < single.metrics["loss"] - 1
    assert several.metrics["bits_per_byte"] < 3.5  # 2.4 of Python 3.11, 3.0 of 3.12: each has docstrings of its own
    assert many.parameters > 10_000
    family = FAMILIES[config.task]
    assert judged(single, family).examples == judged(several, family).examples
