"""A bag of words trained beside scikit-learn's TF-IDF + logistic regression, by turns: seconds and accuracy.

    python benchmarks/bag.py imdb.jsonl --rounds 3

Both are whole processes, from starting Python to the end, on the same split: ours is the command that a person types,
which reads the file, splits it, and leaves a run with its report; scikit-learn's is handed the parts as JSON. Beside
the seconds stand those of the CPU, which other programs on the machine change little; with OMP_NUM_THREADS=1, hardly.
"""

import argparse
import resource
import statistics

from labels import ours, peer


def with_cpu(contestant, *arguments):
    """(accuracy, seconds, seconds of the CPU) of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    scores, seconds, _ = contestant(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return scores[0], seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
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
