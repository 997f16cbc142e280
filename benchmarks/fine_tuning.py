"""A sentence encoder of somebody else's on few labels: frozen, fine-tuned, and by way of reviews of another kind.

    python benchmarks/fine_tuning.py RUN train.csv dev.csv [--reviews reviews.jsonl] [--seeds 3] [--precision bf16]

RUN: all-MiniLM-L6-v2, imported. Every row is trained by the commands that a person types; every seed holds out another
tenth of train.csv. dev.csv is scored, never chosen by.

`--reviews` (texts of several sentences with the same labels) adds the row "by way of reviews": the encoder learns first
from these, whole and a few sentences of each, and from train.csv after it.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPE = Path(__file__).parent.parent / "recipes" / "fine-tune-sst2.yaml"
WORDS = range(5, 46)
"""Of a sentence that is worth judging."""


def glassformer(*words):
    command = [sys.executable, "-m", "glassformer.cli.main", *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def mixed(reviews, out):
    """Every review, and its first two and last three sentences, where a verdict stands, with its label."""
    with open(reviews) as source, open(out, "w") as target:
        for row in map(json.loads, source):
            text = re.sub(r"<[^>]*>", " ", row["text"]).strip()
            found = [one for one in re.split(r"(?<=[.!?])\s+", text) if len(one.split()) in WORDS]
            for one in dict.fromkeys([text, *found[:2], *found[-3:]]):
                print(json.dumps({"text": one, "label": row["label"]}), file=target)


def rows_of(run, train, dev, reviews, seed, precision, folder):
    """Accuracy on dev, by name."""

    def trained(name, data, *more, test=True):
        scored = ["--test", dev, "--data.split_seed", seed] if test else []
        said = ["--seed", seed, "--training.precision", precision, "--out", folder / name, "--json"]
        found = json.loads(glassformer("train", data, *more, *scored, *said))
        return found["test"]["accuracy"] if test else None

    tuned = ["--config", RECIPE, "--from"]
    yield "bag of words", trained("bag", train, "--model", "bag")
    yield "Transformer from nothing", trained("scratch", train, "--model", "transformer")
    yield "frozen", trained("frozen", train, "--from", run, "--training.last_blocks", 0, "--lr", 0.01, "--epochs", 10)
    yield "fine-tuned", trained("tuned", train, *tuned, run)
    if reviews:
        mixed(reviews, folder / "mixed.jsonl")
        gently = ["--training.layer_decay", 0.9]
        first = [*tuned, run, *gently, "--lr", 1e-4, "--epochs", 2, "--batch-size", 64, "--model.context", 192]
        trained("first", folder / "mixed.jsonl", *first, test=False)
        yield "by way of reviews", trained("last", train, *tuned, folder / "first", *gently, "--epochs", 3)


def main():
    parser = argparse.ArgumentParser()
    for name in ("run", "train", "dev"):
        parser.add_argument(name)
    parser.add_argument("--reviews")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", default="auto")
    options = parser.parse_args()
    scores = {}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as place:
            given = (options.run, options.train, options.dev, options.reviews, seed, options.precision, Path(place))
            for name, score in rows_of(*given):
                scores.setdefault(name, []).append(score)
                print(f"seed {seed}  {name:26} {score:.4f}", flush=True)
    for name, found in scores.items():
        print(f"{name:26} {statistics.mean(found):.4f}   ({', '.join(f'{one:.4f}' for one in found)})")


if __name__ == "__main__":
    main()
