import gzip
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.text.vectors import read_vectors, vectors_width

GLOVE = "the 0.25 -1 3e-1\ncat 1 2 3\nsat -4 5 -6\n"
ROWS = {"the": [0.25, -1, 0.3], "cat": [1, 2, 3], "sat": [-4, 5, -6]}


def file_of(folder: Path, text: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("head", ["", "3 3\n", "3 3 \n"])
@pytest.mark.parametrize(
    "change", [("", ""), ("\n", " \n"), ("\n", "\r\n"), (" ", "\t"), ("1 2", "1  2"), ("\n", "\n\n")]
)
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
def test_both_formats(tmp_path: Path, head: str, change: tuple[str, str], name: str) -> None:
    path = file_of(tmp_path, head + (GLOVE.replace(*change) if change[0] else GLOVE), name)
    assert vectors_width(path) == 3
    ids, vectors = read_vectors(path, {"sat": 2, "the": 7, "dog": 1})
    assert ids.dtype == np.int64
    assert vectors.dtype == np.float32
    assert ids.tolist() == [2, 7]
    np.testing.assert_array_equal(vectors, np.array([ROWS["sat"], ROWS["the"]], np.float32))


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    ids, vectors = read_vectors(file_of(tmp_path, GLOVE.rstrip()), {"sat": 0})
    assert (ids.tolist(), vectors.tolist()) == ([0], [ROWS["sat"]])


def test_no_word_is_there(tmp_path: Path) -> None:
    ids, vectors = read_vectors(file_of(tmp_path, GLOVE), {"dog": 0})
    assert ids.shape == (0,)
    assert vectors.shape == (0, 3)


@pytest.mark.parametrize(
    ("file", "asked", "found"),
    [
        ("The 1\nthe 2\nTHE 3", "the", 2),  # written the same
        ("The 1\nthe 2\nTHE 3", "THE", 3),
        ("The 1\nTHE 3", "the", 1),  # else the first that differs only in case
        ("the 2\nTHE 3", "The", 2),
        ("the 2\nthe 3", "the", 2),  # the first of two
        ("Straße 4", "STRASSE", 4),
        ("Über 5", "über", 5),
        ("then 6", "the", None),
    ],
)
def test_upper_and_lower_case(tmp_path: Path, file: str, asked: str, found: int | None) -> None:
    ids, vectors = read_vectors(file_of(tmp_path, file), {asked: 11})
    assert ids.tolist() == ([] if found is None else [11])
    assert vectors.ravel().tolist() == ([] if found is None else [found])


def test_words_alike_but_for_case_are_each_served(tmp_path: Path) -> None:
    ids, vectors = read_vectors(file_of(tmp_path, "The 1\nthe 2"), {"the": 0, "The": 1, "THE": 2})
    assert ids.tolist() == [0, 1, 2]
    assert vectors.ravel().tolist() == [2, 1, 1]


def test_a_word_with_bytes_that_are_no_text_is_passed_over(tmp_path: Path) -> None:
    ids, _ = read_vectors(file_of(tmp_path, b"\xff\xfe 1 2\nthe 3 4\n"), {"the": 5})
    assert ids.tolist() == [5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " holds no word vectors"),
        ("\n \n", " holds no word vectors"),
        ("3 2\n", " holds no word vectors"),
        ("the 1 2\ncat 1\n", ", line 2: 1 numbers after the word, not 2 as before"),
        ("2 3\nthe 1 2\ncat 1 2\n", ", line 2: 2 numbers after the word, where the first line says 3"),
        ("the 1 2\n\ncat\n", ", line 3: no numbers after 'cat'"),
        ("the 1 2\ncat 1 x\n", ", line 2: not numbers after the word: '1 x'"),
        ("the one two\n", ", line 1: not numbers after the word"),
        ("the 1 nan\n", ", line 1: a number that is not finite"),
        ("the 1 2\ncat inf 2\n", ", line 2: a number that is not finite"),
        ("the 1 2\ncat 1e50 2\n", ", line 2: a number that is not finite"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(DataError, match=re.escape(f"{path}{message}")) as error:
        read_vectors(path, {"the": 0, "cat": 1})
    assert "\n" not in str(error.value)


def test_the_width_needs_a_good_first_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: not numbers"):
        vectors_width(file_of(tmp_path, "once upon a time\n"))
    assert vectors_width(file_of(tmp_path, "the 1 2\ncat\n")) == 2


def test_word2vecs_binary_format_is_told_what_it_is_not(tmp_path: Path) -> None:
    data = b"1 2\nthe " + np.array([1, 2], np.float32).tobytes() + b"\n"
    with pytest.raises(DataError, match=r"line 2: .*word vectors come as text"):
        vectors_width(file_of(tmp_path, data))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none\.txt: No such file"):
        vectors_width(tmp_path / "none.txt")
    whole = file_of(tmp_path, GLOVE * 1000, "whole.txt.gz").read_bytes()
    torn = tmp_path / "torn.txt.gz"
    torn.write_bytes(whole[: len(whole) - 9])
    with pytest.raises(DataError, match=r"torn\.txt\.gz is damaged, or no gzip file: save or download it again \(.+\)"):
        read_vectors(torn, {"dog": 0})
    fake = tmp_path / "fake.txt.gz"
    fake.write_text(GLOVE)
    with pytest.raises(DataError, match=r"fake\.txt\.gz is damaged, or no gzip file"):
        vectors_width(fake)


def test_the_file_is_not_held(tmp_path: Path) -> None:
    row = " ".join(["0.123"] * 50)
    path = file_of(tmp_path, "".join(f"w{number} {row}\n" for number in range(5000)))
    tracemalloc.start()
    try:
        read_vectors(path, {"w7": 0, "w4999": 1})
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 4
    finally:
        tracemalloc.stop()
