"""Measure what verifying the weights adds to `glassformer predict`, compared with `--no-verify`.

    python benchmarks/verification.py --turns 7

Uses a small run and one with about 100 MB of weights, both trained for one update. Prints CPU seconds with one thread,
which a busy machine changes least. The commands alternate, each in a process of its own. It also measures loading in
this process, and the digest alone.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.runs.files import read_tensors, tensors_digest

RUNS = {
    "small": {"model.layers": 2, "model.width": 64, "model.heads": 2},
    "large": {"model.layers": 8, "model.width": 512, "model.heads": 8},
}


def processor_seconds():
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def seconds(function):
    before = processor_seconds()
    function()
    return processor_seconds() - before


def command(run, *more):
    words = [sys.executable, "-m", "glassformer.cli.main", "predict", str(run), "abc", *more]
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def measure(run, turns):
    ways = {
        "command": lambda: command(run),
        "command, --no-verify": lambda: command(run, "--no-verify"),
        "load": lambda: gf.load(run, "cpu"),
        "load, verify=False": lambda: gf.load(run, "cpu", verify=False),
    }
    taken = {name: [] for name in [*ways, "digest"]}
    tensors = read_tensors(run / "model.safetensors")
    for _ in range(turns):
        for name, way in ways.items():
            taken[name].append(seconds(way))
        taken["digest"].append(seconds(lambda: tensors_digest(tensors)))
    return {name: statistics.median(times) for name, times in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7, help="repeat each measurement (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{load}; medians of {options.turns} turns, processor seconds")
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in RUNS.items():
            run = Path(folder) / name
            short = {"tokenizer.kind": "char", "model.context": 16, "training.samples": False, "batch_size": 2}
            gf.train("reverse:rows=60", out=run, steps=1, **short, **sizes)
            size = (run / "model.safetensors").stat().st_size / 1e6
            taken = measure(run, options.turns)
            print(f"{name}, {size:.1f} MB:", ", ".join(f"{way} {value:.3f}" for way, value in taken.items()))
            print(f"  verifying / the command without it: {taken['digest'] / taken['command, --no-verify']:.1%}")


if __name__ == "__main__":
    main()
