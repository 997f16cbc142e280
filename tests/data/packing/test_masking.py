"""Which tokens are hidden: how many, which never, and always the same ones."""

import math

import numpy as np
import pytest

from glassformer.config.sections import TokenizerSettings
from glassformer.data.order import number
from glassformer.data.packing.windows import EVALUATED, NOTHING, Masking
from glassformer.text.tokenizer import Tokenizer

TEXT = "the cat sat on the mat\nand the dog, under it, sang of unhappiness\n"


def tokenizer_of(kind: str = "bpe", **more: object) -> Tokenizer:
    return Tokenizer.train([TEXT * 3], TokenizerSettings(kind=kind, **more), mask=True)  # type: ignore[arg-type]


def ids_of(masking: Masking, rows: int = 64, length: int = 97, seed: int = 0) -> np.ndarray:
    """Tokens of all kinds, special ones among them."""
    return np.random.default_rng(seed).integers(0, masking.size, (rows, length))


def near(count: int, of: int, chance: float) -> bool:
    """Within five spreads of a binomial."""
    return abs(count - of * chance) < 5 * math.sqrt(of * chance * (1 - chance))


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_as_many_are_hidden_as_said_and_in_the_three_ways(rate: float) -> None:
    masking = Masking.of(tokenizer_of(), rate=rate)
    ids = ids_of(masking, rows=200)
    inputs, answers = masking.to_learn(ids, number(7))
    ordinary = np.isin(ids, masking.ordinary)
    guessed = answers != NOTHING
    assert near(int(guessed.sum()), int(ordinary.sum()), rate)
    assert (answers[guessed] == ids[guessed]).all()
    assert (inputs[~guessed] == ids[~guessed]).all()
    masked = inputs[guessed] == masking.mask
    stayed = inputs[guessed] == ids[guessed]
    count = int(guessed.sum())
    by_chance = 1 / len(masking.ordinary)
    assert near(int(masked.sum()), count, 0.8)
    assert near(int(stayed.sum()), count, 0.1 + 0.1 * by_chance)
    swapped = inputs[guessed][~masked & ~stayed]
    assert np.isin(swapped, masking.ordinary).all()
    assert len(np.unique(swapped)) > 0.5 * len(masking.ordinary)


@pytest.mark.parametrize("length", [100, 300, 1000, 5000, 40_000])
def test_a_part_of_any_length_is_asked_its_share(length: int) -> None:
    masking = Masking.of(tokenizer_of())
    _, answers = masking.to_evaluate(np.full(length, masking.ordinary[0]), 0)
    spread = math.sqrt(length * EVALUATED * (1 - EVALUATED))
    assert abs(int((answers != NOTHING).sum()) - length * EVALUATED) < 1.5 * spread


def test_special_tokens_are_never_hidden_nor_put_in() -> None:
    tokenizer = tokenizer_of("word", min_count=1)
    masking = Masking.of(tokenizer, rate=0.9)
    specials = [tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unk, tokenizer.mask]
    ids = ids_of(masking)
    inputs, answers = masking.to_learn(ids, number(1))
    assert not np.isin(masking.ordinary, specials).any()
    assert (answers[np.isin(ids, specials)] == NOTHING).all()
    changed = (inputs != ids) & (inputs != masking.mask)
    assert not np.isin(inputs[changed], specials).any()


def test_what_is_hidden_follows_from_the_key_and_the_row_alone() -> None:
    masking = Masking.of(tokenizer_of())
    ids = ids_of(masking)
    first, again = masking.to_learn(ids, number(3)), masking.to_learn(ids, number(3))
    fewer = masking.to_learn(ids[:5], number(3))
    other = masking.to_learn(ids, number(4))
    for one, two, few, another in zip(first, again, fewer, other, strict=True):
        assert (one == two).all()
        assert (one[:5] == few).all()
        assert (one != another).any()
    rows = [tuple(np.flatnonzero(row != NOTHING)) for row in masking.to_learn(np.repeat(ids[:1], 50, 0), number(3))[1]]
    assert len(set(rows)) == 50


@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_whole_words_are_guessed_together_and_as_many_tokens_as_without(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    masking = Masking.of(tokenizer, rate=0.3, whole_words=True)
    text = tokenizer.encode(TEXT)
    ids = np.array([text] * 400)
    assert masking.words is not None
    first = masking.words.first(ids)[0]
    assert len(set(first)) < len(text)
    guessed = masking.to_learn(ids, number(5))[1] != NOTHING
    for place in set(first.tolist()):
        together = guessed[:, first == place]
        assert (together.all(1) | ~together.any(1)).all()
        assert together.any()
    spread = math.sqrt(400 * 0.3 * 0.7 * np.square(np.unique(first, return_counts=True)[1]).sum())
    assert abs(guessed.sum() - 400 * len(text) * 0.3) < 5 * spread


def test_a_judged_token_is_hidden_wherever_its_window_begins() -> None:
    masking = Masking.of(tokenizer_of(), rate=0.5, whole_words=True)
    ids = ids_of(masking, rows=1, length=5000)[0]
    inputs, answers = masking.to_evaluate(ids, 0)
    later = masking.to_evaluate(ids[1234:1300], 1234)
    assert (later[0] == inputs[1234:1300]).all()
    assert (later[1] == answers[1234:1300]).all()
    guessed = answers != NOTHING
    assert near(int(guessed.sum()), int(np.isin(ids, masking.ordinary).sum()), EVALUATED)
    assert (inputs[guessed] == masking.mask).all()
    assert (inputs[~guessed] == ids[~guessed]).all()
