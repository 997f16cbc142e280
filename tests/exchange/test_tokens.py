"""The tokens of Hugging Face folders: ids, roles and templates are what transformers makes of the same files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BartTokenizer, BertTokenizer, GPT2Tokenizer

from glassformer.config.errors import DataError
from glassformer.exchange.token_reader import TokenFiles, read_tokens
from glassformer.text.tokenizer import Roles, Tokenizer
from helpers.nasty import NASTY
from helpers.pipelines_elsewhere import bytes_split, word_pieces


def write(folder: Path, **files: Any) -> Path:
    """Files by name, with __ for the dot: JSON, or text as it is."""
    folder.mkdir(exist_ok=True)
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def plain_bytes(*specials: str) -> tokenizers.Tokenizer:
    """GPT-2's pipeline."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=331, special_tokens=list(specials), initial_alphabet=alphabet,
                                  show_progress=False)  # fmt: skip
    made.train_from_iterator(NASTY, trainer)
    return made


def older_files(made: tokenizers.Tokenizer) -> dict[str, Any]:
    """What was there before tokenizer.json: a vocabulary and its merges."""
    model = json.loads(made.to_str())["model"]
    return {"vocab__json": model["vocab"], "merges__txt": "\n".join(["#version: 0.2", *map(" ".join, model["merges"])])}


def same_ids(ours: Tokenizer, theirs: Any) -> None:
    for text in NASTY:
        expected = theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert ours.encode(text) == expected, text


def frame(theirs: Any, text: str = "a") -> tuple[list[int], list[int]]:
    """What transformers puts before and after a text."""
    whole, inner = theirs(text)["input_ids"], theirs(text, add_special_tokens=False)["input_ids"]
    place = next(at for at in range(len(whole)) if whole[at : at + len(inner)] == inner)
    return whole[:place], whole[place + len(inner) :]


# --- what is for what ---


@pytest.mark.parametrize("fast", [True, False])
def test_gpt2(fast: bool, tmp_path: Path) -> None:
    made = plain_bytes("<|endoftext|>")
    files = {"tokenizer__json": made.to_str()} if fast else older_files(made)
    write(tmp_path, **files, tokenizer_config__json={"tokenizer_class": "GPT2Tokenizer"})
    config = {"model_type": "gpt2", "eos_token_id": 0, "bos_token_id": 0, "vocab_size": 331}
    tokens = read_tokens(tmp_path, config)
    theirs = GPT2Tokenizer.from_pretrained(str(tmp_path))
    same_ids(tokens.tokenizer, theirs)
    assert frame(theirs) == ([], [])
    assert tokens.tokenizer.kind == "bpe"
    assert tokens.tokenizer.roles == Roles(end=0)
    assert tokens.tokenizer.never(331) == []
    assert tokens.specials["eos_token"] == "<|endoftext|>"


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("cased", [True, False])
def test_bert(fast: bool, cased: bool, tmp_path: Path) -> None:
    made = word_pieces()
    names = sorted(made.get_vocab(), key=made.get_vocab().__getitem__)
    says = {"tokenizer_class": "BertTokenizer", "do_lower_case": not cased, "strip_accents": False}
    write(tmp_path, vocab__txt="\n".join(names) + "\n", tokenizer_config__json=says)
    theirs = BertTokenizer.from_pretrained(str(tmp_path))
    if fast:  # the settings are right where the two differ
        theirs.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
        spec = json.loads((tmp_path / "tokenizer.json").read_text())
        spec["normalizer"]["lowercase"] = cased
        write(tmp_path, tokenizer__json=spec)
    tokens = read_tokens(tmp_path, {"model_type": "bert", "pad_token_id": 0})
    same_ids(tokens.tokenizer, theirs)
    start, end = names.index("[CLS]"), names.index("[SEP]")
    assert frame(theirs) == ([start], [end])
    expected = {"pad": 0, "unk": 1, "mask": names.index("[MASK]"), "opening": (start,), "closing": (end,)}
    assert tokens.tokenizer.roles == Roles(start=start, end=end, **expected)
    assert tokens.target_tokenizer is None
    assert {file.name for file in tokens.files} == {"vocab.txt", "tokenizer_config.json"}


@pytest.mark.parametrize("fast", [True, False])
def test_bart(fast: bool, tmp_path: Path) -> None:
    made = plain_bytes("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    write(tmp_path, **older_files(made))
    theirs = BartTokenizer.from_pretrained(str(tmp_path))
    if fast:
        theirs.save_pretrained(str(tmp_path))
    config = {"model_type": "bart", "decoder_start_token_id": 2, "eos_token_id": 2, "is_encoder_decoder": True}
    tokens = read_tokens(tmp_path, {**config, "forced_bos_token_id": 0})
    same_ids(tokens.tokenizer, theirs)
    assert frame(theirs) == ([0], [2])
    roles = Roles(pad=1, start=0, end=2, mask=4, opening=(2, 0), closing=(2,), source=(0,))
    assert tokens.tokenizer.roles == roles
    write(tmp_path, generation_config__json={"forced_bos_token_id": 3})
    assert read_tokens(tmp_path, config).tokenizer.roles.opening == (2, 3)
    with pytest.raises(DataError, match="names no decoder_start_token_id"):
        read_tokens(tmp_path, {"model_type": "bart"})


def test_llama_with_several_ends(tmp_path: Path) -> None:
    made = bytes_split()
    first = ("<|im_start|>", made.token_to_id("<|im_start|>"))
    made.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[first]),
    ])  # fmt: skip
    said = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>", "__type": "AddedToken"},
        "add_bos_token": False,  # what the pipeline itself does counts
        "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": "yes"}],
    }
    write(tmp_path, tokenizer__json=made.to_str(), tokenizer_config__json=said,
          generation_config__json={"eos_token_id": [2, 1, 900], "pad_token_id": -1})  # fmt: skip
    config = {"model_type": "llama", "eos_token_id": 2, "vocab_size": made.get_vocab_size() + 7}
    tokens = read_tokens(tmp_path, config)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    same_ids(tokens.tokenizer, theirs)
    assert frame(theirs) == ([0], [])
    assert tokens.tokenizer.roles == Roles(start=0, end=1, opening=(0,), stops=(2,))
    assert tokens.chat_template == theirs.get_chat_template() == "yes"
    assert tokens.specials == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    write(tmp_path, chat_template__jinja="{{ file }}")
    assert read_tokens(tmp_path, config).chat_template == "{{ file }}"


def test_tokens_that_other_files_add(tmp_path: Path) -> None:
    """One that the settings call special is so, whatever tokenizer.json says; one that only they know is added."""
    made = bytes_split()
    size = made.get_vocab_size()
    made.add_tokens(["<pad>", "<tool>"])
    added = {
        str(size): {"content": "<pad>", "special": True},
        str(size + 1): {"content": "<tool>", "special": False},
        str(size + 2): {"content": "<late>", "special": True},
    }
    says = {"added_tokens_decoder": added, "pad_token": "<pad>", "eos_token": "<|endoftext|>"}
    write(tmp_path, tokenizer__json=made.to_str(), tokenizer_config__json=says)
    tokenizer = read_tokens(tmp_path, {"model_type": "llama"}).tokenizer
    assert tokenizer.pad == size
    assert {size, size + 2} <= tokenizer.specials
    assert tokenizer.encode("a<tool>")[-1] == size + 1
    assert size not in tokenizer.encode("a<pad>")
    assert tokenizer.vocab_size == size + 3
    smaller = read_tokens(tmp_path, {"model_type": "llama", "vocab_size": size}).tokenizer
    assert smaller.pad is None  # the model has no row for it
    write(tmp_path, tokenizer_config__json={"added_tokens_decoder": {"1": {"content": "<pad>"}}})
    with pytest.raises(DataError, match=f"the token '<pad>' the ids {size} and 1"):
        read_tokens(tmp_path, {"model_type": "llama"})


# --- what cannot be read ---

HUGE_ID = tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).to_str().replace('"b":1', '"b":1000000000')
"""Written by hand: the library takes many seconds to write a vocabulary with so large a gap."""


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "has no tokenizer.json, and no other files with the tokens of a llama model"),
        ({"tokenizer__model": "x"}, "has its tokens in tokenizer.model, .*write a tokenizer.json"),
        ({"tokenizer__json": "{"}, "tokenizer.json is damaged"),
        ({"tokenizer__json": "[]"}, "tokenizer.json is damaged: it holds no JSON object"),
        ({"tokenizer__json": "[" * 100_000}, "tokenizer.json: lists and objects nested deeper than can be read"),
        ({"tokenizer__json": {"model": {}}}, "tokenizer.json is damaged, or no tokenizer.json: restore it from a copy"),
        (
            {"tokenizer__json": HUGE_ID},
            "tokenizer.json is damaged: it has 2 tokens, and one of them has the id 1,000,000,000",
        ),
        ({"tokenizer_config__json": "nothing"}, "tokenizer_config.json is damaged"),
        ({"tokenizer__json": plain_bytes("<s>").to_str(), "added_tokens__json": {"x": "y"}}, "'x' has the id 'y'"),
        ({"tokenizer_config__json": {"bos_token": "\ud800"}}, "tokenizer_config.json is damaged: it holds half a char"),
        (
            {
                "tokenizer__json": plain_bytes("<s>").to_str(),
                "tokenizer_config__json": {"added_tokens_decoder": {"9" * 5000: {"content": "x"}}},
            },
            "added_tokens_decoder, '9{40}'",
        ),
    ],
)
def test_damage_is_one_line(files: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_tokens(write(tmp_path, **files), {"model_type": "llama"})
    assert "\n" not in str(caught.value)


def test_older_files_that_are_damaged(tmp_path: Path) -> None:
    files = older_files(plain_bytes("<|endoftext|>"))
    config = {"model_type": "gpt2"}
    with pytest.raises(DataError, match=r"merges.txt, line 2: 'a b c' joins no two known tokens"):
        read_tokens(write(tmp_path, **{**files, "merges__txt": "#version\na b c\n"}), config)
    with pytest.raises(DataError, match=r"vocab.json is damaged: it does not number its"):
        read_tokens(write(tmp_path, vocab__json={"a": 7}), config)
    with pytest.raises(DataError, match=r"vocab.txt lacks \[UNK\]"):
        read_tokens(write(tmp_path / "bert", vocab__txt="one\ntwo\n"), {"model_type": "bert"})
    with pytest.raises(DataError, match=r"Marian's source.spm is missing"):
        read_tokens(write(tmp_path / "marian", vocab__json={"a": 0}), {"model_type": "marian"})


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    folder = write(tmp_path / "model", vocab__txt="a")
    os.symlink(secret, folder / "chat_template.jinja")
    os.symlink("vocab.txt", folder / "merges.txt")
    files = TokenFiles(folder)
    assert files.text("chat_template.jinja") is None
    assert {file.name for file in files.originals()} == {"vocab.txt", "merges.txt"}
    cached = tmp_path / "models--x" / "snapshots" / "1"
    cached.mkdir(parents=True)
    write(tmp_path / "models--x" / "blobs", abc="kept")
    os.symlink("../../blobs/abc", cached / "chat_template.jinja")
    assert TokenFiles(cached).text("chat_template.jinja") == "kept"
