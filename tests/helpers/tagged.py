"""Small data with several labels a row: as cells, as lists, as columns of 0 and 1, and as a table of numbers."""

import csv
import json
from pathlib import Path
from random import Random

WORDS = {
    "food": ("soup", "bread", "cook"),
    "money": ("bank", "price", "coin"),
    "sport": ("ball", "goal", "team"),
}
PLAIN = ("the", "of", "and", "on", "with")


def tagged(count: int, seed: int = 0) -> list[tuple[str, list[str]]]:
    """Texts in which two words of each label stand, and its labels: from none to all three."""
    chance = Random(seed)
    rows = []
    for number in range(count):
        labels = sorted(chance.sample(sorted(WORDS), number % 4))
        words = [chance.choice(PLAIN) for _ in range(5)] + [chance.choice(WORDS[name]) for name in labels for _ in "ab"]
        chance.shuffle(words)
        rows.append((f"{' '.join(words)} {number}", labels))
    return rows


def write_cells(path: Path, count: int = 200, separator: str = ";", column: str = "tags") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", column])
        writer.writerows((text, separator.join(labels)) for text, labels in tagged(count))
    return path


def write_lists(path: Path, count: int = 200) -> Path:
    lines = [json.dumps({"text": text, "tags": labels}) for text, labels in tagged(count)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_columns(path: Path, count: int = 200) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *WORDS])
        writer.writerows((text, *(int(name in labels) for name in WORDS)) for text, labels in tagged(count))
    return path


def write_numbers(path: Path, count: int = 200, seed: int = 0) -> Path:
    """Two numbers, each of which makes one label true where it is above 0."""
    chance = Random(seed)
    lines = ["height,weight,labels"]
    for _ in range(count):
        height, weight = chance.gauss(0, 1), chance.gauss(0, 1)
        labels = [name for name, true in (("tall", height > 0), ("heavy", weight > 0)) if true]
        lines.append(f"{height:.4f},{weight:.4f},{'|'.join(labels)}")
    path.write_text("\n".join(lines))
    return path
