"""Words cut once per stretch: the counts and ids are the pipeline's own, whatever is remembered or forgotten."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Regex, models, normalizers, pre_tokenizers

from glassformer.config.sections import TokenizerSettings
from glassformer.text import words as words_module
from glassformer.text.pieces import PIECE
from glassformer.text.pipelines import WORD
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import TextCache, count_words

TEXTS = [
    "The fox isn't here, the Fox said.",
    "",
    "  blanks  at  both  ends  ",
    "ΣΑΣ İstanbul’s naïve foxes\nsaw a\ttab",
    "The fox isn't here, the Fox said.",
    "no-blanks-at-all-" * 7,
    "a " + "漢" * 90 + " b",
    "an o'clock' 'isn't' rock''n'roll of fifteenletters15 sixteenletters_16 sixteenletters_17",
    "control\x00\x1f\x7f é\x00 é",
    "straße STRASSE",
]
NEW = ["an unheard-of word", "the fox", ""]

lowercase = pytest.mark.parametrize("lowercase", [True, False])
encoded_next = pytest.mark.parametrize("encoded_next", [True, False])
any_texts = st.lists(st.text("aB’' é\n\t漢,İ\0", max_size=30), min_size=1, max_size=9)


def pipeline(*, lowercase: bool = True) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    if lowercase:
        made.normalizer = normalizers.Lowercase()
    return made


def counted(texts: Iterable[str], *, lowercase: bool = True) -> Counter[str]:
    """Each whole text through the pipeline."""
    made = pipeline(lowercase=lowercase)
    fold = made.normalizer.normalize_str if lowercase else str
    return Counter(word for text in texts for word, _ in made.pre_tokenizer.pre_tokenize_str(fold(text)))


def trained(texts: list[str], *, encoded_next: bool, lowercase: bool = True) -> Tokenizer:
    settings = TokenizerSettings(kind="word", lowercase=lowercase, min_count=2)
    return Tokenizer.train(texts, settings, encoded_next=encoded_next)


def right(tokenizer: Tokenizer, texts: list[str]) -> bool:
    """Whether the ids of the texts are those that the pipeline gives each whole text."""
    ids = tokenizer.encode_batch(texts)
    assert all(one.dtype == np.int32 for one in ids)
    expected = [tokenizer._rust.encode(text, add_special_tokens=False).ids for text in texts]
    return [one.tolist() for one in ids] == expected


@pytest.fixture(params=["roomy", "few together", "little room", "few slots", "few numbers"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Limits so low that each is met within a few texts."""
    if request.param == "few together":
        monkeypatch.setattr(words_module, "TOGETHER", 5)
    if request.param == "little room":
        monkeypatch.setattr(words_module, "MOST_KEPT", 7)
    if request.param == "few slots":
        monkeypatch.setattr(words_module, "SLOT_BITS", 1)
    if request.param == "few numbers":
        monkeypatch.setattr(words_module, "MOST_NUMBERS", 11)
    return str(request.param)


@lowercase
@pytest.mark.usefixtures("room")
def test_counts_are_those_of_whole_texts(lowercase: bool) -> None:
    texts = [*TEXTS, *NEW] * 3
    expected = counted(texts, lowercase=lowercase)
    assert count_words(iter(texts), pipeline(lowercase=lowercase)) == expected
    assert count_words(TextCache(texts), pipeline(lowercase=lowercase)) == expected


@given(any_texts, st.booleans())
def test_any_texts_are_counted(texts: list[str], lowercase: bool) -> None:
    assert count_words(texts, pipeline(lowercase=lowercase)) == counted(texts, lowercase=lowercase)


def test_no_texts_hold_no_words() -> None:
    assert count_words([], pipeline()) == Counter()


@lowercase
@encoded_next
@pytest.mark.usefixtures("room")
def test_ids_are_those_of_whole_texts(lowercase: bool, encoded_next: bool) -> None:
    texts = TEXTS * 2
    for first in (texts, texts[::-1], NEW, texts[3:5] + NEW, []):
        tokenizer = trained(texts, encoded_next=encoded_next, lowercase=lowercase)
        assert right(tokenizer, first)
        assert right(tokenizer, texts)
        assert right(tokenizer, NEW)
    assert tokenizer.hash == trained(texts, encoded_next=not encoded_next, lowercase=lowercase).hash


@given(any_texts, any_texts)
def test_any_texts_are_encoded(known: list[str], new: list[str]) -> None:
    tokenizer = trained(["a a", *known], encoded_next=True)
    assert right(tokenizer, [*new, *known])
    assert right(tokenizer, new)


def test_a_long_text_is_counted_in_pieces_and_encoded_whole() -> None:
    texts = ["x" * (2 * PIECE + 5) + " end", "the fox " * PIECE, "the end"]
    assert right(trained(texts, encoded_next=True), texts)


def test_a_text_that_is_encoded_next_is_not_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[str] = []
    numbers = words_module.Stretches.numbers

    def noticed(self: words_module.Stretches, texts: list[str]) -> list[NDArray[np.int32]]:
        cut.extend(texts)
        return numbers(self, texts)

    monkeypatch.setattr(words_module.Stretches, "numbers", noticed)
    texts = sorted({text for text in TEXTS if text})
    tokenizer = trained(texts * 2, encoded_next=True)
    assert cut == texts * 2
    tokenizer.encode_batch([*texts, "news"])
    assert cut == [*texts * 2, "news"]
    tokenizer.encode_batch(texts)  # remembered once, and no longer
    assert cut == [*texts * 2, "news", *texts]


def test_what_was_remembered_of_texts_is_gone_after_encoding() -> None:
    tokenizer = trained(TEXTS * 2, encoded_next=True)
    assert set(tokenizer._numberer._numbers) == set(TEXTS) - {""}
    tokenizer.encode("news")
    assert tokenizer._numberer._numbers == {}
    assert trained(TEXTS * 2, encoded_next=False)._numberer._numbers == {}


def test_stretches_forgotten_while_encoding_take_the_texts_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MOST_KEPT", 6)
    tokenizer = trained(["a b", "d d", "b a d"], encoded_next=True)
    assert len(tokenizer._numberer._numbers) == 3
    assert right(tokenizer, ["v w x y", "d d", "b a d"])


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MOST_NUMBERS", 6)
    tokenizer = trained(["a b c", "a b c", "b b a b", "c a b"], encoded_next=True)
    assert list(tokenizer._numberer._numbers) == ["a b c", "c a b"]


def test_too_many_stretches_are_forgotten_with_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MOST_KEPT", 4)
    monkeypatch.setattr(words_module, "TOGETHER", 0)
    tokenizer = trained(["a b", "c d e", "a b"], encoded_next=True)
    assert tokenizer._numberer._numbers == {}
    assert list(tokenizer._numberer.stretches) == [b"a", b"b"]
    tokenizer.encode_batch(["c d e", "b"])
    assert list(tokenizer._numberer.stretches) == [b"b"]


def test_stretches_of_many_words_fill_the_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MOST_KEPT", 4)
    tokenizer = trained(["a a"], encoded_next=False)
    tokenizer.encode_batch(["é.,.,.,.,.,", "a é.,.,.,.,.,."])
    assert list(tokenizer._numberer.stretches) == []


@encoded_next
def test_long_stretches_are_not_remembered(encoded_next: bool) -> None:
    tokenizer = trained(["a b a b " + "x" * 41], encoded_next=encoded_next)
    tokenizer.encode_batch(["a b a b " + "x" * 41, "a " + "漢" * 1000, "y" * 40])
    assert list(tokenizer._numberer.stretches) == [b"a", b"b", b"y" * 40]
