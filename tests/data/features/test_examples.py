"""Labelled texts as token ids: framed, cut, padded, and in batches of like length."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checking
from hypothesis import strategies as st

from glassformer.config.errors import SettingError
from glassformer.config.sections import TokenizerSettings
from glassformer.data.features import inputs as inputs_module
from glassformer.data.features.texts import Examples, encode_examples
from glassformer.text.tokenizer import Tokenizer
from helpers.tables import examples_of_lengths

TEXTS = ["a b c d e", "b", "", "zebra b a"]
TOKENIZER = Tokenizer.train(["a b c d e"], TokenizerSettings(kind="word"))


def encoded(context: int = 9, *, framed: bool = True, texts: list[str] = TEXTS) -> Examples:
    return encode_examples(texts, np.arange(len(texts)), TOKENIZER, context=context, framed=framed)


def tokens_of(examples: Examples) -> list[list[str]]:
    names = {TOKENIZER.start: "(", TOKENIZER.end: ")", TOKENIZER.unk: "?"}
    texts = map(examples.tokens.of, range(len(examples)))
    return [[names.get(id) or TOKENIZER.token(id) for id in text] for text in texts]


def test_framed_by_start_and_end() -> None:
    examples = encoded()
    assert ["".join(text) for text in tokens_of(examples)] == ["(abcde)", "(b)", "()", "(?ba)"]
    assert examples.lengths.tolist() == [7, 3, 2, 5]
    assert (examples.cut, examples.unknown, examples.tokens.pad) == (0, 1, TOKENIZER.pad)
    assert (len(examples), list(examples.texts), examples.answers.tolist()) == (4, TEXTS, [0, 1, 2, 3])


def test_not_framed() -> None:
    examples = encoded(framed=False)
    assert ["".join(text) for text in tokens_of(examples)] == ["abcde", "b", "", "?ba"]
    assert examples.lengths.tolist() == [5, 1, 0, 3]


def test_a_long_text_is_cut_and_its_end_stays() -> None:
    examples = encoded(5)
    assert ["".join(text) for text in tokens_of(examples)] == ["(abc)", "(b)", "()", "(?ba)"]
    assert examples.cut == 1
    assert ["".join(text) for text in tokens_of(encoded(3))] == ["(a)", "(b)", "()", "(?)"]
    assert encoded(3).cut == 2
    unframed = encoded(1, framed=False)
    assert ["".join(text) for text in tokens_of(unframed)] == ["a", "b", "", "?"]
    assert unframed.cut == 2


def test_a_context_without_room() -> None:
    for context in (1, 2):
        with pytest.raises(SettingError) as caught:
            encoded(context)
        assert str(caught.value) == (
            f"model.context {context} leaves no room for a word beside START and END: it must be at least 3"
        )


def test_padded_to_the_longest() -> None:
    examples = encoded(framed=False)
    ids, mask = examples.take(np.array([3, 2, 1]))
    assert mask.tolist() == [[True, True, True], [False] * 3, [True, False, False]]
    assert ids[mask].tolist() == [*examples.ids[6:9].tolist(), examples.ids[5]]
    assert ids[~mask].tolist() == [TOKENIZER.pad] * 5
    assert ids.dtype.is_signed
    ids, mask = examples.take(np.array([2]))  # no token at all: still a column
    assert (ids.tolist(), mask.tolist()) == ([[TOKENIZER.pad]], [[False]])


def test_trimmed_to_the_longest_that_is_left() -> None:
    examples = encoded(framed=False)
    ids, mask = examples.take(np.arange(4))
    assert ids.shape == (4, 5)
    for some in ([1, 3], [1], [0, 1]):
        for found, expected in zip(examples.trim((ids[some], mask[some])), examples.take(np.array(some)), strict=True):
            assert found.tolist() == expected.tolist()
    assert examples.trim((ids[2:3], mask[2:3]))[0].tolist() == [[TOKENIZER.pad]]  # no token at all: still a column


def test_texts_without_a_single_token() -> None:
    examples = encoded(framed=False, texts=["", ""])
    assert [rows.tolist() for rows, _ in examples.batches()] == [[0, 1]]
    assert not any(mask.any() for _, (_, mask) in examples.batches())


def test_no_texts_make_no_batch() -> None:
    examples = encoded(texts=[])
    assert len(examples) == 0
    assert list(examples.batches()) == []


def test_few_examples_are_not_padded_to_the_longest_of_all() -> None:
    lengths = [*range(5, 25)] * 20
    padded = [ids.numel() for _, (ids, _) in examples_of_lengths(lengths).batches()]
    assert max(padded) <= inputs_module.MIN_BATCH_TOKENS
    assert sum(padded) < 1.2 * sum(lengths)


@pytest.mark.slow
@checking(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 100))
def test_batches_hold_every_text_once_and_few_tokens(lengths: list[int], at_once: int) -> None:
    examples = examples_of_lengths(lengths)
    batches = list(examples.batches(at_once))
    seen: list[int] = []
    longest = 0
    for rows, (ids, mask) in batches:
        assert ids.shape == mask.shape == (len(rows), max(1, *(lengths[row] for row in rows.tolist())))
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows.tolist()) <= at_once
        assert min(lengths[row] for row in rows.tolist()) >= longest  # like lengths together
        longest = max(lengths[row] for row in rows.tolist())
        for place, row in enumerate(rows.tolist()):
            assert ids[place, mask[place]].tolist() == examples.tokens.of(row)
        seen += rows.tolist()
    assert sorted(seen) == list(range(len(lengths)))
    for (rows, _), (following, _) in itertools.pairwise(batches):  # no batch is smaller than need be
        assert (len(rows) + 1) * lengths[following[0]] > at_once
