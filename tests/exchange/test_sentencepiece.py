"""SentencePiece files as Marian has them: the ids of transformers' MarianTokenizer, and nothing believed unchecked."""

import io
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import MarianTokenizer

from glassformer.config.errors import DataError
from glassformer.exchange.external_model import ExternalTokens
from glassformer.exchange.token_reader import read_tokens
from glassformer.text.sentencepiece import pipeline, read_pieces
from glassformer.text.stream import Stream
from helpers.nasty import NASTY

ENGLISH = "the quick brown fox jumps over a lazy dog it's naïve isn't it 17% of hens saw 3.14 foxes; hello, you? <b> X"
GERMAN = "der schnelle braune Fuchs springt über den faulen Hund, eine kleine Geschichte; Hühner sahen 3,14 Füchse? Ja"
CODES = (">>fra<<", ">>zle_Latn<<")
SIDES = ("source", "target")


def spm(words: str, size: int, **how: object) -> bytes:
    draw = random.Random(size)
    lines = [" ".join(draw.choices(words.split(), k=7)) for _ in range(150)]
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=file, vocab_size=size, minloglevel=2, num_threads=1, **how
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files that differ in their characters too; the vocabulary numbers both in an order of its own."""
    path = tmp_path_factory.mktemp("marian")
    pieces: set[str] = set()
    for side, words, size in (("source", ENGLISH, 109), ("target", GERMAN, 103)):
        data = spm(words, size, hard_vocab_limit=False)
        (path / f"{side}.spm").write_bytes(data)
        held = sentencepiece.SentencePieceProcessor(model_proto=data)
        pieces |= {
            held.id_to_piece(id) for id in range(len(held)) if not held.is_control(id) and not held.is_unknown(id)
        }
    mixed = random.Random(5).sample(sorted(pieces), len(pieces))
    tokens = ["</s>", "<unk>", *mixed, *CODES, "<pad>"]
    (path / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    return path


def config_of(folder: Path) -> dict[str, object]:
    pad = json.loads((folder / "vocab.json").read_text())["<pad>"]
    ids = {"eos_token_id": 0, "pad_token_id": pad, "decoder_start_token_id": pad, "forced_eos_token_id": 0}
    return {"model_type": "marian", "is_encoder_decoder": True, "vocab_size": pad + 1, **ids}


@pytest.fixture(scope="module")
def tokens(folder: Path) -> ExternalTokens:
    return read_tokens(folder, config_of(folder))


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Iterator[MarianTokenizer]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        yield MarianTokenizer.from_pretrained(str(folder))


TEXTS = [
    *NASTY,
    *(f"{CODES[0]}{text}" for text in NASTY[3:30]),
    f"{CODES[1]}  two blanks",
    CODES[0],
    f" {CODES[0]} not at the start",
    f"nor {CODES[0]} here",
    ">>xyz<< an unknown code",
    ">>x\ny<<日本",
    ">>not closed",
    ">><<",
    "Füchse, foxes: über naïve X <b>",
    "\ufdd0>>fra<<\ufdd1 \ufdd0über\ufdd1",
]


@pytest.mark.parametrize("side", SIDES)
def test_the_ids_are_those_of_marians_own_tokenizer(side: str, tokens: ExternalTokens, theirs: MarianTokenizer) -> None:
    ours = tokens.tokenizer if side == "source" else tokens.target_tokenizer
    assert ours is not None
    for text in TEXTS:
        given = {"text": text} if side == "source" else {"text_target": text}
        expected = theirs(**given, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert ours.encode(text) == expected, text


def test_source_and_target_are_cut_differently_with_the_same_ids(tokens: ExternalTokens) -> None:
    target = tokens.target_tokenizer
    assert target is not None
    both = tokens.tokenizer.encode("Füchse foxes"), target.encode("Füchse foxes")
    assert both[0] != both[1]
    for id in range(target.vocab_size):
        assert tokens.tokenizer.token(id) == target.token(id)


def test_what_is_written_is_read_with_the_targets(tokens: ExternalTokens, theirs: MarianTokenizer) -> None:
    target = tokens.target_tokenizer
    assert target is not None
    for text in (GERMAN, "Füchse über Hühner", "foxes, 日本 Ja"):
        ids = [*target.encode(text), 0]
        assert target.decode(ids) == theirs.decode(ids, skip_special_tokens=True, use_source_tokenizer=False)
        stream = Stream(target)
        assert "".join([*map(stream.push, ids), stream.end()]) == target.decode(ids)


def test_what_is_for_what(tokens: ExternalTokens, folder: Path) -> None:
    pad = config_of(folder)["pad_token_id"]
    for tokenizer in (tokens.tokenizer, tokens.target_tokenizer):
        assert tokenizer is not None
        roles = tokenizer.roles
        assert (roles.source, roles.opening, roles.closing) == ((), (pad,), (0,))
        assert (roles.start, roles.end, roles.pad, roles.unk) == (None, 0, pad, 1)
        assert tokenizer.never(tokenizer.vocab_size) == [1, pad]
    assert {file.name for file in tokens.files} == {"vocab.json", "source.spm", "target.spm"}


def test_a_piece_that_the_vocabulary_lacks(folder: Path) -> None:
    """A few were never met when the vocabulary was counted: they are not cut. Many are another model's."""
    pieces = read_pieces(folder / "source.spm")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    last = max(vocabulary, key=vocabulary.__getitem__)
    lost = max((piece for piece in pieces.scores if piece.startswith("▁")), key=len)
    fewer = {**vocabulary}
    fewer[last] = fewer.pop(lost)
    how = {"unknown": "<unk>", "specials": {"<unk>", "</s>"}, "vocabulary_name": "vocab.json"}
    cut = pipeline(pieces, fewer, **how).encode(lost[1:]).tokens
    assert "".join(cut) == lost
    assert len(cut) > 1
    strange = {token if id < 9 else f"{token}x": id for token, id in vocabulary.items()}
    with pytest.raises(DataError, match=r"vocab.json lacks .* and \d+ more pieces of .*source.spm"):
        pipeline(pieces, strange, **how)
    with pytest.raises(DataError, match="does not number its"):
        pipeline(pieces, {**vocabulary, "one more": 900}, **how)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"model_type": "bpe"}, "of kind BPE: only Unigram"),
        ({"model_type": "char"}, "of kind characters"),
        ({"user_defined_symbols": ["<special>"]}, "chosen by hand .'<special>'."),
        ({"byte_fallback": True, "hard_vocab_limit": False}, "single bytes"),
        ({"treat_whitespace_as_suffix": True}, "blanks in another way"),
    ],
)
def test_other_kinds_are_refused_by_name(how: dict[str, object], says: str, tmp_path: Path) -> None:
    size = 330 if "byte_fallback" in how else 47 if how.get("model_type") == "char" else 80
    (tmp_path / "source.spm").write_bytes(spm(ENGLISH, size, **{"hard_vocab_limit": False, **how}))
    with pytest.raises(DataError, match=f"source.spm.*{says}"):
        read_pieces(tmp_path / "source.spm")


def test_without_a_blank_before_and_with_blanks_kept(tmp_path: Path) -> None:
    data = spm(
        ENGLISH, 90, hard_vocab_limit=False, add_dummy_prefix=False, remove_extra_whitespaces=False,
        normalization_rule_name="identity",
    )  # fmt: skip
    (tmp_path / "source.spm").write_bytes(data)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    names = [theirs.id_to_piece(id) for id in range(len(theirs))]
    how = {"unknown": "<unk>", "specials": {"<unk>", "<s>", "</s>"}, "vocabulary_name": "vocab.json"}
    made = pipeline(read_pieces(tmp_path / "source.spm"), {name: id for id, name in enumerate(names)}, **how)
    for text in ("the  quick ", " fox", "hello,  you? "):
        assert made.encode(text).ids == theirs.encode(text), text


def test_a_root_that_says_it_is_a_leaf_is_damage(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "source.spm").read_bytes()
    rules = read_pieces(folder / "source.spm").folding
    damaged = rules[:7] + bytes([rules[7] ^ 0xB2]) + rules[8:]
    (tmp_path / "source.spm").write_bytes(whole.replace(rules, damaged))
    with pytest.raises(DataError, match="damaged"):
        read_pieces(tmp_path / "source.spm")


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_one_line(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed, lost or put in between: a tokenizer comes of it, or one clear line."""
    whole = bytearray((folder / "source.spm").read_bytes())
    place = data.draw(st.one_of(st.integers(0, 1500), st.integers(0, len(whole) - 1)))
    match data.draw(st.sampled_from(["change", "lose", "insert", "end"])):
        case "change":
            whole[place] ^= data.draw(st.integers(1, 255))
        case "lose":
            del whole[place : place + data.draw(st.integers(1, 9))]
        case "insert":
            whole[place:place] = data.draw(st.binary(min_size=1, max_size=12))
        case "end":
            del whole[place:]
    path = tmp_path / "source.spm"
    path.write_bytes(whole)
    try:
        pieces = read_pieces(path)
        vocabulary = {token: id for id, token in enumerate(dict.fromkeys(["<unk>", *pieces.scores]))}
        made = pipeline(pieces, vocabulary, unknown="<unk>", specials={"<unk>"}, vocabulary_name="vocab.json")
    except DataError as error:
        said = str(error)
    else:
        said = f"{path}"
        made.encode("hello foxes ½ ﬁ Å é ㍿ 漢字 \u0344 ①")
    assert str(path) in said
    assert "\n" not in said
