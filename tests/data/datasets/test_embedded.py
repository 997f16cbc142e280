import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.data.datasets.samples import BETWEEN_PARAGRAPHS, without_repeats
from glassformer.data.io.source import open_source
from glassformer.data.io.table import read_table

MADE = [name for name, info in DATASETS.items() if "rows" in info.parameters]
EXACT = ["copy", "reverse", "add", "recall"]
FROM_PYTHON = ["docstrings", "stdlib"]
TEXTS = [*(name for name in MADE if DATASETS[name].columns[0] == "text"), *FROM_PYTHON]
PAIRS = ["reverse-pairs", "add-pairs", "dates"]
IMAGES = ["digits", "mnist5k"]


def texts(spec: str) -> Iterator[str]:
    return (row[0] for row in open_dataset(spec).rows())


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TEXTS)
def test_every_data_set_opens_by_its_name(name: str) -> None:
    chunks = list(open_source(name, DataSettings()).chunks())
    assert all(chunk.text.strip() for chunk in chunks)
    assert [chunk.text for chunk in chunks if chunk.starts and chunk.ends] == list(texts(name))
    assert DATASETS[name].summary


@pytest.mark.parametrize("name", [*MADE, *FROM_PYTHON])
def test_each_row_has_a_value_for_each_column(name: str) -> None:
    dataset = open_dataset(name)
    assert dataset.summary == DATASETS[name].summary
    assert dataset.columns == DATASETS[name].columns
    for row in dataset.rows():
        assert len(row) == len(dataset.columns)
        assert all(isinstance(value, str) and value.strip() for value in row)


def test_columns() -> None:
    assert {name: info.columns for name, info in DATASETS.items() if info.columns != ("text",)} == {
        "balance": ("text", "label"),
        "opinions": ("text", "label"),
        "posts": ("text", "hour", "followers", "hashtags", "links", "viral"),
        "reviews": ("text", "label"),
        "senses": ("text", "word", "sense"),
        **dict.fromkeys(PAIRS, ("source", "target")),
        **dict.fromkeys(IMAGES, ("image", "label")),
        "diabetes": (
            "age", "sex", "bmi", "blood_pressure", "cholesterol", "ldl", "hdl", "cholesterol_per_hdl",
            "log_triglycerides", "glucose", "progression",
        ),
        "iris": ("sepal_length", "sepal_width", "petal_length", "petal_width", "species"),
    }  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_rows_of_its_own_for_the_test(name: str) -> None:
    test = open_dataset(f"{name}:rows=40,seed=5" if name in MADE else name).test
    if name in ("opinions", "dates"):
        assert test is not None
        assert len(list(test())) == 10
    else:
        assert test is None


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_rows_do_not_hang_on_how_strings_are_hashed(name: str) -> None:
    code = (
        "import hashlib; from glassformer.data.datasets.embedded import open_dataset; "
        f"data = open_dataset('{name}:rows=97'); rows = [*data.rows(), *(data.test() if data.test else [])]; "
        "print(hashlib.sha256(repr(rows).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MADE)
def test_rows_are_as_many_as_asked_for_and_the_same_each_time(name: str) -> None:
    dataset = open_dataset(f"{name}:rows=1009,seed=3")
    rows = list(dataset.rows())
    assert len(rows) == 1009
    assert rows == list(dataset.rows()) == list(open_dataset(f"{name}:seed=3,rows=1009").rows())
    assert rows != list(open_dataset(f"{name}:rows=1009,seed=4").rows())
    assert len(list(texts(name))) == DATASETS[name].parameters["rows"]


@pytest.mark.parametrize("name", [*EXACT, *PAIRS, "opinions", "senses"])
def test_rows_are_all_different(name: str) -> None:
    assert len(set(texts(f"{name}:rows=1009"))) == 1009


@pytest.mark.parametrize(
    ("spec", "space"),
    [("copy:shortest=1,longest=2", 26 + 26**2), ("reverse:shortest=1,longest=1", 26), ("add:digits=1", 100),
     ("recall:distance=0", 260), ("reverse-pairs:shortest=1,longest=1", 26), ("add-pairs:digits=1", 100)],
)  # fmt: skip
def test_all_rows_there_can_be_come_before_any_comes_again(spec: str, space: int) -> None:
    rows = list(texts(f"{spec},rows={2 * space + 1}"))
    assert len(set(rows[:space])) == len(set(rows[space : 2 * space])) == len(set(rows)) == space


def test_copy_and_reverse() -> None:
    for name, turn in (("copy", 1), ("reverse", -1)):
        lengths = set()
        for row in texts(f"{name}:shortest=2,longest=5"):
            word, answer = row.split(">")
            assert answer == word[::turn]
            lengths.add(len(word))
        assert lengths == {2, 3, 4, 5}


def test_add() -> None:
    for row in texts("add:digits=3"):
        question, answer = row.split("=")
        left, right = map(int, question.split("+"))
        assert left + right == int(answer)
        assert max(left, right) < 1000


@pytest.mark.parametrize(("name", "between", "parameters"), [("reverse", ">", "longest=5"), ("add", "=", "digits=3")])
def test_pairs_are_the_texts_cut_in_two(name: str, between: str, parameters: str) -> None:
    pairs = list(open_dataset(f"{name}-pairs:{parameters},seed=7").rows())
    assert pairs == [tuple(text.split(between)) for text in texts(f"{name}:{parameters},seed=7")]


@pytest.mark.parametrize("name", DATASETS)
def test_rows_or_images(name: str) -> None:
    info = DATASETS[name]
    assert (info.images is None) == (name not in IMAGES)
    assert open_dataset(name).images is info.images


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("read", [read_table, lambda name, settings: list(open_source(name, settings).chunks())])
def test_images_have_no_rows(name: str, read: Callable[[str, DataSettings], object]) -> None:
    with pytest.raises(DataError) as caught:
        read(name, DataSettings())
    assert str(caught.value) == (
        f"the data set '{name}' contains images, not texts or a table (see `glassformer data`)"
    )


@pytest.mark.parametrize("distance", [0, 1, 31])
def test_recall(distance: int) -> None:
    for row in texts(f"recall:distance={distance},rows=97"):
        told, asked = row.split("?")
        pairs = [told[place : place + 2] for place in range(0, len(told), 2)]
        assert len(pairs) == distance + 1
        assert pairs[0] == asked
        assert all(pair[0] != asked[0] for pair in pairs[1:])


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_no_paragraph_comes_twice(name: str) -> None:
    paragraphs = [part.strip() for text in texts(name) for part in BETWEEN_PARAGRAPHS.split(text) if part.strip()]
    assert len(paragraphs) == len(set(paragraphs)) > 5000


def test_what_the_library_says_and_is() -> None:
    said, code = ("\n".join(texts(name)) for name in ("docstrings", "stdlib"))
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
        ("dates:languages=41", "dates:languages wants a whole number, at least 1 and at most 40, not '41'"),
        ("dates:rows=500001", "dates:rows wants a whole number, at least 1 and at most 500,000, not '500001'"),
        ("digits:rows=3", "data set 'digits' has no parameters, so not 'rows'"),
        ("docstrings:rows=3", "data set 'docstrings' has no parameters, so not 'rows'"),
    ],
)
def test_wrong_parameters(spec: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        open_dataset(spec)
    assert str(caught.value).startswith(message)


def test_listing_needs_neither_torch_nor_the_tokenizers() -> None:
    loaded = "print({'torch', 'tokenizers'} & set(sys.modules))"
    code = f"import sys; from glassformer.data.datasets.embedded import DATASETS; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_command_that_lists_builds_nothing() -> None:
    code = (
        "import sys; from glassformer.cli.main import main; code = main(['data', '--json']); "
        "print(code, {'babel', 'sklearn', 'mlxtend'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 set()\n"
    assert [row["name"] for row in json.loads(done.stdout)["datasets"]] == list(DATASETS)
