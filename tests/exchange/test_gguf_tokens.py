"""Tokenizers inside GGUF files cut a text as those they were made from."""

from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from glassformer.config.errors import DataError
from glassformer.exchange.gguf_reader import read_gguf
from glassformer.families.load import load_for
from glassformer.text.tokenizer import Roles, Tokenizer
from glassformer.verbs.exchange import export, import_model
from helpers.gguf_files import SPECIALS, WORDS, Values, byte_pairs, pieces, tiny, write
from helpers.nasty import NASTY

LEARNED = WORDS - len(SPECIALS) - 1
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def written(tmp_path: Path, tokens: Values, kind: str = "llama", **changed: Any) -> Tokenizer:
    write(tmp_path / "tiny.gguf", tiny(kind), tokens | changed)
    return read_gguf(tmp_path / "tiny.gguf").tokens.tokenizer


def theirs(folder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder, gguf_file="tiny.gguf")


def plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """As a reader that takes special tokens for text."""
    return tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)


# Byte pairs


@pytest.mark.parametrize("pre", ["gpt-2", "default"])
def test_gpt_2s_pairs_are_those_of_transformers(tmp_path: Path, pre: str) -> None:
    ours = written(tmp_path, byte_pairs(pre))
    reference = theirs(tmp_path)
    for text in NASTY:
        if "<think>" not in text:  # a user's own token, which transformers does not read out of these files
            assert ours.encode(text) == plain(reference, text), text
        assert ours.decode(ours.encode(text)) == text


def test_qwens_pairs_are_those_of_transformers(tmp_path: Path) -> None:
    ours = written(tmp_path, byte_pairs("qwen2"), "qwen3")
    reference = theirs(tmp_path)
    for text in NASTY:
        if "<think>" not in text:
            assert ours.encode(text) == plain(reference, text), text


@pytest.mark.parametrize(("pre", "patterns"), [("smollm", [r"\p{N}", GPT2]), ("llama-bpe", [LLAMA3])])
def test_merges_stay_within_the_stretches_of_the_patterns(tmp_path: Path, pre: str, patterns: list[str]) -> None:
    """transformers takes GPT-2's pattern whatever the file names, so it is given the stretches one by one."""
    ours = written(tmp_path, byte_pairs(pre))
    reference = theirs(tmp_path)
    reference.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    differs = 0
    for text in NASTY:
        if "<think>" in text:
            continue
        stretches = [text]
        for pattern in patterns:
            stretches = [piece for one in stretches for piece in cut(pattern, one)]
        assert ours.encode(text) == [id for one in stretches for id in plain(reference, one)], text
        differs += ours.encode(text) != [id for one in cut(GPT2, text) for id in plain(reference, one)]
    assert differs  # or these texts could not tell the patterns apart


def cut(pattern: str, text: str) -> list[str]:
    """The matches and what lies between them."""
    return [piece for piece in regex.split(f"({pattern})", text) if piece]


def test_llama_3_takes_a_stretch_that_is_a_token_whole(tmp_path: Path) -> None:
    tokens = byte_pairs("llama-bpe")
    tokens["tokens"][LEARNED - 1] = "Ġzzzz"
    tokens["merges"].pop()
    assert written(tmp_path, tokens).encode("a zzzz")[1:] == [LEARNED - 1]
    assert len(written(tmp_path, tokens, pre="gpt-2").encode("a zzzz")) > 2


def test_special_tokens_are_text_and_a_users_tokens_are_read(tmp_path: Path) -> None:
    ours = written(tmp_path, byte_pairs())
    assert ours.specials == {LEARNED, LEARNED + 1, LEARNED + 2}
    assert not ours.specials & set(ours.encode("<|im_start|>user<|end|>"))
    assert ours.encode("<think>") == [WORDS - 1]
    assert ours.decode([WORDS - 1, LEARNED]) == "<think>"


# SentencePiece


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_are_those_of_sentencepiece_and_of_transformers(tmp_path: Path, prefix: bool) -> None:
    tokens, own = pieces(tmp_path, prefix)
    ours = written(tmp_path, tokens)
    reference = theirs(tmp_path)
    for text in NASTY:
        ids = ours.encode(text)
        assert ids == own.encode(text), text
        assert ids == plain(reference, text), text
        if "▁" not in text:
            assert ours.decode(ids) == text


def test_scores_decide_whatever_the_order_of_the_pieces(tmp_path: Path) -> None:
    tokens, own = pieces(tmp_path)
    lists = ("tokens", "scores", "token_type")
    ours = written(tmp_path, tokens | {key: tokens[key][:3] + tokens[key][:2:-1] for key in lists})
    backwards = [*tokens["tokens"][:3], *tokens["tokens"][:2:-1]]
    for text in NASTY:
        assert [backwards[id] for id in ours.encode(text)] == [own.id_to_piece(id) for id in own.encode(text)], text


def test_a_files_pieces_without_their_kinds(tmp_path: Path) -> None:
    tokens, _ = pieces(tmp_path)
    whole, bare = written(tmp_path, tokens), written(tmp_path, tokens, token_type=None)
    assert bare.encode("The quick brown fox") == whole.encode("The quick brown fox")
    assert bare.specials == whole.specials == {0, 1, 2}


# What is for what


def test_roles_of_byte_pairs(tmp_path: Path) -> None:
    tokens = byte_pairs()
    end, start, turn = LEARNED, LEARNED + 1, LEARNED + 2
    assert written(tmp_path, tokens).roles == Roles(end=end, stops=(turn,))
    opened = written(tmp_path, tokens, add_bos_token=True, add_eos_token=True, padding_token_id=end)
    assert opened.roles == Roles(pad=end, start=start, end=end, opening=(start,), closing=(end,), stops=(turn,))
    assert opened._rust.encode("").ids == [start, end]
    assert written(tmp_path, byte_pairs("llama-bpe")).start == start
    assert written(tmp_path, byte_pairs("llama-bpe"), add_bos_token=False).start is None


def test_roles_of_pieces(tmp_path: Path) -> None:
    tokens, _ = pieces(tmp_path)
    assert written(tmp_path, tokens).roles == Roles(start=1, end=2, unk=0, opening=(1,))
    assert written(tmp_path, tokens, add_bos_token=False).roles == Roles(end=2, unk=0)


def test_no_byte_is_unknown_whatever_token_a_file_names_for_it(tmp_path: Path) -> None:
    ours = written(tmp_path, byte_pairs(), unknown_token_id=LEARNED)
    assert ours.unk is None
    tokens, _ = pieces(tmp_path)
    assert written(tmp_path, tokens, unknown_token_id=None).unk == 0  # known by its kind


def test_a_chat_template_comes_along_and_its_names_of_tokens(tmp_path: Path) -> None:
    said = {"tokenizer.chat_template": "{{ messages }}"}
    write(tmp_path / "tiny.gguf", tiny(), byte_pairs(), values=said)
    found = read_gguf(tmp_path / "tiny.gguf")
    assert found.tokens.chat_template == "{{ messages }}"
    assert found.tokens.tokenizer.start is None
    assert found.tokens.specials == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|end|>",
    }  # though no text begins with the one


def test_a_chat_goes_out_as_it_came_in(tmp_path: Path) -> None:
    template = "{{ bos_token }}{% for message in messages %}{{ message.content + eos_token }}{% endfor %}"
    write(tmp_path / "tiny.gguf", tiny(), byte_pairs(), values={"tokenizer.chat_template": template})
    run = import_model(tmp_path / "tiny.gguf", tmp_path / "run")
    export(run, to="hf", folder=tmp_path / "hf")
    talk = [{"role": "user", "content": "The quick fox"}]
    ids = load_for("generate", run, "cpu").stream_chat(talk).ids
    assert (ids[0], ids[-1]) == (LEARNED + 1, LEARNED)
    assert AutoTokenizer.from_pretrained(tmp_path / "hf").apply_chat_template(talk, return_dict=False) == ids
    assert "--chat" in (run.path / "README.md").read_text()


# What cannot be read


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": "bert"}, "a tokenizer of kind 'bert'; gpt2 and llama can be read"),
        ({"pre": "tekken"}, "as 'tekken' .*smollm"),
        ({"merges": None}, "no list of texts tokenizer.ggml.merges"),
        ({"merges": ["a b c"]}, "the merge 'a b c'"),
        ({"merges": ["a zzzzz"]}, "the merge 'a zzzzz'"),
        ({"tokens": ["a"] * WORDS}, "two tokens are both 'a'"),
        ({"tokens": [str(number) for number in range(WORDS + 1)]}, "410 tokens and a table of 409 rows"),
        ({"token_type": [1, 2]}, "tokenizer.ggml.token_type is not one number for each of 409 tokens"),
        ({"eos_token_id": WORDS}, "eos_token_id is '409', the id of no token"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x', the id of no token"),
        ({"model": "llama"}, "tokenizer.ggml.scores is not one number"),
        ({"add_bos_token": 1}, "add_bos_token is of the wrong type"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_tokens_that_do_not_fit_are_refused_by_name(tmp_path: Path, changed: Values, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        written(tmp_path, byte_pairs() | changed)
    assert "\n" not in str(caught.value)
