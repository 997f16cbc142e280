"""Measure how long each command takes to start, relative to `python -c "import torch"`, in alternating runs.

    python benchmarks/startup.py --rounds 3

Trains runs of a few updates first, in a temporary folder. The last column is the median seconds of a command divided by
those of the import. `train` makes one update of a bag and writes its report; `plan` only calculates (`--no-probe`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial

from common import alternating

GLASSFORMER = [sys.executable, "-m", "glassformer"]
RUNS = {
    "bag": ["opinions", "--model", "bag", "--steps", "5"],
    "writer": ["reverse:rows=300", "--steps", "3"],
    "translator": ["reverse-pairs:rows=200", "--model", "lstm", "--steps", "3"],
}
VERBS = {
    "--help": ["--help"],
    "train --epochs five": ["train", "opinions", "--epochs", "five"],
    "predict": ["predict", "bag", "the soup was good"],
    "evaluate": ["evaluate", "bag"],
    "embed": ["embed", "bag", "the soup"],
    "generate": ["generate", "writer", "a", "--tokens", "4"],
    "translate": ["translate", "translator", "a b"],
    "look": ["look", "writer", "a b c", "--out", "look.html"],
    "data": ["data"],
    "data describe": ["data", "describe", "opinions"],
    "check": ["check", "bag", "--only", "batched"],
    "doctor": ["doctor", "bag"],
    "plan --no-probe": ["plan", "opinions", "--no-probe"],
    "plan --no-probe --size giant": ["plan", "opinions", "--no-probe", "--size", "giant"],
    "train --steps 1": ["train", "opinions", "--model", "bag", "--steps", "1", "--out", "new", "--overwrite"],
}


def call(command, folder, refused=False):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode == 2) == refused, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="repeat each measurement (default %(default)s)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every start but the first finds the bytecode
    with tempfile.TemporaryDirectory() as folder:
        for run, words in RUNS.items():
            call([*GLASSFORMER, "train", *words, "--out", run], folder)
        verbs = {
            name: partial(call, [*GLASSFORMER, *words], folder, refused="five" in words)
            for name, words in VERBS.items()
        }
        seconds = alternating(
            {"import torch": partial(call, [sys.executable, "-c", "import torch"], folder), **verbs}, options.rounds
        )
    for name, value in seconds.items():
        print(f"{name:30} {value:6.2f} s   {value / seconds['import torch']:5.2f}", flush=True)


if __name__ == "__main__":
    main()
