"""Check that `train --minutes` keeps its budget: wall-clock time of the whole command, in a process of its own.

    python benchmarks/budget.py [--minutes 0.5 1] [--data ../shared/data] [--device cpu] [KIND …]

Prints for each kind of data and each budget: the seconds of the command, whether they are within the limit, the number
of updates, the share of the validation set that was scored at the end, and the load of the machine. The limit is the
budget plus a tenth or five seconds, whichever is more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EMBEDDED = {
    "language": ["docstrings"],
    "labels": ["opinions", "--model", "lstm"],
    "bag": ["opinions", "--model", "bag"],
    "translation": ["dates", "--model", "lstm"],
    "table": ["diabetes", "--model", "mlp"],
    "images": ["digits", "--model", "cnn"],
}
REAL = {
    "WikiText-2": ["wikitext2/train.txt", "--validation", "wikitext2/valid.txt"],
    "IMDB": ["imdb/train.jsonl", "--model", "lstm"],
    "SST-2, bag": ["sst2/train.csv", "--model", "bag"],
    "Multi30k": ["multi30k/train.en-de.tsv", "--data.validation_fraction", "0.17"],
}
"""Public data sets. About 5,000 pairs of Multi30k are held out."""


def measure(words: list[str], minutes: float, out: Path, device: str) -> dict[str, object]:
    command = [sys.executable, "-m", "glassformer.cli.main", "train", *words, "--minutes", str(minutes)]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--device", device, "--out", str(out), "--json"], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.splitlines()[-1]}")
    found = json.loads(done.stdout)
    return {**found, "wall": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="measure only these kinds of data (default: all)")
    parser.add_argument(
        "--minutes", type=float, nargs="+", default=[0.5, 1.0], help="measure these budgets (default 0.5 1)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data"),
        help="read the public data sets from this folder (default %(default)s; skipped if it does not exist)",
    )
    parser.add_argument("--device", default="cpu", help="train on this device (default %(default)s)")
    options = parser.parse_args()
    kinds = dict(EMBEDDED)
    if options.data.is_dir():
        paths = {".txt", ".csv", ".jsonl", ".tsv"}
        kinds |= {
            name: [str(options.data / word) if Path(word).suffix in paths else word for word in words]
            for name, words in REAL.items()
        }
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print("| data | budget, s | command, s | ratio | kept | updates | judged of validation | load |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.kinds or kinds:
        for minutes in options.minutes:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(kinds[name], minutes, Path(folder, "run"), options.device)
            budget, seconds = 60 * minutes, float(found["wall"])
            kept = "yes" if seconds <= budget + max(5, 0.1 * budget) else "no"
            judged = found["validation"].get("judged_share", 1.0)
            why = " (converged)" if found["reason"] == "patience" else ""
            ratio = f"{seconds / budget:.2f}{why}"
            row = (name, f"{budget:.0f}", f"{seconds:.1f}", ratio, kept, found["steps"], f"{judged:.2g}")
            print("|", *(f"{cell} |" for cell in (*row, f"{os.getloadavg()[0]:.1f}")), flush=True)


if __name__ == "__main__":
    main()
