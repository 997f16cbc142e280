"""Small runs of every kind, to be looked at: trained for a few updates, each once."""

import argparse
import inspect
from pathlib import Path
from typing import Any

import glassformer as gf
from helpers.kinds import rows_of, write_bars, write_rows

TINY = {"model.width": 16, "model.layers": 2, "model.heads": 2, "steps": 3}
RECURRENT = {"model.width": 16, "steps": 3}
LETTERS = {"tokenizer.kind": "char", "model.context": 32, "training.samples": False}
OPINIONS = "opinions:rows=400"
MIRRORED = "reverse-pairs:rows=200"
SHORT = {"model.context": 16}
"""Longer than any pair: a translator that has learned nothing writes to the end."""

Kind = tuple[str, dict[str, Any], str]
"""Data, settings, and an example to look at."""

RUNS: dict[str, Kind] = {
    "writer": ("copy", {**TINY, **LETTERS, "model": "transformer"}, "abc>abc"),
    "pairs-of-bytes": (
        "PROSE",
        {
            **TINY,
            "model": "transformer",
            "tokenizer.vocab_size": 300,
            "model.context": 32,
            "model.positions": "learned",
        },
        "Return the list",
    ),
    "lstm-writer": ("copy", {**RECURRENT, **LETTERS, "model": "lstm"}, "abc>abc"),
    "cnn-writer": ("copy", {**RECURRENT, **LETTERS, "model": "cnn"}, "abc>abc"),
    "bag": (OPINIONS, {"model": "bag", "steps": 3}, "good, not bad"),
    "classifier": (OPINIONS, {**TINY, "model": "transformer", "model.pool": "attention"}, "good, not bad"),
    "gru-classifier": (OPINIONS, {**RECURRENT, "model": "gru", "model.bidirectional": True}, "good, not bad"),
    "translator": (MIRRORED, {**TINY, **SHORT, "model": "transformer", "model.decoder_layers": 2}, "abcde"),
    "lstm-translator": (MIRRORED, {**RECURRENT, **SHORT, "model": "lstm"}, "abcde"),
    "bottleneck": (MIRRORED, {**RECURRENT, **SHORT, "model": "gru", "model.attention": "none"}, "abcde"),
    "patches": ("PICTURES", {**TINY, "model": "transformer", "model.patch": 4}, ""),
    "cnn-images": ("PICTURES", {"model": "cnn", "model.width": 16, "steps": 3}, ""),
    "pixels": ("PICTURES", {"model": "linear", "steps": 3}, ""),
    "table": ("ROWS", {"model": "linear", "steps": 3, "label": "size", "data.kind": "table"}, ""),
    "columns": ("ROWS", {**TINY, "model": "transformer", "label": "size", "data.kind": "table"}, ""),
    "regressor": ("ROWS", {"model": "mlp", "steps": 3, "label": "weight", "task": "regression"}, ""),
}


def train_kind(name: str, folder: Path) -> tuple[str, str]:
    """The run, and what to look at."""
    data, settings, example = RUNS[name]
    if data == "PICTURES":
        write_bars(folder / "pictures", 60, size=(12, 8))
        data = str(folder / "pictures")
        example = str(next(Path(data, "lying").iterdir()))
    elif data == "PROSE":
        folder.mkdir(parents=True, exist_ok=True)
        data = str(folder / "prose.txt")
        Path(data).write_text(inspect.getsource(argparse))
    elif data == "ROWS":
        rows = rows_of(120)
        data = str(write_rows(folder / "rows.csv", rows))
        example = '{"height": 11, "weight": -180, "city": "Oslo", "size": "L"}'
    trained = gf.train(data, out=folder / name, keep_checkpoints=name in ("writer", "translator"), **settings)
    return trained.run, example
