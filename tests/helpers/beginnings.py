"""Small runs to begin from, of each task, and data to go on with."""

from pathlib import Path
from typing import Any

from glassformer.verbs.train import train

BODY = {"model.width": 16, "model.heads": 2, "model.layers": 2, "model.context": 32}
TEXTS = [f"{who} {what} the {where} {number}" for number in range(10) for who in ("we", "you") for what, where in
         (("liked", "soup"), ("loved", "view"), ("hated", "tea"), ("left", "room"))]  # fmt: skip
CLASSES = {"liked": "good", "loved": "good", "hated": "bad", "left": "bad"}


def labelled_texts() -> list[tuple[str, str]]:
    return [(text, CLASSES[text.split()[1]]) for text in TEXTS]


def write_data(folder: Path) -> dict[str, str]:
    """A file for each kind of data."""
    rows = {
        "text": "\n\n".join(TEXTS),
        "labels": "\n".join(["text,label", *(f"{text},{label}" for text, label in labelled_texts())]),
        "numbers": "\n".join(["text,grade", *(f"{text},{len(text)}.5" for text in TEXTS)]),
        "several": "\n".join(["text,tags", *(f"{text},{label}|{text[0]}" for text, label in labelled_texts())]),
        "pairs": "\n".join(["source\ttarget", *(f"{text}\t{text[::-1]}" for text in TEXTS)]),
    }  # fmt: skip
    endings = {"text": ".txt", "pairs": ".tsv"}
    paths = {name: folder / f"{name}{endings.get(name, '.csv')}" for name in rows}
    for name, path in paths.items():
        path.write_text(rows[name], encoding="utf-8")
    return {name: str(path) for name, path in paths.items()}


def quick(data: str | None = None, *, out: Path, steps: int = 2, **settings: Any) -> Path:
    """A short training without pictures; gives its folder."""
    held_out = {"data.validation_fraction": 0.05}
    train(data, out=out, draft=True, **{**held_out, "training.steps": steps, "training.device": "cpu", **settings})
    return out
