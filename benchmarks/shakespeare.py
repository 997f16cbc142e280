"""Train small models of about the same size on the characters of tiny Shakespeare: loss over several seeds.

    python benchmarks/shakespeare.py input.txt [--models "transformer;lstm;rnn"] [--seeds 3] [--jobs 1]

The shape is that of nanoGPT's CPU example: 4 layers, 4 heads, width 128, context 64, batches of 12, 2,000 updates. The
other encoders have about as many weights. The last tenth is the validation set. The loss covers all of it, in
non-overlapping windows of 64.
"""

import argparse
import json
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from glassformer.verbs.train import train

RECIPES = {
    "transformer": {},
    "transformer, AdamW": {"optimizer": "adamw", "lr": 3e-3},
    "transformer, gpt2 style, AdamW": {"style": "gpt2", "optimizer": "adamw", "lr": 3e-3},
    "lstm": {"model": "lstm"},
    "gru": {"model": "gru"},
    "rnn": {"model": "rnn"},
    "cnn": {"model": "cnn"},
    "window": {"model": "window"},
}


def one(data, name, seed, steps):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(
            data, out=Path(folder) / "run", steps=steps, seed=seed, batch_size=12, device="cpu",
            tokenizer={"kind": "char"}, training={"samples": False, "validate_every": max(1, steps // 4)},
            **{"model.context": 64, **RECIPES[name]},
        )  # fmt: skip
    row = {"model": name, "seed": seed, "parameters": trained.parameters, "loss": round(trained.validation["loss"], 4),
           "ms_per_step": round(1000 * trained.seconds / trained.steps, 1)}  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="train on this text file")
    parser.add_argument(
        "--models",
        default="transformer;lstm;rnn",
        help="train these recipes, separated by semicolons, or all (default %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=3, help="train with this many seeds (default %(default)s)")
    parser.add_argument("--steps", type=int, default=2000, help="train for this many updates (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="train this many models at once (default %(default)s)")
    options = parser.parse_args()
    names = list(RECIPES) if options.models == "all" else options.models.split(";")
    work = [(options.data, name, seed, options.steps) for name in names for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(one, *zip(*work, strict=True)))
    print("| model | parameters | validation loss, mean ± deviation | ms a step, one thread |\n|---|---|---|---|")
    for name in names:
        mine = [row for row in rows if row["model"] == name]
        losses = [row["loss"] for row in mine]
        spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
        speed = statistics.median(row["ms_per_step"] for row in mine)
        print(f"| {name} | {mine[0]['parameters']:,} | {statistics.mean(losses):.3f} ± {spread:.3f} | {speed:.0f} |")


if __name__ == "__main__":
    main()
