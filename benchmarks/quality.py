"""Quality gate: train fixed recipes with fixed seeds and compare the scores with those of the accepted version.

    python benchmarks/quality.py cpu --data FOLDER              # two CPU cores, about 20 minutes
    python benchmarks/quality.py gpu --data FOLDER --jobs 8     # one H200, about 6 minutes
    python benchmarks/quality.py cpu --data FOLDER --accept     # store these scores as the accepted ones
    python benchmarks/quality.py cpu --data FOLDER --only labels

Run it before and after any change that touches numerics. FOLDER holds public data sets: `multi30k/train.en-de.tsv` and
`multi30k/val.en-de.tsv` (Multi30k), `trec6/train.csv` (TREC-6), `shakespeare/input.txt` (tiny Shakespeare). The
accepted scores are in `benchmarks/quality.json`. "detects" is the smallest difference of the means that the test
finds with a probability of 80 %. Exit code 1: a recipe is significantly worse (one-sided t-test, 5 %).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t as student
from scipy.stats import ttest_ind_from_stats

ROOT = Path(__file__).parents[1]
ACCEPTED = Path(__file__).with_suffix(".json")
MULTI30K = ("multi30k/train.en-de.tsv", "--validation", "multi30k/val.en-de.tsv")
SHAKESPEARE = ("shakespeare/input.txt", "--tokenizer.kind", "char")


@dataclass(frozen=True)
class Recipe:
    """A training run and the score to compare, the mean over the seeds."""

    options: tuple[str, ...]
    metric: str
    seeds: int
    evaluation: tuple[str, ...] = ()
    """Options of `evaluate`; empty: the score is the validation score that training reports."""

    @property
    def sign(self) -> int:
        """1 if a higher score is better, else −1."""
        return -1 if self.metric == "loss" else 1


def recipe(text: str, metric: str, seeds: int, evaluation: str = "") -> Recipe:
    return Recipe(tuple(text.split()), metric, seeds, tuple(evaluation.split()))


TRANSLATION, LETTERS = " ".join(MULTI30K), " ".join(SHAKESPEARE)
RECIPES = {
    "cpu": {
        "translation": recipe(
            f"{TRANSLATION} --model transformer --model.layers 2 --model.width 96 --tokenizer.vocab_size 4000"
            " --training.batch_tokens 1024 --steps 400",
            "loss", 5,
        ),
        "labels, bag": recipe("trec6/train.csv --model bag", "accuracy", 6),
        "labels, transformer": recipe("trec6/train.csv --model transformer", "accuracy", 6),
        "language model": recipe(f"{LETTERS} --size nano --model.context 64 --batch-size 12 --steps 600", "loss", 5),
    },
    "gpu": {
        "translation": recipe(f"{TRANSLATION} --config {ROOT}/recipes/multi30k.yaml", "bleu", 8, "--beam 5"),
        "labels, bag": recipe("trec6/train.csv --model bag", "accuracy", 8),
        "labels, transformer": recipe("trec6/train.csv --model transformer", "accuracy", 8),
        "language model": recipe(
            f"{LETTERS} --model.layers 6 --model.heads 6 --model.width 384 --model.context 256 --model.dropout 0.2"
            " --batch-size 64 --steps 700", "loss", 8,
        ),
    },
}  # fmt: skip


def score(recipe: Recipe, seed: int, data: Path) -> float:
    """Train one run in a process of its own and return its score."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*recipe.options, "--seed", str(seed), "--out", f"{folder}/run"]
        trained = glassformer("train", *options, cwd=data)
        if not recipe.evaluation:
            return trained["validation"][recipe.metric]
        return glassformer("evaluate", f"{folder}/run", *recipe.evaluation, cwd=data)[recipe.metric]


def glassformer(*words: str, cwd: Path) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", *words, "--json"], cwd=cwd, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"glassformer {' '.join(words)} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Summary:
    """Scores of one recipe over its seeds."""

    metric: str
    mean: float
    deviation: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.deviation:.4f} ({self.seeds} seeds)"


def is_worse(name: str, recipe: Recipe, now: Summary, accepted: Summary | None) -> bool:
    """Print one line; return whether the scores are significantly worse than the accepted ones."""
    line = f"{name:20} {now.metric:9} {now}"
    if accepted is None:
        print(line, " nothing accepted yet", flush=True)
        return False
    freedom = now.seeds + accepted.seeds - 2
    error = np.sqrt((now.deviation**2 + accepted.deviation**2) / 2 * (1 / now.seeds + 1 / accepted.seeds))
    detects = error * (student.ppf(0.95, freedom) + student.ppf(0.8, freedom))
    p = ttest_ind_from_stats(
        *(recipe.sign * now.mean, now.deviation, now.seeds),
        *(recipe.sign * accepted.mean, accepted.deviation, accepted.seeds),
        alternative="less",
    ).pvalue
    print(
        f"{line}  accepted {accepted}, difference {now.mean - accepted.mean:+.4f}, detects {detects:.4f},"
        f" p(worse) {p:.3f}{'  WORSE' if p < 0.05 else ''}",
        flush=True,
    )
    return bool(p < 0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=RECIPES, help="train these recipes")
    parser.add_argument("--data", type=Path, required=True, help="read the data sets from this folder")
    parser.add_argument("--jobs", type=int, default=2, help="train this many runs at once (default %(default)s)")
    parser.add_argument("--only", default="", help="train only recipes whose name contains this text")
    parser.add_argument("--accept", action="store_true", help="store the scores as the accepted ones")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per run: no run waits for another run's threads
    stored = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    recipes = {name: recipe for name, recipe in RECIPES[options.set].items() if options.only in name}
    worse = False
    print(f"{platform.machine()}, torch {torch.__version__}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {
            name: [pool.submit(score, recipe, seed, options.data) for seed in range(recipe.seeds)]
            for name, recipe in recipes.items()
        }
        for name, recipe in recipes.items():
            scores = [run.result() for run in runs[name]]
            now = Summary(recipe.metric, float(np.mean(scores)), float(np.std(scores, ddof=1)), len(scores))
            accepted = stored.setdefault(options.set, {}).get(name)
            worse |= is_worse(name, recipe, now, accepted and Summary(**accepted))
            if options.accept:
                stored[options.set][name] = asdict(now)
                ACCEPTED.write_text(json.dumps(stored, indent=1) + "\n")
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
