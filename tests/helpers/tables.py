"""Small labelled tables: opinions in two or three classes, and numbers; written to files, or as a model reads them."""

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from glassformer.data.features.texts import Examples, Sequences

WORDS = {
    "bad": ("bad", "awful", "poor", "dull"),
    "good": ("good", "fine", "great", "lovely"),
    "so-so": ("plain", "fair", "usual", "middling"),
}
Rows = list[tuple[str, str]]


def opinions(count: int, classes: int = 2, seed: int = 0) -> Rows:
    """Texts of different lengths, no two alike, that hold words of their class."""
    random = Random(seed)
    names = list(WORDS)[:classes]
    rows = []
    for number in range(count):
        name = names[number % classes]
        said = " and ".join(random.choice(WORDS[name]) for _ in range(random.randint(1, 4)))
        rows.append((f"the {random.choice(['soup', 'film', 'book'])} {number} was {said}", name))
    return rows


def amounts(count: int, seed: int = 0) -> Rows:
    """Texts, and a number for each that depends on its words."""
    random = Random(seed)
    return [(text, f"{50 * (name == 'good') + random.uniform(0, 20):.3f}") for text, name in opinions(count, 2, seed)]


def write_table(path: Path, rows: Sequence[Sequence[Any]], names: Sequence[str] = ("text", "label")) -> Path:
    """In the format that the file's name ends with."""
    packed = path.name.removesuffix(".gz")
    if packed.endswith(".parquet"):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = zip(names, zip(*rows, strict=True), strict=True)
        parquet.write_table(arrow.table({name: list(column) for name, column in columns}), path)
        return path
    with gzip.open(path, "wt", encoding="utf-8") if packed != path.name else path.open("w", encoding="utf-8") as file:
        if packed.endswith(".jsonl"):
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        else:
            csv.writer(file, delimiter="\t" if packed.endswith(".tsv") else ",").writerows([names, *rows])
    return path


def read_csv(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter))


def examples_of_lengths(lengths: Sequence[int], answers: Sequence[Any] | None = None, vocab: int = 13) -> Examples:
    """Texts of random tokens. 0 is padding and stands in no text."""
    random = np.random.default_rng(0)
    tokens = Sequences.concatenate([random.integers(1, vocab, length).astype(np.int32) for length in lengths], pad=0)
    given = np.arange(len(lengths)) % 2 if answers is None else np.array(answers)
    return Examples(tokens, given, [f"text {row}" for row in range(len(lengths))], cut=0)
