"""Tokenizers made elsewhere: the same ids as transformers', special tokens never out of a text, pieces that join."""

import functools
import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from glassformer.config.errors import DataError
from glassformer.text.external_pipeline import CLOSE, OPEN
from glassformer.text.stream import Stream
from glassformer.text.tokenizer import Tokenizer
from helpers.nasty import NASTY
from helpers.pipelines_elsewhere import PIPELINES, reference, unigram

MADE = {name: build() for name, build in PIPELINES.items()}


@functools.cache
def tokenizer_of(name: str) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(MADE[name].to_str()))


every = pytest.mark.parametrize("name", MADE)


@every
def test_the_ids_are_those_of_transformers(name: str) -> None:
    theirs = reference(MADE[name])
    ours = tokenizer_of(name)
    assert ours.kind == "other"
    special = set(theirs.all_special_tokens) | {token.content for token in ours.special_tokens.values()}
    for text in NASTY:
        if not any(token in text for token in special):
            assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text


def unknown(tokenizer: Tokenizer) -> set[int]:
    return {id for id, token in tokenizer.special_tokens.items() if token.content in ("[UNK]", "<unk>")}


@every
def test_special_tokens_are_never_read_out_of_a_text(name: str) -> None:
    tokenizer = tokenizer_of(name)
    for id, token in tokenizer.special_tokens.items():
        if id in unknown(tokenizer):
            continue
        for text in (token.content, f"a{token.content}b", f" {token.content} ", f"{OPEN}{token.content}{CLOSE}"):
            assert tokenizer.specials.isdisjoint(set(tokenizer.encode(text)) - unknown(tokenizer)), text
            assert [piece.id for piece in tokenizer.encode_with_offsets(text)] == tokenizer.encode(text)


def test_a_word_that_is_spelt_like_a_special_token_is_unknown() -> None:
    rust = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "[MASK]": 1, "a": 2}, unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["[UNK]", "[MASK]"])
    assert Tokenizer(rust).encode("a [MASK] a") == [2, 0, 2]


@every
def test_piece_by_piece_is_the_whole(name: str) -> None:
    tokenizer = tokenizer_of(name)
    for text in NASTY:
        ids = tokenizer.encode(text)
        stream = Stream(tokenizer)
        assert "".join([*map(stream.push, ids), stream.end()]) == tokenizer.decode(ids), text


@every
@settings(max_examples=40)
@given(data=st.data())
def test_whatever_a_model_writes(name: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(name)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    stream = Stream(tokenizer)
    assert "".join([*map(stream.push, ids), stream.end()]) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", ["bytes whole", "bytes split"])
def test_tokens_are_bytes_whatever_the_split(name: str) -> None:
    tokenizer = tokenizer_of(name)
    for text in NASTY:
        composed = tokenizer.decode(tokenizer.encode(text))
        assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))) == composed.encode()
    (blank,) = {tokenizer.token(id)[0] for id in tokenizer.encode(" the quick")[:1]}
    assert blank == " "
    assert {r"\xf0", "\n"} <= {tokenizer.token(id) for id in range(tokenizer.vocab_size)}


def test_places_hold_the_blanks_that_tokens_hold() -> None:
    pieces = tokenizer_of("bytes split").encode_with_offsets("over the lazy dogs")
    assert all("over the lazy dogs"[piece.start : piece.end] == piece.text for piece in pieces)


def test_tokens_as_a_person_reads_them() -> None:
    tokenizer = tokenizer_of("word pieces")
    names = [tokenizer.token(id) for id in tokenizer.encode("jumping quickest")]
    assert any(name.startswith("##") for name in names)
    assert b"".join(tokenizer.token_bytes(id) for id in tokenizer.encode("jumping quickest")) == b"jumpingquickest"
    assert tokenizer.decode(tokenizer.encode("Jumping dogs, jumping!")) == "jumping dogs, jumping!"
    tokenizer = tokenizer_of("unigram")
    assert "".join(map(tokenizer.token, tokenizer.encode("the quick dogs"))) == " the quick dogs"
    tokenizer = tokenizer_of("byte fallback")
    assert [tokenizer.token(id) for id in tokenizer.encode("dogsé")][-2:] == [r"\xc3", r"\xa9"]
    assert tokenizer.decode(tokenizer.encode("dogsé")) == "dogsé"


def test_a_stretch_that_does_not_begin_a_text_has_no_blank_before_it() -> None:
    rust = unigram("first")
    tokenizer = Tokenizer(rust)
    end = rust.token_to_id("</s>")
    theirs = reference(rust)
    for text in ("the dogs</s>jumped</s> over", "</s>the dogs</s>"):
        cut = [end if part == "</s>" else part for part in text.replace("</s>", "\0</s>\0").split("\0") if part]
        assert tokenizer.encode_around(cut) == theirs(text, add_special_tokens=False)["input_ids"]


def test_what_rust_gives_up_on_is_one_line() -> None:
    spec = json.loads(MADE["unigram"].to_str())
    spec["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    with pytest.raises(DataError, match="no tokenizer"):
        Tokenizer.from_json(json.dumps(spec))
