"""Train the runs that ship with lessons, where training takes longer than a reader waits.

    python docs/generate/shipped_runs.py [NAME …]

Each takes minutes. Only the files that a lesson needs are kept, with weights in 16 bits.
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
from glassformer.teaching.lesson import RUNS
from glassformer.verbs.train import train

MAX_BYTES = 300_000
"""Size of a run, all its files together."""
KEPT = ("tokenizer.json", "target_tokenizer.json")
"""Files copied next to the card and the weights, if a run has them."""


class Shipped(NamedTuple):
    """Data and settings of a run."""

    data: str
    settings: dict[str, Any]


def _shipped(data: str, steps: int, **model: Any) -> Shipped:
    settings = {f"model.{name}": value for name, value in model.items()}
    return Shipped(data, {**settings, "training.steps": steps, "training.seed": 0})


SHIPPED = {
    "dates": _shipped("dates:languages=2,rows=6000", 1200, encoder="transformer", layers=2, heads=2, width=32),
    "pronouns": _shipped("pronouns", 800, style="classic", layers=3, heads=3, width=48),
}


def ship(name: str, folder: Path = RUNS, *, data: str | None = None, **changes: Any) -> Path:
    """Train a run of the table and keep it in a folder. `data` and `changes` replace those of the table."""
    refuse_unknown("shipped run", name, SHIPPED)
    with TemporaryDirectory() as place:
        train(data or SHIPPED[name].data, out=Path(place) / name, **{**SHIPPED[name].settings, **changes})
        return keep(Run.open(Path(place) / name), folder / name)


def keep(run: Run, folder: Path) -> Path:
    """Copy a run without checkpoints, logs, pictures and report, with weights in 16 bits."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in KEPT:
        if (run.path / file).is_file():
            shutil.copy(run.path / file, folder)
    weights = {name: weight.to(torch.float16) for name, weight in run.read_weights().items()}
    card = {**run.card(), "command": f"python docs/generate/shipped_runs.py {folder.name}"}
    write_json(folder / CARD, {**card, "weights": Run(folder).write_weights(weights, card)})
    return folder


def size_of(folder: Path) -> int:
    """Return the size of all its files in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SHIPPED:
        kept = ship(chosen)
        print(f"{kept}: {size_of(kept):,} bytes")
