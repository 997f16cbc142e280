"""How pictures, and rows that are no texts, are divided."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import choose_columns
from glassformer.data.io.table import Pictures, Table, read_table
from glassformer.data.split.labelled import (
    LabelledCorpus,
    as_table,
    split_pictures,
    split_table,
    whole_pictures,
    whole_table,
)
from helpers.kinds import bars, rows_of, write_bars, write_rows

FIFTH = DataSettings(validation_fraction=0.2, test_fraction=0.1)


def some(count: int = 60, part: list[str] | None = None, **more: object) -> Pictures:
    pixels, labels = bars(count, **more)
    return Pictures("some", pixels, labels, [f"image {number}" for number in range(count)], part)


def keys(corpus: LabelledCorpus) -> dict[str, set[bytes]]:
    found = {}
    for name, part in corpus.parts.items():
        assert part.pixels is not None
        assert len(part) == len(part.pixels) == len(part.labels) == len(part.texts)
        found[name] = {picture.tobytes() for picture in part.pixels}
    return found


def test_each_picture_once_with_its_label() -> None:
    pictures = some()
    corpus = split_pictures(pictures, FIFTH)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 42, "validation": 12, "test": 6}
    for part in corpus.parts.values():
        assert part.pixels is not None
        for file, label, picture in zip(part.texts, part.labels, part.pixels, strict=True):
            number = int(file.split()[1])
            assert label == pictures.labels[number]
            assert (picture == pictures.pixels[number]).all()
    assert corpus.classes == ("lying", "standing")
    assert corpus.report().startswith(
        "60 pictures: 12 pictures held out for validation and 6 pictures held out for the test; 2 classes"
    )


def test_equal_pictures_stay_together() -> None:
    pictures = some(90)
    pictures.pixels[1::3] = pictures.pixels[::3]
    pictures.labels[1::3] = pictures.labels[::3]
    corpus = split_pictures(pictures, FIFTH)
    found = keys(corpus)
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert "30 pictures repeat an earlier picture" in corpus.report()


def test_parts_that_are_given() -> None:
    part = ["train"] * 30 + ["test"] * 10 + ["validation"] * 5
    corpus = split_pictures(some(45, part), DataSettings())
    assert {name: len(one) for name, one in corpus.parts.items()} == {"train": 30, "validation": 5, "test": 10}
    assert corpus.parts["test"].texts == [f"image {number}" for number in range(30, 40)]
    halved = split_pictures(some(40, ["train"] * 30 + ["test"] * 10), DataSettings(validation_fraction=0.2))
    assert {name: len(one) for name, one in halved.parts.items()} == {"train": 24, "validation": 6, "test": 10}
    pictures = some(40, ["train"] * 30 + ["test"] * 10)
    pictures.pixels[39] = pictures.pixels[0]
    seen = split_pictures(pictures, DataSettings(validation_fraction=0.0)).report()
    assert "warning: 1 of 10 pictures of test also in training" in seen


def test_a_folder_to_test_on(tmp_path: Path) -> None:
    folder = str(write_bars(tmp_path / "test", 6, seed=3))
    corpus = split_pictures(some(), DataSettings(test=folder))
    assert len(corpus.parts["test"]) == 6
    assert f"test from {folder}: 6 pictures" in corpus.report()
    assert corpus.fingerprint != split_pictures(some(), DataSettings()).fingerprint
    with pytest.raises(DataError, match="has test pictures of its own"):
        split_pictures(some(40, ["train"] * 30 + ["test"] * 10), DataSettings(test=folder))
    sole = Pictures("sole", some().pixels[:1], ["x"], ["image 0"])
    with pytest.raises(DataError, match="sole, image 0: the label 'x' does not occur in training"):
        whole_pictures(sole, "given", ("lying", "standing"), DataSettings())


def test_the_fingerprint_knows_pixels_and_labels() -> None:
    before = split_pictures(some(), FIFTH).fingerprint
    other = some()
    other.pixels[3, 0, 0] ^= 1
    assert split_pictures(other, FIFTH).fingerprint != before
    assert split_pictures(some(), FIFTH).fingerprint == before


def test_too_few() -> None:
    pictures = some(4)
    pictures.pixels[:] = pictures.pixels[0]
    with pytest.raises(DataError, match="too few for"):
        split_pictures(pictures, FIFTH)


def test_pictures_to_look_at() -> None:
    pictures = some(6)
    pictures.pixels[5] = pictures.pixels[0]
    table, columns = as_table(pictures)
    assert (columns.also, columns.label) == (("picture",), "label")
    assert table.columns["picture"][5] == table.columns["picture"][0] != table.columns["picture"][1]


# Rows of a table


def test_rows_are_divided_and_keep_their_values(tmp_path: Path) -> None:
    rows = rows_of(60)
    path = write_rows(tmp_path / "a.csv", [*rows, *rows[:20]])
    table = read_table(str(path), DataSettings())
    corpus = split_table(table, choose_columns(table, FIFTH), FIFTH)
    found: dict[str, set[str]] = {}
    for name, part in corpus.parts.items():
        found[name] = set(part.texts)
        for row in range(len(part)):
            values = {column: values[row] for column, values in part.columns.items()}
            assert {**values, "size": part.labels[row]} in rows
            assert part.texts[row] == ", ".join(f"{column}={value}" for column, value in values.items())
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert "20 rows repeat an earlier row" in corpus.report()


def test_a_row_is_all_its_values() -> None:
    def table(b: list[str], label: list[str]) -> Table:
        return Table("a.csv", {"a": [str(n) for n in range(0, 90, 3)], "b": b, "label": label}, list(range(2, 32)))

    b, label = [str(n % 7) for n in range(30)], ["x", "y"] * 15
    columns = choose_columns(table(b, label), FIFTH)
    before = split_table(table(b, label), columns, FIFTH).fingerprint
    assert split_table(table(["9", *b[1:]], label), columns, FIFTH).fingerprint != before
    assert split_table(table(b, ["y", *label[1:]]), columns, FIFTH).fingerprint != before


def test_columns_and_images_beside_a_text(tmp_path: Path) -> None:
    write_bars(tmp_path / "bars", 12)
    rows = [
        {"text": f"this is bar {n}", "file": f"bars/{kind}/{n}.png", "n": n % 5, "label": kind}
        for n in range(12)
        for kind in [("lying", "standing")[n % 2]]
    ]
    path = write_rows(tmp_path / "a.csv", rows)
    settings = DataSettings(extra_columns="n", image="file", validation_fraction=0.25)
    table = read_table(str(path), settings)
    columns = choose_columns(table, settings)
    corpus = split_table(table, columns, settings)
    pixels, _ = bars(12)
    for part in corpus.parts.values():
        assert part.pixels is not None
        for row, text in enumerate(part.texts):
            number = int(text.split()[-1])
            assert (part.pixels[row] == pixels[number]).all()
            assert part.columns["n"][row] == str(number % 5)
    changed = write_rows(tmp_path / "b.csv", [{**rows[0], "n": 4}, *rows[1:]])
    again = read_table(str(changed), settings)
    assert split_table(again, columns, settings).fingerprint != corpus.fingerprint
    assert np.array_equal(whole_table(table, columns, "given", None, settings).pixels, pixels)
    for cell, words in (
        ("", "line 3, column 'file': no image: take"),
        ("no.png", "line 3, column 'file': no image at"),
    ):
        bad = read_table(str(write_rows(tmp_path / "c.csv", [rows[0], {**rows[1], "file": cell}, *rows[2:]])), settings)
        with pytest.raises(DataError, match=words):
            split_table(bad, columns, settings)
