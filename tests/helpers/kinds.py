"""Small examples that are no texts: rows of numbers and categories, and images; as files, and as a model reads them."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.resolve import Config, resolve
from glassformer.data.split.labelled import Labelled

CITIES = ("Rome", "Oslo", "Lima")


def rows_of(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Numbers, a category, and a label that depends on both."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        height, weight = chance.normal(10, 3), chance.normal(-200, 40)
        city = CITIES[number % 3]
        large = height > 10 if city == "Rome" else weight > -200
        rows.append({"height": f"{height:.4f}", "weight": f"{weight:.3f}", "city": city, "size": "SL"[large]})
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def part_of(name: str = "train", labels: Sequence[str] | None = None, **columns: Sequence[str]) -> Labelled:
    """Rows of a table, as a part."""
    size = len(next(iter(columns.values())))
    values = {column: list(given) for column, given in columns.items()}
    texts = [", ".join(f"{column}={given[row]}" for column, given in values.items()) for row in range(size)]
    return Labelled(name, texts, list(labels or ["x"] * size), [row + 2 for row in range(size)], "a.csv", values)


def bars(count: int, size: tuple[int, int] = (11, 7), channels: int = 1, seed: int = 0) -> tuple[Any, list[str]]:
    """Images with a bright bar, lying or standing, on a noisy ground."""
    chance = np.random.default_rng(seed)
    pixels: NDArray[np.uint8] = chance.integers(0, 60, (count, *size, channels)).astype(np.uint8)
    labels = []
    for number in range(count):
        lying = number % 2 == 0
        if lying:
            pixels[number, chance.integers(size[0])] = 250
        else:
            pixels[number, :, chance.integers(size[1])] = 250
        labels.append("lying" if lying else "standing")
    return pixels, labels


def pictures_part(count: int, name: str = "train", **more: Any) -> Labelled:
    pixels, labels = bars(count, **more)
    files = [f"image {number}" for number in range(count)]
    return Labelled(name, files, labels, list(range(1, count + 1)), "some", pixels=pixels)


def write_bars(folder: Path, count: int, **more: Any) -> Path:
    """As a folder of class folders."""
    from PIL import Image

    pixels, labels = bars(count, **more)
    for number, (picture, label) in enumerate(zip(pixels, labels, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture).save(folder / label / f"{number}.png")
    return folder


def config_of(kind: str, encoder: str, task: str = "classification", **more: Any) -> Config:
    settings = {key.replace("__", "."): value for key, value in more.items()}
    return resolve({}, {"task": task, "data.kind": kind, "model.encoder": encoder, **settings})
