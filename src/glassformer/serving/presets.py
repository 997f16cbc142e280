"""Examples to begin with: texts from `presets.toml` for some built-in data sets, otherwise some of their rows."""

import base64
import io
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from PIL import Image

from glassformer.config.errors import GlassformerError
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.families.base import Loaded
from glassformer.families.memory import reader_of

SOME = 4
"""Rows or images of a data set that are offered."""


@cache
def presets() -> Mapping[str, Mapping[str, str]]:
    """Return the texts by data set and by the point of each."""
    return tomllib.loads((files("glassformer.serving") / "presets.toml").read_text("utf-8"))


def presets_of(loaded: Loaded) -> list[dict[str, Any]]:
    """Examples for a run, each with a word on why."""
    spec = loaded.config.data.path or ""
    name = spec.partition(":")[0]
    if is_hub(spec) or name not in DATASETS:
        return []
    if name in presets():
        mask = _mask_of(loaded)
        return [{"name": why, "example": mask(text)} for why, text in presets()[name].items()]
    try:
        return _rows(loaded, spec)
    except GlassformerError:  # a data set of a package that is not here
        return []


def _mask_of(loaded: Loaded) -> Callable[[str], str]:
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
