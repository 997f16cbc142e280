"""Fine-tune an imported sentence encoder on few labels, and compare it with models trained from scratch.

    python benchmarks/fine_tuning.py RUN train.csv dev.csv [--reviews reviews.jsonl] [--seeds 3] [--precision bf16]

RUN is the imported all-MiniLM-L6-v2. Every model is trained by the commands that a user types. Every seed holds out
another tenth of train.csv. dev.csv is scored and never used to choose anything.

`--reviews` (texts of several sentences with the same labels) adds the row "by way of reviews": the encoder is
fine-tuned on whole reviews and on a few sentences of each, and then on train.csv.
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
"""Number of words of a sentence that is kept."""


def glassformer(*words):
    command = [sys.executable, "-m", "glassformer.cli.main", *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def mixed(reviews, out):
    """Write every review, and its first two and last three sentences, which often state the opinion, with its label."""
    with open(reviews) as source, open(out, "w") as target:
        for row in map(json.loads, source):
            text = re.sub(r"<[^>]*>", " ", row["text"]).strip()
            found = [one for one in re.split(r"(?<=[.!?])\s+", text) if len(one.split()) in WORDS]
            for one in dict.fromkeys([text, *found[:2], *found[-3:]]):
                print(json.dumps({"text": one, "label": row["label"]}), file=target)


def rows_of(run, train, dev, reviews, seed, precision, folder):
    """Yield the name of each model and its accuracy on dev."""

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    helps = {
        "run": "fine-tune this imported encoder",
        "train": "train on these labelled texts",
        "dev": "score these labelled texts",
    }
    for name, text in helps.items():
        parser.add_argument(name, help=text)
    parser.add_argument("--reviews", help="fine-tune on these reviews first (adds a row)")
    parser.add_argument("--seeds", type=int, default=3, help="train with this many seeds (default %(default)s)")
    parser.add_argument("--precision", default="auto", help="train in this precision (default %(default)s)")
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
