import subprocess
import sys

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.embedded import DATASETS, open_dataset
from glassformer.data.python_text import BETWEEN_PARAGRAPHS, without_repeats
from glassformer.data.source import open_source

MADE = [name for name, info in DATASETS.items() if "rows" in info.parameters]
FROM_PYTHON = [name for name in DATASETS if name not in MADE]


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_opens_by_its_name(name: str) -> None:
    chunks = list(open_source(name, DataSettings()).chunks())
    assert all(chunk.text.strip() for chunk in chunks)
    assert [chunk.text for chunk in chunks if chunk.starts and chunk.ends] == list(open_dataset(name)())
    assert DATASETS[name].summary


@pytest.mark.parametrize("name", MADE)
def test_rows_are_as_many_as_asked_for_all_different_and_the_same_each_time(name: str) -> None:
    rows = list(open_dataset(f"{name}:rows=1009,seed=3")())
    assert len(rows) == len(set(rows)) == 1009
    assert rows == list(open_dataset(f"{name}:seed=3,rows=1009")())
    assert rows != list(open_dataset(f"{name}:rows=1009,seed=4")())
    assert len(list(open_dataset(name)())) == 2000


@pytest.mark.parametrize(
    ("spec", "space"),
    [("copy:shortest=1,longest=2", 26 + 26**2), ("reverse:shortest=1,longest=1", 26), ("add:digits=1", 100),
     ("recall:distance=0", 260)],
)  # fmt: skip
def test_all_rows_there_can_be_come_before_any_comes_again(spec: str, space: int) -> None:
    rows = list(open_dataset(f"{spec},rows={2 * space + 1}")())
    assert len(set(rows[:space])) == len(set(rows[space : 2 * space])) == len(set(rows)) == space


def test_copy_and_reverse() -> None:
    for name, turn in (("copy", 1), ("reverse", -1)):
        lengths = set()
        for row in open_dataset(f"{name}:shortest=2,longest=5")():
            word, answer = row.split(">")
            assert answer == word[::turn]
            lengths.add(len(word))
        assert lengths == {2, 3, 4, 5}


def test_add() -> None:
    for row in open_dataset("add:digits=3")():
        question, answer = row.split("=")
        left, right = map(int, question.split("+"))
        assert left + right == int(answer)
        assert max(left, right) < 1000


@pytest.mark.parametrize("distance", [0, 1, 31])
def test_recall(distance: int) -> None:
    for row in open_dataset(f"recall:distance={distance},rows=97")():
        told, asked = row.split("?")
        pairs = [told[place : place + 2] for place in range(0, len(told), 2)]
        assert len(pairs) == distance + 1
        assert pairs[0] == asked
        assert all(pair[0] != asked[0] for pair in pairs[1:])


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_no_paragraph_comes_twice(name: str) -> None:
    paragraphs = [
        part.strip() for text in open_dataset(name)() for part in BETWEEN_PARAGRAPHS.split(text) if part.strip()
    ]
    assert len(paragraphs) == len(set(paragraphs)) > 5000


def test_what_the_library_says_and_is() -> None:
    said, code = ("\n".join(open_dataset(name)()) for name in ("docstrings", "stdlib"))
    assert "\nRemove any common leading whitespace from every line in `text`." in said  # textwrap.dedent, cleaned
    assert "def dedent(text):" in code
    assert "def dedent(text):" not in said
    assert "Python Character Mapping Codec" not in code  # the tables of encodings


def test_repeated_paragraphs_go_and_blank_lines_stay_sensible() -> None:
    documents = ["import os\n\n\n\n\nx = 1\n  \ny = 2\n", "\n\nimport os\n\n\ny = 2\n\nz = 3", "x = 1\n"]
    assert list(without_repeats(documents)) == ["import os\n\n\nx = 1\n\ny = 2\n", "z = 3\n"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ad", "unknown data set 'ad'; did you mean add?"),
        ("add:digit=3", "unknown parameter of data set 'add' 'digit'; did you mean digits?"),
        ("add:digits", "add:digits wants a whole number, at least 1, not ''"),
        ("add:digits=0", "add:digits wants a whole number, at least 1, not '0'"),
        ("add:rows=many", "add:rows wants a whole number, at least 1, not 'many'"),
        ("add:seed=-1", "add:seed wants a whole number, at least 0, not '-1'"),
        ("copy:shortest=9", "copy:shortest 9 is more than copy:longest 8"),
        ("docstrings:rows=3", "data set 'docstrings' has no parameters, so not 'rows'"),
    ],
)
def test_wrong_parameters(spec: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        open_dataset(spec)
    assert str(caught.value).startswith(message)


def test_listing_needs_neither_torch_nor_the_tokenizers() -> None:
    code = (
        "import sys; from glassformer.data.embedded import DATASETS; print({'torch', 'tokenizers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
