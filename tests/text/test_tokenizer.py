"""Tokenizers: nothing is lost on the way to ids and back, whatever the text and however it comes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, normalizers

from glassformer.config.errors import DataError, GlassformerError
from glassformer.config.limits import LimitExceeded
from glassformer.config.messages import listening
from glassformer.config.sections import TokenizerSettings
from glassformer.text.analysis import compare_tokenizers, learned_merges
from glassformer.text.pieces import BATCH, PIECE, few_distinct, pieces, sampled
from glassformer.text.stream import Stream
from glassformer.text.tokenizer import Tokenizer

STORY = (
    "It's a “small” story (about naïve foxes), isn't it?\n\n\tThe fox saw 17% of the hens; the hens saw the fox!\n"
    "Le garçon lit : ça va… 漢字とかな 🙂👩‍👩‍👧 don't [stop] {now}. The other fox, the third, and the rest there.\n"
)
KINDS = ("char", "word", "bpe")


def trained(kind: str, texts: Iterable[str] = (STORY,) * 3, **settings: object) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerSettings(kind=kind, **settings))  # type: ignore[arg-type]


CHAR, WORD, BPE = tokenizers_of_all_kinds = tuple(trained(kind) for kind in KINDS)
every_kind = pytest.mark.parametrize("tokenizer", tokenizers_of_all_kinds, ids=KINDS)

any_text = st.text()  # hypothesis leaves surrogates out
seen_text = st.text(st.sampled_from(sorted(set(STORY))))
story_like = st.lists(st.sampled_from(re.findall(r"\s|\w+|[^\w\s]", STORY))).map("".join)


def streamed(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    stream = Stream(tokenizer)
    return "".join([*(stream.push(id) for id in ids), stream.end()])


# There and back


@given(any_text)
def test_bpe_gives_any_text_back(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@every_kind
def test_a_tokenizer_is_called_with_a_text_or_with_several(tokenizer: Tokenizer) -> None:
    """START and END stand around each, as where a model reads them; decoding gives the texts back."""
    texts = ["The fox saw the hens", "", "the rest"]
    alone = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode(texts) == tokenizer.encode(tuple(texts)) == alone
    framed = [[tokenizer.start, *ids, tokenizer.end] for ids in alone]
    assert tokenizer(texts) == [tokenizer(text) for text in texts] == framed
    assert [tokenizer.decode(ids) for ids in framed] == [tokenizer.decode(ids) for ids in alone]
    pieces = tokenizer.encode_with_offsets(texts[0], framed=True)
    assert [piece.id for piece in pieces] == framed[0]
    assert [(piece.text, piece.start, piece.end) for piece in (pieces[0], pieces[-1])] == [
        ("<start>", 0, 0),
        ("<end>", 20, 20),
    ]


@pytest.mark.parametrize("call", [BPE, BPE.encode], ids=["call", "encode"])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [(None, "not None"), (7, "not an int"), ({"a": "b"}, "not a dict"), (["a", 7], "not an int")],
)
def test_what_is_no_text_is_refused(call: Any, wrong: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        call(wrong)


@given(seen_text)
def test_characters_give_seen_text_back(text: str) -> None:
    ids = CHAR.encode(text)
    assert len(ids) == len(text)
    assert CHAR.decode(ids) == text


def test_an_unknown_character_is_one_unknown_token_each() -> None:
    assert CHAR.unk is not None
    f, x = CHAR.encode("fx")
    assert CHAR.encode("fЖЖx") == [f, CHAR.unk, CHAR.unk, x]
    assert CHAR.decode(CHAR.encode("fЖЖx")) == "fx"


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("It's a fox, isn't it?\n\n\tThe  fox!", "It's a fox, isn't it?\n\nThe fox!"),
        ("(about) [stop] {now} 17%", "(about) [stop] {now} 17%"),
        ("“small” ; :", "“small”;:"),
        ("the\n , fox", "the\n, fox"),
        ("the elephant fox", "the fox"),
        ("   ", ""),
    ],
)
def test_words_are_joined_as_they_are_written(text: str, back: str) -> None:
    assert WORD.decode(WORD.encode(text)) == back


def test_what_a_word_is() -> None:
    text = "Don’t rock'n'roll, snake_case 3.5%\n\nहिन्दी -x"
    tokenizer = trained("word", [text])
    words = ["Don’t", "rock'n'roll", ",", "snake_case", "3", ".", "5", "%", "\n", "\n", "हिन्दी", "-", "x"]
    assert [piece.text for piece in tokenizer.encode_with_offsets(text)] == words


@every_kind
def test_a_long_text_is_cut_where_nothing_changes(tokenizer: Tokenizer) -> None:
    text = STORY * (2 * PIECE // len(STORY) + 3)
    whole = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    whole.encode_special_tokens = True
    assert len(list(pieces(text, slack=PIECE))) > 1
    assert tokenizer.encode(text) == whole.encode(text).ids


SPACED = trained("bpe", [" " * run + "a\n" * run + "\t" * run + "b" for run in range(1, 9)] * 3)  # merges of blanks


@pytest.mark.slow
@given(st.text(" \n\ta.'s", min_size=1))
@example("  ")
def test_blanks_of_all_kinds_may_stand_at_a_cut(blanks: str) -> None:
    text = "x" * (PIECE - 3) + " " + blanks * 3 + "y"
    whole = tokenizers.Tokenizer.from_str(SPACED.to_json())
    assert SPACED.encode(text) == whole.encode(text).ids


@pytest.mark.sample(3)
@every_kind
def test_a_batch_is_its_texts(tokenizer: Tokenizer) -> None:
    texts = [STORY, "", "the fox", STORY * (BATCH // len(STORY) + 2), " "]
    batch = tokenizer.encode_batch(texts)
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(batch) == [tokenizer.decode(ids) for ids in batch]
    assert tokenizer.encode_batch([]) == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1, 2], [3]], r"decode takes the ids of one text, .*decode_batch: of several texts.*, not \[1, 2\]"),
        (np.array([[1, 2]]), "decode_batch: of several"),
        (torch.tensor([[1, 2]]), "decode_batch: of several"),
        (["a"], "not 'a'"),
        ("ab", "not 'a'"),
        ([0.5], "not 0.5"),
        ([-1], "not -1"),
        ([2**70], "not 1180591620717411303424"),
        ([10**9], "from 0 to .*, not 1000000000"),
        ([True], "from 0 to .*, not True"),
        (7, "put a single id into a list"),
        (np.array(7), "put a single id into a list"),
    ],
)
def test_ids_that_are_none_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        BPE.decode(ids)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([[1], 7], "not an int: put a single id into a list"),
        (np.array([5, 7]), "not an int64: put a single id into a list"),
        (torch.tensor([5, 7]), "not a Tensor: put a single id into a list"),
        ([[1], [[2]]], r"from 0 to .*, not \[2\]"),
        ([[1], [10**9]], "from 0 to .*, not 1000000000"),
        ([[1], [-1]], "from 0 to .*, not -1"),
    ],
)
def test_batches_of_ids_that_are_none_are_refused(batch: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        BPE.decode_batch(batch)


def test_ids_in_arrays_are_decoded() -> None:
    ids = BPE.encode("the fox")
    for array in (ids, tuple(ids), iter(ids), np.array(ids), torch.tensor(ids)):
        assert BPE.decode(array) == "the fox"
    for batch in (np.array([ids]), torch.tensor([ids]), iter([ids])):
        assert BPE.decode_batch(batch) == ["the fox"]


@every_kind
def test_half_a_character_is_refused(tokenizer: Tokenizer) -> None:
    for ask in (tokenizer.encode, tokenizer.encode_with_offsets, lambda text: trained(tokenizer.kind, [text])):
        with pytest.raises(DataError, match="half a character"):
            ask("a \ud83d b")


# Special tokens


@every_kind
def test_special_tokens_come_first_and_are_never_read_from_a_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    names = ["<pad>", "<start>", "<end>"] + ["<unk>"] * (tokenizer.kind != "bpe")
    assert [tokenizer.token(id) for id in range(len(names))] == names
    ids = [tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unk]
    assert ids == ([0, 1, 2, None] if tokenizer.kind == "bpe" else [0, 1, 2, 3])
    text = "".join(names) + " <pad>"
    learned = trained(tokenizer.kind, [text * 9])
    learned.save(tmp_path / "tokenizer.json")
    for same in (learned, Tokenizer.load(tmp_path / "tokenizer.json")):
        for found in (same.encode(text), [piece.id for piece in same.encode_with_offsets(text)]):
            assert not set(found) & set(same.specials)
        if same.kind != "word":
            assert same.decode(same.encode(text)) == text


@every_kind
def test_decoding_leaves_special_tokens_out(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the fox")
    assert tokenizer.decode([1, *ids[:1], 0, *ids[1:], 2, 0, 0]) == "the fox"
    assert streamed(tokenizer, [1, *ids[:1], 0, *ids[1:], 2, 0, 0]) == "the fox"


# Places in the text


@pytest.mark.parametrize("tokenizer", [CHAR, WORD], ids=["char", "word"])
@given(text=story_like)
def test_a_piece_is_what_stands_at_its_place(tokenizer: Tokenizer, text: str) -> None:
    found = tokenizer.encode_with_offsets(text)
    assert [piece.id for piece in found] == tokenizer.encode(text)
    for piece in found:
        assert text[piece.start : piece.end] == piece.text or piece.id == tokenizer.unk


@given(any_text)
def test_bpe_pieces_cover_the_text(text: str) -> None:
    found = BPE.encode_with_offsets(text)
    assert [piece.id for piece in found] == BPE.encode(text)
    assert {place for piece in found for place in range(piece.start, piece.end)} == set(range(len(text)))
    for piece in found:
        if "\\x" not in piece.text:
            assert text[piece.start : piece.end] == piece.text


def test_places_are_those_of_the_original_though_it_is_folded() -> None:
    text = "The İ FOX"
    for kind in ("char", "word"):
        tokenizer = trained(kind, [text], lowercase=True)
        last = tokenizer.encode_with_offsets(text)[-1]
        assert text[last.start : last.end].lower() == last.text
        assert tokenizer.unk not in tokenizer.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == "the i̇ fox"


# Display


def test_a_token_is_shown_as_its_text() -> None:
    assert BPE.token(BPE.encode(" the fox")[0]) == " the"
    assert [BPE.token(id) for id in trained("bpe", ["a"]).encode("é\n")] == ["\\xc3", "\\xa9", "\n"]
    assert WORD.token(WORD.encode("\n")[0]) == "\n"
    with pytest.raises(IndexError, match=str(len(BPE))):
        BPE.token(len(BPE))


def test_merges_are_readable() -> None:
    tokenizer = trained("bpe", ["the the the the"], vocab_size=262)
    assert learned_merges(tokenizer) == [("h", "e"), ("t", "he"), (" ", "the")]
    assert learned_merges(WORD) == []


# Training


@pytest.mark.parametrize(("kind", "size"), [("char", 11), ("word", 17), ("bpe", 263)])
def test_the_vocabulary_has_the_size_asked_for(kind: str, size: int) -> None:
    assert len(trained(kind, vocab_size=size)) == size
    tokenizer = trained(kind)
    ids = [id for ids in tokenizer.encode_batch([STORY]) for id in ids]
    assert max(ids) < len(tokenizer) == tokenizer.vocab_size


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_most_frequent_are_kept_and_ties_are_in_order(kind: str) -> None:
    text = "b d a c d d c"
    tokenizer = trained(kind, [text.replace(" ", "") if kind == "char" else text], vocab_size=7)
    assert [tokenizer.token(id) for id in range(4, 7)] == ["d", "c", "a"]
    fewer = trained(kind, [text], min_count=3)
    assert [fewer.token(id) for id in range(4, len(fewer))] == ([" ", "d"] if kind == "char" else ["d"])


@pytest.mark.sample(3)
@every_kind
def test_the_same_text_gives_the_same_tokenizer_in_another_process(tokenizer: Tokenizer) -> None:
    assert trained(tokenizer.kind).hash == tokenizer.hash
    program = (
        "import sys; from glassformer.text.tokenizer import Tokenizer, TokenizerSettings as S;"
        "print(Tokenizer.train([sys.argv[1]] * 3, S(kind=sys.argv[2])).hash)"
    )
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", program, STORY, tokenizer.kind],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == tokenizer.hash
        assert run.stderr == ""


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_gives_no_tokenizer(kind: str) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(DataError, match="no tokens"):
            trained(kind, texts)
    if kind != "bpe":
        with pytest.raises(DataError, match="at least 999"):
            trained(kind, min_count=999)


def test_words_are_none_where_there_are_only_blanks() -> None:
    with pytest.raises(DataError, match="no word"):
        trained("word", [" \t "])


# Sampling


def test_a_sample_is_bounded_and_spread_evenly() -> None:
    said: list[str] = []
    texts = [f"{number:03d} " * PIECE for number in range(100)]
    total = sum(map(len, texts))
    with listening(said.append):
        taken = list(sampled(iter(texts), total // 7, total))
    assert 0.95 * total // 7 <= sum(map(len, taken)) <= total // 7
    numbers = sorted({int(piece[:4]) for piece in taken})
    assert numbers[0] == 0
    assert numbers[-1] >= 97
    assert max(b - a for a, b in pairwise(numbers)) <= 3
    assert len(said) == 1


def test_a_sample_of_unknown_length_is_the_beginning_and_reads_no_further() -> None:
    said: list[str] = []
    texts = iter([f"{number:03d} " * PIECE for number in range(100)])
    with listening(said.append):
        taken = "".join(sampled(texts, 10 * 4 * PIECE, None))
    assert taken == "".join(f"{number:03d} " * PIECE for number in range(10))
    assert next(texts).startswith("011")
    assert len(said) == 1


def test_a_small_text_is_taken_whole_and_in_silence() -> None:
    said: list[str] = []
    text = "x" * (5 * PIECE) + " the end"
    with listening(said.append):
        assert "".join(sampled([text, "", STORY], 10**6, None)) == text + STORY
    with listening(said.append):
        assert "".join(sampled([text, "", STORY], 10**6, 10**6)) == text + STORY
    assert said == []


def test_bpe_stops_before_there_are_too_many_distinct_words() -> None:
    said: list[str] = []
    repeated = ["the fox"] * 50
    fresh = [f"{number:07d}" for number in range(50)]
    with listening(said.append):
        assert list(few_distinct(repeated + fresh, 20 * 7)) == repeated + fresh[:19]
    assert len(said) == 1
    with listening(said.append):
        assert list(few_distinct(repeated + fresh, 51 * 7)) == repeated + fresh
    assert len(said) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
def test_training_obeys_the_sample(kind: str) -> None:
    said: list[str] = []
    texts = ["a " * 600_000, "z " * 600_000]
    settings = TokenizerSettings(kind=kind, sample_mb=1)
    with listening(said.append):
        first = Tokenizer.train(iter(texts), settings)
    with listening(said.append):
        spread = Tokenizer.train(iter(texts), settings, total_bytes=2_400_000)
    if kind != "bpe":
        assert first.encode("z") == [first.unk]
        assert spread.encode("z") != [spread.unk]
    assert first.hash != spread.hash
    assert ["first 1 MB" in line for line in said] == [True, False]


# Files


@every_kind
def test_a_tokenizer_survives_its_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("an older one")
    tokenizer.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    loaded = Tokenizer.load(path)
    named = Tokenizer.train([], TokenizerSettings(file=str(path)))
    for same in (loaded, named, Tokenizer.from_json(tokenizer.to_json())):
        assert (same.hash, same.kind, len(same)) == (tokenizer.hash, tokenizer.kind, len(tokenizer))
        assert same.encode(STORY) == tokenizer.encode(STORY)
        assert same.decode(same.encode(STORY)) == tokenizer.decode(tokenizer.encode(STORY))


def test_what_differs_has_another_hash() -> None:
    all_of_them = [CHAR, WORD, BPE, trained("char", lowercase=True), trained("bpe", vocab_size=263)]
    assert len({tokenizer.hash for tokenizer in all_of_them}) == len(all_of_them)


@pytest.mark.parametrize("failing", [(Path, "write_text"), (os, "replace")], ids=["writing", "replacing"])
def test_a_failed_save_leaves_the_old_file(
    failing: tuple[object, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    path = tmp_path / "tokenizer.json"
    CHAR.save(path)
    monkeypatch.setattr(*failing, full)
    with pytest.raises(OSError, match="disk full"):
        WORD.save(path)
    assert Tokenizer.load(path).kind == "char"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"null", b"hello", b'{"version": "1.0"}', b"\xff\xfe\x00", BPE.to_json().encode()[:-300]],
    ids=["empty", "no model", "null", "text", "no parts", "no text", "cut off"],
)
def test_a_damaged_file_is_named_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(GlassformerError, match=re.escape(str(path))) as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match=re.escape(str(path))):
            Tokenizer.load(path)


def test_a_tokenizer_made_elsewhere() -> None:
    rust = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0, "fox": 1, "##es": 2, "the": 9}))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rust.decoder = tokenizers.decoders.WordPiece()
    rust.enable_truncation(2)
    rust.enable_padding(length=7)
    tokenizer = Tokenizer.from_json(rust.to_str())
    assert tokenizer.kind == "other"
    assert (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unk) == (None, None, None, None)
    assert len(tokenizer) == 10
    assert tokenizer.encode("the foxes the foxes") == [9, 1, 2, 9, 1, 2]
    assert streamed(tokenizer, [9, 1, 2, 9, 1, 2]) == tokenizer.decode([9, 1, 2, 9, 1, 2]) == "the foxes the foxes"


# Streams


@every_kind
@given(data=st.data())
def test_a_stream_is_decoding(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=40))
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)
    ids = tokenizer.encode(data.draw(any_text))
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)


def test_a_stream_gives_whole_characters_as_soon_as_it_can() -> None:
    single = trained("bpe", ["a"])
    stream = Stream(single)
    assert [stream.push(id) for id in single.encode("a漢!")] == ["a", "", "", "漢", "!"]
    assert [stream.push(id) for id in single.encode("漢")[:2]] == ["", ""]
    assert stream.end() == "\ufffd"
    assert stream.push(single.encode("b")[0]) == "b"


@every_kind
def test_a_stream_decodes_only_what_is_recent(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tokenizer.encode(STORY * 20)
    text = tokenizer.decode(ids)
    decode, longest = Tokenizer.decode, 0

    def watched(self: Tokenizer, ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(self, ids)

    monkeypatch.setattr(Tokenizer, "decode", watched)
    assert streamed(tokenizer, ids) == text
    assert longest <= 8


def test_replacement_characters_in_the_text_do_not_hold_a_stream_up() -> None:
    tokenizer = trained("char", ["\ufffda"])
    stream = Stream(tokenizer)
    pushed = [stream.push(id) for id in tokenizer.encode("\ufffd" * 50)]
    assert len("".join(pushed)) >= 46
    assert "".join(pushed) + stream.end() == "\ufffd" * 50


# Verbs


@pytest.mark.parametrize("lines", [True, False], ids=["one text", "many texts"])
def test_comparing_measures_on_what_was_held_out(lines: bool) -> None:
    texts = [f"the fox saw {'cats' if number % 10 == 1 else 'dogs'}\n" for number in range(40)]
    given_texts = ["".join(texts)] if lines else texts
    char, word, bpe = compare_tokenizers(lambda: given_texts, [TokenizerSettings(kind=kind) for kind in KINDS])
    assert (char.kind, word.kind, bpe.kind) == KINDS
    assert (char.tokens, word.tokens) == (4 * 17, 4 * 5)  # four texts are held out
    assert (char.tokens_per_word, word.tokens_per_word) == (17 / 4, 5 / 4)
    assert (char.bytes_per_token, word.bytes_per_token) == (1.0, 17 / 5)
    assert (char.unknown_rate, word.unknown_rate, bpe.unknown_rate) == (1 / 17, 1 / 5, 0.0)  # c; cats
    assert word.vocab_size == 4 + 5
    assert bpe.tokens < char.tokens


def test_comparing_needs_more_than_one_line() -> None:
    for texts in ([], ["one line"], ["\n \n"]):
        with pytest.raises(DataError):
            compare_tokenizers(lambda texts=texts: texts, [TokenizerSettings(kind="char")])  # type: ignore[misc]


# --- words, fast ---


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60), st.booleans())
def test_words_cut_between_blanks_are_the_pipelines(text: str, lowercase: bool) -> None:
    """Whatever the characters: the pipeline itself, asked for the whole text, gives the same ids."""
    known = ["Straße don't ’tis naïve a_b 1,000 x\ty\nΣΑΣ İstanbul e\u0301te\u0301", text]
    tokenizer = Tokenizer.train(known, TokenizerSettings(kind="word", lowercase=lowercase))
    for one in (*known, f" {text}  {text} ", f"new {text}"):
        assert tokenizer.encode(one) == tokenizer._rust.encode(one, add_special_tokens=False).ids


def test_a_word_tokenizer_made_elsewhere_keeps_its_own_words() -> None:
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "don't!": 1}, unk_token="<unk>"))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\S+"), "removed", invert=True)
    rust.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Fuse()])
    tokenizer = Tokenizer(rust)
    assert tokenizer.kind == "other"
    assert tokenizer.encode("don't! stop") == [1, 0]


@pytest.mark.slow
def test_replacements_that_make_a_text_without_end() -> None:
    grow = normalizers.Sequence([normalizers.Replace("a", "a" * 10) for _ in range(10)])
    rust = tokenizers.Tokenizer(models.WordLevel({"b": 0, "<unk>": 1}, unk_token="<unk>"))
    rust.normalizer = grow
    tokenizer = Tokenizer.from_json(rust.to_str())
    assert tokenizer.encode("b") == [0]
    for encode in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(LimitExceeded, match="and more of a text of 1 characters, more than"):
            encode("a")
    rust.normalizer = normalizers.Sequence([normalizers.Replace(Regex("(?=b)"), "b") for _ in range(40)])
    with pytest.raises(LimitExceeded, match="the tokenizer makes"):
        Tokenizer.from_json(rust.to_str()).encode("b")
    rust.normalizer = None
    rust.decoder = decoders.Sequence([decoders.Replace("b", "b" * 10) for _ in range(10)])
    with pytest.raises(DataError, match="its decoder makes far more text of each token than it is"):
        Tokenizer.from_json(rust.to_str())
