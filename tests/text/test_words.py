"""Words cut once per chunk: the counts and ids are the pipeline's own, whatever is remembered or forgotten."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, models, normalizers, pre_tokenizers

from glassformer.config.sections import TokenizerSettings
from glassformer.text import pieces as pieces_module
from glassformer.text import pipelines as words_module
from glassformer.text.pieces import PIECE
from glassformer.text.pipelines import WORD, count_words
from glassformer.text.tokenizer import Tokenizer

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


def trained(texts: list[str], *, lowercase: bool = True) -> Tokenizer:
    settings = TokenizerSettings(kind="word", lowercase=lowercase, min_count=2)
    return Tokenizer.train(texts, settings)


def right(tokenizer: Tokenizer, texts: list[str]) -> bool:
    """Whether the ids of the texts are those that the pipeline gives each whole text."""
    ids = tokenizer.encode_batch(texts)
    assert all(one.dtype == np.int32 for one in ids)
    expected = [tokenizer._rust.encode(text, add_special_tokens=False).ids for text in texts]
    return [one.tolist() for one in ids] == expected


@pytest.fixture(params=["roomy", "few together", "few chunks", "few characters"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Limits so low that each is met within a few texts."""
    if request.param == "few together":
        monkeypatch.setattr(pieces_module, "BATCH", 5)
    if request.param == "few chunks":
        monkeypatch.setattr(words_module, "MAX_CHUNKS", 7)
    if request.param == "few characters":
        monkeypatch.setattr(words_module, "MAX_CHARACTERS", 50)
    return str(request.param)


@lowercase
@pytest.mark.usefixtures("room")
def test_counts_are_those_of_whole_texts(lowercase: bool) -> None:
    texts = [*TEXTS, *NEW] * 3
    expected = counted(texts, lowercase=lowercase)
    assert count_words(iter(texts), pipeline(lowercase=lowercase)) == expected


@given(any_texts, st.booleans())
def test_any_texts_are_counted(texts: list[str], lowercase: bool) -> None:
    assert count_words(texts, pipeline(lowercase=lowercase)) == counted(texts, lowercase=lowercase)


def test_no_texts_hold_no_words() -> None:
    assert count_words([], pipeline()) == Counter()


@lowercase
@pytest.mark.usefixtures("room")
def test_ids_are_those_of_whole_texts(lowercase: bool) -> None:
    texts = TEXTS * 2
    for first in (texts, texts[::-1], NEW, texts[3:5] + NEW, []):
        tokenizer = trained(texts, lowercase=lowercase)
        assert right(tokenizer, first)
        assert right(tokenizer, texts)
        assert right(tokenizer, NEW)


@given(any_texts, any_texts)
def test_any_texts_are_encoded(known: list[str], new: list[str]) -> None:
    tokenizer = trained(["a a", *known])
    assert right(tokenizer, [*new, *known])
    assert right(tokenizer, new)


def test_a_long_text_is_counted_in_pieces_and_encoded_whole() -> None:
    texts = ["x" * (2 * PIECE + 5) + " end", "the fox " * PIECE, "the end"]
    assert right(trained(texts), texts)


@pytest.mark.parametrize("limit", ["MAX_CHUNKS", "MAX_CHARACTERS"])
def test_chunks_are_forgotten_before_they_fill_the_memory(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, limit, 100)
    tokenizer = trained(["a b a b"])
    words = tokenizer._word_ids
    assert words is not None
    for number in range(100):
        tokenizer.encode_batch([f"new{number} words{number} 漢{number}"])
    assert len(words._chunks) < 110
    assert len(words._ends) == len(words._chunks) + 1
    assert right(tokenizer, TEXTS)
