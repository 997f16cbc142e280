"""Compare a bag of words with scikit-learn's TF-IDF and logistic regression: seconds and accuracy.

    python benchmarks/bag.py imdb.jsonl --rounds 3

Both are whole processes, from starting Python to the end, on the same split, in alternating runs. Ours is the command
`train`: it reads the file, splits it, and writes a run with its report. scikit-learn gets the parts as JSON.

Prints wall-clock and CPU seconds (medians) and their ratio to scikit-learn's. CPU seconds depend little on other
programs, least with OMP_NUM_THREADS=1.
"""

import argparse
import resource
import statistics

from labels import ours, peer


def with_cpu(contestant, *arguments):
    """Return the accuracy, wall-clock seconds and CPU seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    scores, seconds, _ = contestant(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return scores[0], seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="read the labelled texts from this file")
    parser.add_argument("--rounds", type=int, default=3, help="train with this many seeds (default %(default)s)")
    options = parser.parse_args()
    results = {"bag": [], "scikit-learn": []}
    for seed in range(options.rounds):
        results["bag"].append(with_cpu(ours, options.data, None, "bag", seed))
        results["scikit-learn"].append(with_cpu(peer, options.data, None, 1))
    medians = {
        name: [statistics.median(column) for column in zip(*rounds, strict=True)] for name, rounds in results.items()
    }
    for name, rounds in results.items():
        accuracy = statistics.mean(accuracy for accuracy, _, _ in rounds)
        _, seconds, cpu = medians[name]
        _, of_peer, cpu_of_peer = medians["scikit-learn"]
        print(
            f"{name:14} accuracy {accuracy:.4f}   {seconds:6.1f} s   {seconds / of_peer:5.2f}   "
            f"CPU {cpu:6.1f} s   {cpu / cpu_of_peer:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
