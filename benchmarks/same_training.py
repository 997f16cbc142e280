"""Check that two source trees train the same weights, bit for bit.

    python benchmarks/same_training.py BEFORE_TREE [AFTER_TREE] [--only TEXT] [--threads 1]

Trains a model of each family for 50 updates with both source trees and compares the final weights. Each training run
is a process of its own, with the same number of threads. AFTER_TREE is by default the tree of this file. Exits with 1
if any weights differ.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

SMALL = {"model.layers": 2, "model.width": 16}
TRANSFORMER = {**SMALL, "model": "transformer", "model.heads": 2}
LSTM = {**SMALL, "model": "lstm"}
CHARS = {"tokenizer.kind": "char", "model.context": 16}
LETTERS, STORIES, PAIRS = "reverse:rows=400", "pronouns:rows=400", "reverse-pairs:rows=400"
OPINIONS, POSTS, TAGS, HOUSES = "opinions:rows=400", "posts:rows=400", "tags.csv", "houses.csv"

FAMILIES: dict[str, dict[str, Any]] = {
    "language, transformer": {"data": LETTERS, **CHARS, **TRANSFORMER},
    "language, transformer, adamw": {
        "data": LETTERS, **CHARS, **TRANSFORMER, "optimizer": "adamw", "style": "gpt2", "dropout": 0.1,
        "training.accumulation_steps": 2, "training.grad_clip": 0.5,
    },
    "language, lstm": {"data": LETTERS, **CHARS, **LSTM},
    "masked": {"data": STORIES, **CHARS, **TRANSFORMER, "task": "masked-language-model"},
    "labels, bag": {"data": OPINIONS, "model": "bag"},
    "labels, lstm": {"data": OPINIONS, **LSTM},
    "labels, transformer": {"data": OPINIONS, **TRANSFORMER},
    "several labels": {"data": TAGS, **TRANSFORMER},
    "numbers of a table": {"data": HOUSES, **TRANSFORMER},
    "numbers of a table, mlp": {"data": HOUSES, "model": "mlp"},
    "images, cnn": {"data": "digits", **SMALL, "model": "cnn"},
    "images, transformer": {"data": "digits", **TRANSFORMER},
    "text and columns": {"data": POSTS, **TRANSFORMER},
    "translation, transformer": {"data": PAIRS, **CHARS, **TRANSFORMER, "batch_tokens": 400},
    "translation, lstm": {"data": PAIRS, **CHARS, **LSTM, "batch_tokens": 400, "model.attention": "additive"},
    "fine-tuned from masked": {"data": OPINIONS, "from": "masked", "training.layer_decay": 0.9},
}  # fmt: skip
"""Keyword arguments of `gf.train` for each family."""

RENAMED_SETTINGS = {"training.accumulation_steps": "training.accumulate", "training.grad_clip": "training.clip"}
"""Settings used above: present name → former name. A tree that does not know the present name gets the former one."""
RENAMED_WEIGHTS = {"recall": "cross_attention", "around_recall": "around_cross_attention"}
"""Former part of a weight's name → present part. Add an entry here when a commit renames a module."""

ALWAYS = {"steps": 50, "training.keep": "last", "training.device": "cpu", "training.checkpoints": 1, "draft": True}
TRAIN = "import json, sys; import glassformer; glassformer.train(**json.loads(sys.argv[1]))"
SETTINGS = "import json; from glassformer.config.resolve import keys; print(json.dumps(list(keys())))"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="train with the source in this folder")
    parser.add_argument(
        "after",
        type=Path,
        nargs="?",
        default=Path(__file__).parents[1],
        help="compare with the source in this folder (default: this one)",
    )
    parser.add_argument("--only", default="", help="train only families whose name contains this text")
    parser.add_argument("--threads", type=int, default=1, help="train with this many threads (default %(default)s)")
    options = parser.parse_args()
    families = {name: settings for name, settings in FAMILIES.items() if options.only in name}
    if any("from" in settings for settings in families.values()):
        families = {"masked": FAMILIES["masked"], **families}
    wide, all_same = max(map(len, families)), True
    with tempfile.TemporaryDirectory() as folder:
        places = {tree: Path(folder) / name for name, tree in (("before", options.before), ("after", options.after))}
        if len(places) < 2:
            parser.error("both trees are the same one")
        for place in places.values():
            place.mkdir()
            write_tables(place)
        for name, settings in families.items():
            before, after = (
                train(tree.resolve(), place, name, settings, options.threads) for tree, place in places.items()
            )
            said = difference(before, after)
            all_same &= said == "same"
            print(f"{name:{wide}}  {said}", flush=True)
    return 0 if all_same else 1


def run(tree: Path, place: Path, threads: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a source tree, in a process of its own."""
    count = str(threads)
    env = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "GLASSFORMER_CACHE": str(place / "cache"),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
    }
    return subprocess.run([sys.executable, "-c", *words], cwd=place, env=env, capture_output=True, text=True)


def train(tree: Path, place: Path, name: str, settings: dict[str, Any], threads: int) -> dict[str, Tensor] | str:
    """Return the final weights of a training run, or the error."""
    unknown = RENAMED_SETTINGS.keys() - settings_of(tree)
    settings = {RENAMED_SETTINGS[key] if key in unknown else key: value for key, value in settings.items()}
    whole = {**ALWAYS, **settings, "out": name, "training.threads": threads}
    done = run(tree, place, threads, TRAIN, json.dumps(whole))
    if done.returncode:
        return f"{tree.name}: {(done.stderr.strip().splitlines() or ['no word of why'])[-1]}"
    return load_file(place / name / "model.safetensors")


@cache
def settings_of(tree: Path) -> frozenset[str]:
    """Return the dotted keys of all settings that a tree knows."""
    done = run(tree, tree, 1, SETTINGS)
    if done.returncode:
        sys.exit(f"cannot read the settings of {tree}:\n{done.stderr}")
    return frozenset(json.loads(done.stdout))


def difference(before: dict[str, Tensor] | str, after: dict[str, Tensor] | str) -> str:
    """Describe how the weights of two training runs differ; "same" if they are equal bit for bit."""
    if isinstance(before, str) or isinstance(after, str):
        return f"FAILED  {before if isinstance(before, str) else after}"
    before, after = ({present_name(name): value for name, value in weights.items()} for weights in (before, after))
    if before.keys() != after.keys():
        lost, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        return f"differs: other weights: {', '.join(lost) or 'none'} → {', '.join(new) or 'none'}"
    other = [name for name in before if not torch.equal(before[name], after[name])]
    if not other:
        return "same"
    if reshaped := [name for name in other if before[name].shape != after[name].shape]:
        return f"differs: {reshaped[0]} is {tuple(before[reshaped[0]].shape)} → {tuple(after[reshaped[0]].shape)}"
    by = {name: (before[name].double() - after[name].double()).abs().max().item() for name in other}
    worst = max(by, key=by.__getitem__)
    return f"differs by {by[worst]:.2g} ({worst}; {len(other)} of {len(before)} weights)"


def present_name(name: str) -> str:
    """Return the current name of a weight, which may have another name in an older tree."""
    return ".".join(RENAMED_WEIGHTS.get(part, part) for part in name.split("."))


def write_tables(folder: Path) -> None:
    """Write a table of texts with several labels and a table for regression."""
    chance = Random(0)
    words = {"food": ("soup", "bread"), "money": ("price", "coin"), "sport": ("ball", "team")}
    tags, houses = [], []
    for number in range(200):
        names = sorted(chance.sample(sorted(words), number % 4))
        tags.append((f"the {' and '.join(chance.choice(words[name]) for name in names)} {number}", ";".join(names)))
        rooms, town = chance.randint(1, 6), chance.choice(["north", "south", "east"])
        metres = round(25 * rooms + chance.uniform(-9, 9), 1)
        houses.append((rooms, metres, town, round(2.5 * metres + 40 * (town == "south") + chance.uniform(0, 9), 2)))
    for name, columns, rows in ((TAGS, ("text", "tags"), tags), (HOUSES, ("rooms", "metres", "town", "price"), houses)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *rows])


if __name__ == "__main__":
    sys.exit(main())
