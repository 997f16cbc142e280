"""Examples to begin with: sentences with a point each for the data sets that come along, else some of their rows."""

import base64
import io
from collections.abc import Mapping
from itertools import islice
from typing import Any

from PIL import Image

from glassformer.config.errors import GlassformerError
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.families.base import Loaded
from glassformer.families.schema import reader_of

SOME = 4
"""Rows or images of a data set that are offered."""

PRESETS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "docstrings": (
        ("seen before", "read the file, then close the"),
        ("what follows", "Return the"),
        ("an open bracket", "The list [1, 2, 3"),
        ("an open if", "If the argument is not a string, raise"),
    ),
    "stdlib": (
        ("a function begins", "def __init__(self"),
        ("indentation", "for name in names:\n    if name"),
        ("a name seen before", "import os\n\npath = os."),
    ),
    "copy": (("say it again", "abcd>"), ("half said", "abcdef>abc"), ("the same letter twice", "aabb>aa")),
    "reverse": (("backwards", "abcd>"), ("half said", "abcdef>fed")),
    "add": (("a sum", "27+45="), ("a carry", "58+67="), ("no carry", "12+34=")),
    "recall": (("asked again", "k7c1f3a9?k"), ("the last pair", "k7c1f3a9?a")),
    "pronouns": (
        ("whom she means", "ruth met bruno behind the house . she"),
        ("whom he means", "ruth met bruno behind the house . he"),
        ("named last", "in spring carl and olga were on the train . it was a warm day . she"),
    ),
    "senses": (
        ("a bank of a river", "we spoke of the reeds and the ferry . the bank"),
        ("a bank with money", "we spoke of the loan and the cashier . the bank"),
        ("an animal", "yesterday she saw the cave , then the moth . the bat"),
        ("a thing to hit with", "yesterday she saw the umpire , then the ball . the bat"),
    ),
    "balance": (("balanced", "abba"), ("one-sided", "aaba"), ("longer", "abababab")),
    "opinions": (
        ("only order tells", "the soup was good, not bad at all"),
        ("the same words, turned", "the soup was bad, not good at all"),
        ("a negation far away", "nobody could call the pizza delicious"),
        ("plain praise", "we loved the friendly waiters"),
    ),
    "dates": (
        ("French", "le 14 juillet 1989"),
        ("American", "July 4, 1976"),
        ("German", "3. Oktober 1990"),
        ("which is the month?", "5/31/2024"),
    ),
    "reverse-pairs": (("backwards", "abcd"), ("a palindrome", "racecar"), ("all alike", "aaaa")),
    "add-pairs": (("a sum", "27+45"), ("a carry", "58+67")),
    "reviews": (
        ("praise", "A wonderful film, full of life."),
        ("only order tells", "Not good, just bad."),
        ("a turn", "It begins slowly, but the end is brilliant."),
    ),
}
"""What each shows, and the text."""


def presets_of(loaded: Loaded) -> list[dict[str, Any]]:
    """Examples for a run, each with a word on why."""
    spec = loaded.config.data.path or ""
    name = spec.partition(":")[0]
    if is_hub(spec) or name not in DATASETS:
        return []
    if name in PRESETS:
        mask = _mask_of(loaded)
        return [{"name": why, "example": mask(text)} for why, text in PRESETS[name]]
    try:
        return _rows(loaded, spec)
    except GlassformerError:  # a data set of a package that is not here
        return []


def _mask_of(loaded: Loaded) -> Any:
    """A masked model is asked for the last word of a text."""
    tokenizer = loaded.tokenizer
    if tokenizer is None or tokenizer.mask is None:
        return lambda text: text
    return lambda text: " ".join([*text.split()[:-1], "<mask>"])


def _rows(loaded: Loaded, spec: str) -> list[dict[str, Any]]:
    data = open_dataset(spec)
    if data.images is not None:
        pixels, labels = data.images()
        first = [labels.index(label) for label in sorted(set(labels))]
        return [{"name": labels[at], "example": _png(pixels[at])} for at in first]
    reader = reader_of(loaded, "predict")
    wanted = [name for name in (*reader.columns, reader.text) if name is not None]
    out = []
    for number, row in enumerate(islice(data.rows(), SOME), 1):
        values = dict(zip(data.columns, row, strict=True))
        example = {name: values.get(name, "") for name in wanted} if reader.columns else values[reader.text or "text"]
        out.append({"name": f"{'row' if reader.columns else 'text'} {number}", "example": example})
    return out


def _png(pixels: Any) -> str:
    """An image's file, as pages send one."""
    held = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(held, "PNG")
    return base64.b64encode(held.getvalue()).decode()
