"""Merge by merge, to the tokens that encoding gives."""

import itertools
import re
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from glassformer.config.errors import DataError, Misuse
from glassformer.config.sections import TokenizerSettings
from glassformer.inspection.views.tokens import FIRST, merges_view, pairs_view
from glassformer.rendering.panels import Chips, Table
from glassformer.text.analysis import MAX_MERGED_CHARS, Merge, learned_merges, merges_of
from glassformer.text.tokenizer import Tokenizer

STORY = (
    "It's a “small” story (about naïve foxes), isn't it?\n\n\tThe fox saw 17% of the hens; the hens saw the fox!\n"
    "Le garçon lit : ça va… 漢字とかな 🙂👩‍👩‍👧 don't [stop] {now}. The other fox, the third, and the rest there.\n"
)


def trained(kind: str, texts: tuple[str, ...] = (STORY,) * 3, **settings: Any) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerSettings(kind=kind, **settings))


BPE = trained("bpe", vocab_size=420)
LEARNED = learned_merges(BPE)
story_like = st.lists(st.sampled_from(re.findall(r"\s|\w+|[^\w\s]", STORY)), min_size=1).map("".join)


def holds(text: str) -> None:
    steps = merges_of(BPE, text)
    first, last = steps[0], steps[-1]
    assert (first.rank, first.pair) == (None, None)
    assert b"".join(BPE.token_bytes(id) for id in first.ids) == text.encode()
    assert len(first.ids) == len(text.encode())
    assert last.ids == BPE.encode(text)
    for before, after in itertools.pairwise(steps):
        assert after.rank is not None
        assert after.pair == LEARNED[after.rank]
        assert len(after.ids) < len(before.ids)
        assert before.rank != after.rank
    for step in steps:
        assert step.pieces == [BPE.token(id) for id in step.ids]


@given(st.text(min_size=1, max_size=60))
def test_any_text(text: str) -> None:
    holds(text)


@given(story_like)
def test_texts_of_known_words(text: str) -> None:
    holds(text)


@pytest.mark.parametrize(
    "text", [STORY, "漢字とかな 🙂👩‍👩‍👧", "garçon ça", " ", "\n\n\t", "a" * MAX_MERGED_CHARS, "aaa bbb aaa"]
)
def test_some_texts(text: str) -> None:
    holds(text)


def test_step_by_step() -> None:
    tokenizer = trained("bpe", ("low low lower",) * 3, vocab_size=262)
    assert learned_merges(tokenizer)[:2] == [("l", "o"), ("lo", "w")]
    steps = merges_of(tokenizer, "low low")
    assert [(step.rank, step.pair, step.pieces) for step in steps] == [
        (None, None, list("low low")),
        (0, ("l", "o"), ["lo", "w", " ", "lo", "w"]),
        (1, ("lo", "w"), ["low", " ", "low"]),
        (2, (" ", "low"), ["low", " low"]),
    ]


def of_merges(vocabulary: list[str], merges: list[tuple[str, str]], **more: Any) -> Tokenizer:
    rust = tokenizers.Tokenizer(
        tokenizers.models.BPE({token: id for id, token in enumerate(vocabulary)}, merges, **more)
    )
    rust.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = tokenizers.decoders.ByteLevel()
    return Tokenizer(rust)


def test_one_place_after_the_other() -> None:
    """A merge may make a pair that was learned before it: that goes first, before the same merge at its next place."""
    tokenizer = of_merges(["a", "b", "c", "ab", "abc", "abcab"], [("a", "b"), ("abc", "ab"), ("ab", "c")])
    steps = merges_of(tokenizer, "abcabc")
    assert [step.pieces for step in steps[1:]] == [["ab", "c", "ab", "c"], ["abc", "ab", "c"], ["abcab", "c"]]
    assert tokenizer.encode("abcabc") == steps[-1].ids


def test_a_tokenizer_that_does_more_than_merge() -> None:
    tokenizer = of_merges(["a", "b", "ab", "abb"], [("a", "b")], ignore_merges=True)
    assert tokenizer.encode("abb") == [3]
    with pytest.raises(Misuse, match="does more than merge"):
        merges_of(tokenizer, "abb")
    with pytest.raises(Misuse, match="lacks some of the text's bytes"):
        merges_of(tokenizer, "abc")


@pytest.mark.parametrize("kind", ["char", "word"])
def test_other_kinds_have_no_merges(kind: str) -> None:
    with pytest.raises(Misuse, match=rf"\({kind}\) has no merges.*--tokenizer.kind bpe") as caught:
        merges_of(trained(kind), "the fox")
    assert "\n" not in str(caught.value)


def test_texts_that_cannot_be_followed() -> None:
    with pytest.raises(Misuse, match="2,001 characters are too many to follow merge by merge: 2,000 at most"):
        merges_of(BPE, "a" * (MAX_MERGED_CHARS + 1))
    with pytest.raises(Misuse, match="no text"):
        merges_of(BPE, "")
    with pytest.raises(DataError, match="half a character"):
        merges_of(BPE, "a\ud800")


# --- views ---


def test_pieces_have_the_colour_of_their_token() -> None:
    steps = merges_of(trained("bpe", ("low low lower",) * 3, vocab_size=262), "low low")
    chips = merges_view("low low", steps, []).panels[0]
    assert isinstance(chips, Chips)
    assert chips.lines[-1] == ["low", "␣low"]
    assert chips.groups == [[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 1, 1], [0, 1]]
    assert chips.marked == [[], [0, 3], [0, 2], [1]]


def test_a_view_of_merges() -> None:
    steps = [
        Merge(None, None, [0, 1, 2], ["a", " ", "b"]),
        Merge(4, (" ", "b"), [0, 3], ["a", " b"]),
        Merge(6, ("a", " b"), [4], ["a b"]),
    ]
    learned = [("x", "y"), ("\n", "\t")]
    view = merges_view("a b", steps, learned)
    chips, first = view.panels
    assert isinstance(chips, Chips)
    assert chips.lines == [["a", "␣", "b"], ["a", "␣b"], ["a␣b"]]
    assert chips.names == ["single bytes", "␣ + b (merge 5)", "a + ␣b (merge 7)"]
    assert chips.groups == [[0, 0, 0], [0, 0], [0]]
    assert chips.marked == [[], [1], [0]]
    assert isinstance(first, Table)
    assert list(first.rows) == [(1, "x + y", "xy"), (2, "⏎ + ⇥", "⏎⇥")]
    assert first.note == "the first 2 of 2 merges"
    assert chips.takeaway == "3 bytes become 1 token in 2 steps"
    assert view.title == "“a b” merge by merge"


def test_only_the_first_merges_are_shown() -> None:
    steps = merges_of(BPE, "the fox")
    view = merges_view("the fox", steps, LEARNED)
    assert len(view.panels[1].rows) == FIRST  # type: ignore[attr-defined]
    assert view.panels[1].note == f"the first {FIRST} of {len(LEARNED)} merges"
    assert view.panels[0].takeaway.startswith(f"7 bytes become {len(BPE.encode('the fox'))} tokens")


def test_a_sentence_as_its_training_pairs() -> None:
    tokens = ["<start>", "the", " cat", "<end>"]
    view = pairs_view(tokens)
    (table,) = view.panels
    assert isinstance(table, Table)
    assert list(table.rows) == [(1, "<start>", "the"), (2, "<start>the", "␣cat"), (3, "<start>the cat", "<end>")]
    assert table.takeaway == "4 tokens make 3 training pairs"


def test_words_that_bring_no_blanks() -> None:
    tokens = ["the", "cat", "sat"]
    (table,) = pairs_view(tokens, between=" ").panels
    assert isinstance(table, Table)
    assert list(table.rows) == [(1, "the", "cat"), (2, "the cat", "sat")]
    assert pairs_view(["a", "b"]).panels[0].takeaway == "2 tokens make 1 training pair"
