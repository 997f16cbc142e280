"""What a program holds is learned from as a file of the same would be, and can be read again."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import glassformer as gf
from glassformer.config.errors import DataError, GlassformerError, Misuse
from glassformer.families.memory_data import data_file
from glassformer.runs.run import Run

NOUNS, WORDS = ("soup", "film", "room", "tea", "walk"), {"good": "yes", "bad": "no", "great": "yes", "awful": "no"}
PAIRS = [(f"the {noun} was {word}", label) for noun in NOUNS for word, label in WORDS.items()] * 2
TEXTS = [text for text, _ in PAIRS]
ROWS: list[dict[str, Any]] = [
    {"review": text, "mood": label, "stars": number} for number, (text, label) in enumerate(PAIRS)
]


def written(data: Any, folder: Path, task: str | None = None) -> list[dict[str, str]]:
    with data_file(data, folder / "run", task=task) as path:
        assert path is not None
        return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_texts_pairs_rows_and_tables_are_the_same_file(tmp_path: Path) -> None:
    labelled = [{"text": text, "label": label} for text, label in PAIRS]
    assert written(TEXTS, tmp_path) == [{"text": text} for text in TEXTS]
    frame = pd.DataFrame(PAIRS, columns=["text", "label"])
    columns = {"text": TEXTS, "label": np.array([label for _, label in PAIRS])}
    for data in (PAIRS, iter(PAIRS), labelled, frame, datasets.Dataset.from_pandas(frame), columns):
        assert written(data, tmp_path) == labelled
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": TEXTS, "stars": range(len(TEXTS))})
    assert written(frame, tmp_path)[1] == {"text": TEXTS[1], "stars": "1"}
    assert written(frame.lazy(), tmp_path) == written(frame, tmp_path)
    with pytest.raises(DataError, match=r"the LazyFrame cannot be read: .*nowhere"):
        written(frame.lazy().select("nowhere"), tmp_path)


def test_pairs_of_many_texts_are_to_be_translated(tmp_path: Path) -> None:
    pairs = [(f"{number} and one", f"{number + 1} it is") for number in range(60)]
    assert list(written(pairs, tmp_path)[0]) == ["source", "target"]
    assert list(written(pairs, tmp_path, "classification")[0]) == ["text", "label"]
    assert list(written(PAIRS, tmp_path, "translation")[0]) == ["source", "target"]


def test_a_missing_value_is_an_empty_cell(tmp_path: Path) -> None:
    rows = [{"a": None, "b": float("nan"), "c": True}, {"a": 1, "b": 0.5, "day": pd.Timestamp("2024-05-01")}]
    assert written(rows, tmp_path) == [
        {"a": "", "b": "", "c": "True", "day": ""},
        {"a": "1", "b": "0.5", "c": "", "day": "2024-05-01T00:00:00"},
    ]


def test_a_run_reads_its_data_again(tmp_path: Path) -> None:
    """And learned what it would have learned from a file."""
    csv = tmp_path / "reviews.csv"
    pd.DataFrame(ROWS).to_csv(csv, index=False)
    how: dict[str, Any] = {"model": "bag", "label": "mood", "epochs": 3, "draft": True}
    held = gf.train(pd.DataFrame(ROWS), out=tmp_path / "held", **how)
    assert held.validation == gf.train(csv, out=tmp_path / "filed", **how).validation
    assert gf.evaluate(held.run).metrics == held.validation
    assert Run.open(held.run).card()["data"]["name"] == "data in memory"
    more = gf.train(pd.DataFrame(ROWS), resume=True, **{**how, "epochs": 4}, out=tmp_path / "held")
    assert more.steps > held.steps
    with pytest.raises(GlassformerError, match="differs from the data that this run started with"):
        gf.train(ROWS[:-1], resume=True, **{**how, "epochs": 5}, out=tmp_path / "held")


def test_data_that_is_not_kept_is_asked_for(tmp_path: Path) -> None:
    how: dict[str, Any] = {"model": "bag", "epochs": 1, "draft": True}
    trained = gf.train(PAIRS, out=tmp_path / "run", keep_data=False, **how)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(DataError, match="data in memory that is not kept"):
        gf.evaluate(trained.run)
    rows = [{"text": text, "label": label} for text, label in PAIRS]
    expected = gf.evaluate(trained.run, rows)
    assert expected.metrics["texts"] == 40
    for data in (
        PAIRS,
        (TEXTS, [label for _, label in PAIRS]),
        {name: [row[name] for row in rows] for name in rows[0]},
    ):
        assert gf.evaluate(trained.run, data).records == expected.records
        assert gf.errors(trained.run, data).title


def test_a_file_goes_only_where_no_run_reads_it(tmp_path: Path) -> None:
    how: dict[str, Any] = {"model": "bag", "epochs": 1, "draft": True}
    kept = gf.train(PAIRS, out=tmp_path / "kept", **how)
    gf.train(PAIRS, out=tmp_path / "other", keep_data=False, **how)
    with pytest.raises(Misuse, match="unknown setting"):
        gf.train(PAIRS, out=tmp_path / "failed", data={"splitby": "text"})
    assert gf.evaluate(kept.run).metrics == kept.validation

    def interrupt(event: object) -> None:
        if list(tmp_path.glob("stopped/glassformer.json")):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        gf.train(PAIRS[:30], out=tmp_path / "stopped", listen=interrupt, **how)
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_arguments_that_cannot_be(tmp_path: Path) -> None:
    rows = [{**row, "group": place % 20} for place, row in enumerate(ROWS)]
    how: dict[str, Any] = {"model": "bag", "epochs": 1, "draft": True, "label": "mood", "text": "review"}
    trained = gf.train(rows, data={"split_by": "group"}, out=tmp_path / "run", **how)
    assert Run.open(trained.run).config().data.split_by == "group"
    for given, more, said in (
        ((ROWS,), {"out": 5}, "out wants text or a path, not 5"),
        ((ROWS,), {"data": ROWS}, "train got its data twice"),
        ((ROWS, 3), {}, "all else by name"),
    ):
        with pytest.raises(Misuse, match=said):
            gf.train(*given, **more)


def test_images_in_arrays(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    labels = np.arange(40) % 2
    for data in ((pixels, labels), {"images": pixels, "labels": labels}):
        trained = gf.train(data, size="hand", steps=1, out=tmp_path / "run", overwrite=True, draft=True)
        assert Run.open(trained.run).config().data.kind == "image"


@pytest.mark.slow
def test_a_comparison_of_what_is_in_memory(tmp_path: Path) -> None:
    """Its trainings are processes of their own."""
    how: dict[str, Any] = {"models": "bag,linear", "seeds": 1, "epochs": 1, "references": False}
    compared = gf.compare(PAIRS, out=tmp_path / "compared", **how)
    assert compared.title.lower() == "classification on data in memory"
    assert {"bag", "linear"} <= {row.name for row in compared.rows}
    again = gf.compare(PAIRS, out=tmp_path / "compared", **how)  # nothing is trained again
    assert [row.name for row in again.rows] == [row.name for row in compared.rows]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (3, "not an int"),
        ([1, 2], r"the list has an int at position 0 \(counted from 0\)"),
        (b"text", "not a bytes"),
        ([("a", "b"), "c"], r"a str at position 1 \(counted from 0\)"),
        ([("a", "b"), ("a", "b", "c")], r"a tuple of 3 at position 1"),
        ([("a", "b"), (None, "c")], "a tuple of 2 at position 1"),
        (["a", float("nan")], "a float at position 1"),
        (["a", b"b"], "a bytes at position 1"),
        ((TEXTS, TEXTS[1:]), "the tuple holds 40 texts, but 39 labels"),
        ([TEXTS, TEXTS], r"holds two lists: give list\(zip\(texts, labels\)\)"),
        ([(text, "good") for text in TEXTS], "the list: all 40 rows have the label 'good'"),
        (pd.DataFrame({"text": TEXTS, "label": "good"}), "^the DataFrame: all 40 rows have the label 'good'"),
        ((np.ones((4, 8, 8)), [0, 1]), "^the arrays: 4 images, but 2 labels in 'labels'"),
        ({"text": "a"}, "not one row alone"),
        ({"text": ["a", "b"], "label": ["c"]}, "of different lengths"),
        ([], "there is nothing to learn from"),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(tmp_path: Path, data: Any, said: str) -> None:
    with pytest.raises((Misuse, DataError), match=said) as refused:
        gf.train(data, out=tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())
