"""Stretches of a text among the tokens that were read of it."""

import pytest

from glassformer.config.sections import TokenizerSettings
from glassformer.text.places import tokens_of
from glassformer.text.tokenizer import Tokenizer

TEXT = "so naïve, a bank"
WORD = Tokenizer.train([TEXT] * 3, TokenizerSettings(kind="word"))
CHAR = Tokenizer.train([TEXT] * 3, TokenizerSettings(kind="char"))
BYTES = Tokenizer.train([TEXT] * 3, TokenizerSettings(kind="bpe", vocab_size=260))


@pytest.mark.parametrize("tokenizer", [WORD, CHAR, BYTES], ids=["word", "char", "bytes"])
def test_tokens_of_a_stretch_spell_it(tokenizer: Tokenizer) -> None:
    spans = [(12, 16), (0, 2), (3, 8)]
    ids = tokenizer.encode(TEXT)
    for found, (start, end) in zip(tokens_of(spans, TEXT, tokenizer), spans, strict=True):
        assert [ids[place] for place in found.places] == [piece.id for piece in found.pieces]
        spelt = b"".join(tokenizer.token_bytes(ids[place]) for place in found.places).decode()
        assert spelt.strip() == TEXT[start:end]


def test_start_stands_before_all() -> None:
    ids = CHAR.encode(TEXT)
    assert CHAR.start is not None
    assert tokens_of([(3, 5)], TEXT, CHAR, ids)[0].places == [3, 4]
    assert tokens_of([(3, 5)], TEXT, CHAR, [CHAR.start, *ids])[0].places == [4, 5]


def test_what_was_cut_off_has_pieces_and_no_places() -> None:
    ids = CHAR.encode(TEXT)
    first, second = tokens_of([(0, 2), (3, 8)], TEXT, CHAR, [*ids[:7], CHAR.end])
    assert first.places == [0, 1]
    assert second.places == []
    assert "".join(piece.text for piece in second.pieces) == "naïve"
    assert tokens_of([(3, 8)], TEXT, CHAR, ids[:7])[0].places == []
    assert tokens_of([(3, 8)], TEXT, CHAR, ids[:8])[0].places == [3, 4, 5, 6, 7]


def test_characters_that_no_token_stands_for() -> None:
    (found,) = tokens_of([(9, 10)], TEXT, WORD)
    assert (found.pieces, found.places) == ([], [])
