"""Damaged GGUF files end in one line, at once, and without much memory."""

import os
import struct
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.exchange.gguf_header import read_header
from glassformer.exchange.gguf_reader import read_gguf
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.importing import import_external
from helpers.gguf_files import Values, tiny, write

MEMORY = 4 << 20
"""Bytes: a hundred times what the small file needs."""

TOKENS: Values = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "<0x0A>", "<user>", "aba"],
    "scores": [0.0, 0.0, 0.0, -5.0, -6.0, -7.0, -1.0, -2.0, 0.0, 0.0, -3.0],
    "token_type": [2, 3, 3, 1, 1, 1, 1, 1, 6, 4, 1],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "unknown_token_id": 0,
}


def small_file() -> bytes:
    sizes = {"vocab_size": 11, "hidden_size": 4, "intermediate_size": 3, "num_hidden_layers": 1}
    model = tiny(**sizes, num_attention_heads=2, num_key_value_heads=1, head_dim=2)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "small.gguf", model, TOKENS)
        return (Path(folder) / "small.gguf").read_bytes()


WHOLE = small_file()
HEAD = WHOLE.index(b"output_norm.weight") + 200
"""About where the numbers begin: damage before it is the interesting one."""


def read_all(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.gguf"
        path.write_bytes(content)
        found = read_gguf(path)
        import_external(found)
        found.tokens.tokenizer.decode(found.tokens.tokenizer.encode("ab a"))


def ends_in_one_line(content: bytes) -> None:
    """Read, or refused in one line; either without more memory than such a file is worth."""
    said = ""
    tracemalloc.start()
    try:
        read_all(content)
    except (DataError, Unsupported) as error:
        said = str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MEMORY
    assert "\n" not in said
    assert len(said) < 400


def number(at: int, code: str, value: int) -> bytes:
    return WHOLE[:at] + struct.pack(code, value) + WHOLE[at + struct.calcsize(code) :]


def after(text: bytes) -> int:
    return WHOLE.index(text) + len(text)


def test_the_small_file_is_whole() -> None:
    read_all(WHOLE)


numbers = st.one_of(st.integers(0, 300), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]))


@settings(deadline=None)
@given(st.integers(0, HEAD - 1), st.integers(1, 255))
def test_flipped_bits(at: int, flip: int) -> None:
    ends_in_one_line(WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :])


@settings(deadline=None)
@given(st.integers(0, HEAD - 8), numbers, st.sampled_from(["<Q", "<I"]))
def test_numbers_in_wrong_places(at: int, value: int, code: str) -> None:
    ends_in_one_line(number(at, code, value % 2 ** (8 * struct.calcsize(code))))


@settings(deadline=None)
@given(st.integers(0, len(WHOLE)))
@example(0)
def test_files_that_end_too_early(length: int) -> None:
    ends_in_one_line(WHOLE[:length])


@settings(deadline=None)
@given(st.integers(0, HEAD), st.binary(min_size=1, max_size=20), st.integers(0, 20))
def test_bytes_put_in_and_taken_out(at: int, put: bytes, out: int) -> None:
    ends_in_one_line(WHOLE[:at] + put + WHOLE[at + out :])


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_anything_after_the_first_letters(content: bytes) -> None:
    ends_in_one_line(b"GGUF\x03\0\0\0" + content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: b"", "its first four bytes"),
        (lambda: b"PK\x03\x04" + WHOLE[4:], "is no GGUF file: it does not begin with the letters GGUF"),
        (lambda: number(4, "<I", 1), "is of GGUF version 1"),
        (lambda: number(4, "<I", 4), "is of GGUF version 4"),
        (lambda: number(4, ">I", 3), "is a big-endian GGUF file"),
        (lambda: number(8, "<Q", 2**64 - 1), "18,446,744,073,709,551,615 tensors at byte 24 do not fit"),
        (lambda: number(16, "<Q", 2**40), "1,099,511,627,776 values and"),
        (lambda: number(24, "<Q", 2**40), "the name of value 1 of .* is said to be 1,099,511,627,776 bytes long"),
        (lambda: number(after(b"general.architecture") + 4, "<Q", 2**23), "general.architecture at byte .* do not fit"),
        (lambda: number(after(b"general.architecture"), "<I", 99), "general.architecture is of type 99"),
        (lambda: number(after(b"tokenizer.ggml.tokens") + 8, "<Q", 2**24), "16,777,216 items of tokenizer.ggml.tokens"),
        (lambda: number(after(b"tokenizer.ggml.scores") + 8, "<Q", 2**62), "tokenizer.ggml.scores is said to hold"),
        (lambda: number(after(b"tokenizer.ggml.scores") + 4, "<I", 9), "is a list of type 9"),
        (lambda: number(after(b"output_norm.weight"), "<I", 5), "tensor output_norm.weight has 5 dimensions"),
        (lambda: number(after(b"output_norm.weight") + 4, "<Q", 2**63), "output_norm.weight, .* does not fit"),
        (lambda: number(after(b"output_norm.weight") + 4, "<Q", 0), r"output_norm.weight has the shape \(0,\)"),
        (lambda: number(after(b"output_norm.weight") + 12, "<I", 8), "the shape .*which Q8_0 cannot have"),
        (lambda: number(after(b"output_norm.weight") + 12, "<I", 5), "is of kind 5, which does not exist"),
        (lambda: number(after(b"output_norm.weight") + 16, "<Q", 7), "output_norm.weight, .* does not fit"),
        (lambda: number(after(b"output_norm.weight") + 16, "<Q", 0), "begins within another"),
        (
            lambda: WHOLE.replace(b"output_norm", b"token_embd0").replace(b"token_embd0", b"blk.0.abcde"),
            "lacks the weight model.norm.weight|holds a tensor blk.0.abcde",
        ),
        (lambda: WHOLE.replace(b"blk.0.attn_k.weight", b"blk.0.attn_q.weight"), "two tensors are called 'blk.0.attn_q"),
        (lambda: WHOLE.replace("▁ab".encode(), b"\xff\xfe\xfdab"), "tokenizer.ggml.tokens is not text in UTF-8"),
        (lambda: WHOLE[:-200] + b"\xff\xff\xff\x7f" * 50, "holds numbers that are infinite or none"),
    ],
)
def test_damage_is_named(content: Callable[[], bytes], words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_all(content())
    assert "small.gguf" in str(caught.value)


def test_an_alignment_that_is_none(tmp_path: Path) -> None:
    for value in (0, 3, 2**31):
        model = tiny(vocab_size=11)
        write(tmp_path / "small.gguf", model, TOKENS, values={"general.alignment": value})
        with pytest.raises(DataError, match="no power of two"):
            read_header(tmp_path / "small.gguf")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in [(tmp_path, "is no file"), (tmp_path / "pipe", "is no file"), (tmp_path / "x", "there is no")]:
        with pytest.raises(DataError, match=words):
            read_gguf(path)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(WHOLE)
    found = read_gguf(path)
    os.truncate(path, HEAD)
    with pytest.raises(DataError, match="it ends within tensor"):
        import_external(found)
