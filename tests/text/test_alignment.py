"""Where words and stretches of a text stand among its tokens, by how these spell."""

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from glassformer.config.sections import TokenizerSettings
from glassformer.text.alignment import tokens_of, word_borders
from glassformer.text.pipelines import MASK
from glassformer.text.tokenizer import Roles, Tokenizer

TEXT = "a cat sat.\nThe catalogue"
SENTENCE = "so naïve, a bank"
WORD = Tokenizer.train([SENTENCE] * 3, TokenizerSettings(kind="word"))
CHAR = Tokenizer.train([SENTENCE] * 3, TokenizerSettings(kind="char"))
BYTES = Tokenizer.train([SENTENCE] * 3, TokenizerSettings(kind="bpe", vocab_size=260))


def words_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """The text cut where words begin."""
    first = word_borders(tokenizer).first(np.array([ids]))[0].tolist()
    words: dict[int, str] = dict.fromkeys(first, "")
    for id, place in zip(ids, first, strict=True):
        words[place] += tokenizer.token(id)
    return list(words.values())


def bytes_of() -> Tokenizer:
    return Tokenizer.train([TEXT] * 2, TokenizerSettings(kind="bpe", vocab_size=262), mask=True)


def test_byte_pairs_go_from_blank_to_blank_and_from_line_to_line() -> None:
    tokenizer = bytes_of()
    ids = tokenizer.encode(TEXT)
    assert len(ids) > 8
    assert words_of(tokenizer, ids) == ["a", " cat", " sat.", "\n", "The", " catalogue"]


def test_characters_are_cut_at_blanks() -> None:
    tokenizer = Tokenizer.train([TEXT], TokenizerSettings(kind="char"))
    assert words_of(tokenizer, tokenizer.encode(TEXT)) == ["a", " ", "cat", " ", "sat.", "\n", "The", " ", "catalogue"]


def test_of_words_each_token_is_one() -> None:
    tokenizer = Tokenizer.train([TEXT], TokenizerSettings(kind="word", min_count=1))
    assert words_of(tokenizer, tokenizer.encode(TEXT)) == ["a", "cat", "sat", ".", "\n", "The", "catalogue"]


def test_pieces_that_go_on_belong_to_the_one_before() -> None:
    vocabulary = {name: id for id, name in enumerate(["[UNK]", "cat", "##alog", "##ue", "s", "##at", "."])}
    rust = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    rust.add_special_tokens(["[UNK]"])
    tokenizer = Tokenizer(rust, Roles(unk=0))
    assert words_of(tokenizer, tokenizer.encode("catalogue sat.")) == ["cat##alog##ue", "s##at", "."]


def test_pieces_that_hold_their_blank_begin_there() -> None:
    vocabulary = [("<unk>", 0.0), ("▁cat", -1.0), ("alogue", -1.0), ("▁s", -1.0), ("at", -1.0)]
    rust = tokenizers.Tokenizer(models.Unigram(vocabulary, unk_id=0))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    rust.normalizer = normalizers.NFKC()
    tokenizer = Tokenizer(rust, Roles(unk=0))
    found = words_of(tokenizer, tokenizer.encode("catalogue sat"))
    assert [word.strip() for word in found] == ["catalogue", "sat"]


def test_special_tokens_are_words_of_their_own() -> None:
    tokenizer = bytes_of()
    assert tokenizer.mask is not None
    assert tokenizer.end is not None
    ids = [*tokenizer.encode("cat"), tokenizer.mask, *tokenizer.encode("sat"), tokenizer.end]
    assert words_of(tokenizer, ids) == ["cat", MASK, "sat", "<end>"]


@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_a_mask_is_there_only_when_asked_for_and_never_read_out_of_a_text(kind: str) -> None:
    settings = TokenizerSettings(kind=kind, min_count=1, vocab_size=270)
    without, masked = (Tokenizer.train([TEXT, f"a {MASK} b"], settings, mask=mask) for mask in (False, True))
    assert without.mask is None
    assert masked.mask is not None
    assert masked.mask in masked.specials
    assert masked.token(masked.mask) == MASK
    assert masked.mask not in masked.encode(f"a {MASK} b")
    assert Tokenizer.from_json(masked.to_json()).mask == masked.mask
    assert masked.mask not in masked.texts


@pytest.mark.parametrize("tokenizer", [WORD, CHAR, BYTES], ids=["word", "char", "bytes"])
def test_tokens_of_a_stretch_spell_it(tokenizer: Tokenizer) -> None:
    spans = [(12, 16), (0, 2), (3, 8)]
    ids = tokenizer.encode(SENTENCE)
    for found, (start, end) in zip(tokens_of(spans, SENTENCE, tokenizer), spans, strict=True):
        assert [ids[place] for place in found.positions] == [piece.id for piece in found.pieces]
        spelt = b"".join(tokenizer.token_bytes(ids[place]) for place in found.positions).decode()
        assert spelt.strip() == SENTENCE[start:end]


def test_start_stands_before_all() -> None:
    ids = CHAR.encode(SENTENCE)
    assert CHAR.start is not None
    assert tokens_of([(3, 5)], SENTENCE, CHAR, ids)[0].positions == [3, 4]
    assert tokens_of([(3, 5)], SENTENCE, CHAR, [CHAR.start, *ids])[0].positions == [4, 5]


def test_what_was_cut_off_has_pieces_and_no_places() -> None:
    ids = CHAR.encode(SENTENCE)
    first, second = tokens_of([(0, 2), (3, 8)], SENTENCE, CHAR, [*ids[:7], CHAR.end])
    assert first.positions == [0, 1]
    assert second.positions == []
    assert "".join(piece.text for piece in second.pieces) == "naïve"
    assert tokens_of([(3, 8)], SENTENCE, CHAR, ids[:7])[0].positions == []
    assert tokens_of([(3, 8)], SENTENCE, CHAR, ids[:8])[0].positions == [3, 4, 5, 6, 7]


def test_characters_that_no_token_stands_for() -> None:
    (found,) = tokens_of([(9, 10)], SENTENCE, WORD)
    assert (found.pieces, found.positions) == ([], [])
