"""Measure the seconds to grade 100 submissions of one lesson, optionally next to another version of the source.

    git worktree add /tmp/before COMMIT
    python benchmarks/grading.py --other /tmp/before/src --rounds 3

Each submission is a copy of the lesson's solution. Each measurement starts a new process; the versions alternate.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import glassformer as gf

GRADE = """
import sys, time
import glassformer as gf
began = time.perf_counter()
grades = gf.grade(sys.argv[2:], sys.argv[1], seed=1)
print(time.perf_counter() - began, len({one.points for one in grades}) == 1)
"""


def seconds(source: str, lesson: str, files: list[str]) -> float:
    command = [sys.executable, "-P", "-c", GRADE, lesson, *files]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=True)
    took, alike = done.stdout.split()
    assert alike == "True", "the same submission got different points"
    return float(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", metavar="SRC", help="compare with the source in this folder")
    parser.add_argument("--lesson", default="attention", help="grade this lesson (default %(default)s)")
    parser.add_argument(
        "--submissions", type=int, default=100, help="grade this many submissions (default %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repeat each measurement (default %(default)s)")
    options = parser.parse_args()
    sources = [str(Path(gf.__file__).parents[1]), *filter(None, [options.other])]
    took: dict[str, list[float]] = {source: [] for source in sources}
    with tempfile.TemporaryDirectory() as folder:
        solution = gf.lesson(options.lesson).write(folder, solution=True)
        files = [f"{folder}/{number}.ipynb" for number in range(options.submissions)]
        for file in files:
            Path(file).write_bytes(solution.read_bytes())
        for _ in range(options.rounds):
            for source in sources:
                took[source].append(seconds(source, options.lesson, files))
    for source, every in took.items():
        print(f"{statistics.median(every):6.1f} s  (of {', '.join(f'{one:.1f}' for one in every)})  {source}")
    if options.other:
        mine, other = (statistics.median(took[source]) for source in sources)
        print(f"{mine / other:.2f} times")


if __name__ == "__main__":
    main()
