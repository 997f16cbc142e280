"""Runs that come along with lessons, where training takes longer than a reader waits.

    python -m glassformer.teaching.shipped_runs [NAME …]

trains them anew, minutes each, and keeps of each what using it and looking inside needs; weights in 16 bits.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from glassformer.config.errors import refuse_unknown
from glassformer.runs.files import write_json
from glassformer.runs.run import CARD, Run
from glassformer.verbs.train import train

FOLDER = Path(__file__).with_name("runs")
LARGEST = 300_000
"""Bytes of a run, all its files together."""
KEPT = ("tokenizer.json", "target_tokenizer.json")
"""Beside card and weights, where a run has them."""


class Shipped(NamedTuple):
    """What a run is trained on, and how."""

    data: str
    settings: dict[str, Any]


def _shipped(data: str, steps: int, **model: Any) -> Shipped:
    settings = {f"model.{name}": value for name, value in model.items()}
    return Shipped(data, {**settings, "training.steps": steps, "training.seed": 0})


SHIPPED = {
    "dates": _shipped("dates:languages=2,rows=6000", 1200, encoder="transformer", layers=2, heads=2, width=32),
    "pronouns": _shipped("pronouns", 800, style="classic", layers=3, heads=3, width=48),
}


def ship(name: str, folder: Path = FOLDER, *, data: str | None = None, **changes: Any) -> Path:
    """Train a run of the table, on other data and with other settings if asked to, and keep it in a folder."""
    refuse_unknown("shipped run", name, SHIPPED)
    with TemporaryDirectory() as place:
        train(data or SHIPPED[name].data, out=Path(place) / name, **{**SHIPPED[name].settings, **changes})
        return keep(Run.open(Path(place) / name), folder / name)


def keep(run: Run, folder: Path) -> Path:
    """A copy of a run without checkpoints, logs, pictures and report, its weights in 16 bits."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in KEPT:
        if (run.path / file).is_file():
            shutil.copy(run.path / file, folder)
    weights = {name: weight.to(torch.float16) for name, weight in run.read_weights().items()}
    card = {**run.card(), "command": f"python -m glassformer.teaching.shipped_runs {folder.name}"}
    write_json(folder / CARD, {**card, "weights": Run(folder).write_weights(weights, card)})
    return folder


def size_of(folder: Path) -> int:
    """Bytes of all its files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SHIPPED:
        kept = ship(chosen)
        print(f"{kept}: {size_of(kept):,} bytes")
