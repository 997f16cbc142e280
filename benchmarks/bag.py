"""A bag of words trained beside scikit-learn's TF-IDF + logistic regression, by turns: seconds and accuracy.

    python benchmarks/bag.py imdb.jsonl --rounds 3

Both are whole processes, from starting Python to the end, on the same split: ours is the command that a person types,
which reads the file, splits it, and leaves a run with its report; scikit-learn's is handed the parts as JSON.
"""

import argparse
import statistics

from labels import ours, peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results = {"bag": [], "scikit-learn": []}
    for seed in range(options.rounds):
        results["bag"].append(ours(options.data, None, "bag", seed))
        results["scikit-learn"].append(peer(options.data, None, 1))
    seconds = {name: statistics.median(seconds for _, seconds, _ in rounds) for name, rounds in results.items()}
    for name, rounds in results.items():
        accuracy = statistics.mean(scores[0] for scores, _, _ in rounds)
        ratio = seconds[name] / seconds["scikit-learn"]
        print(f"{name:14} accuracy {accuracy:.4f}   {seconds[name]:6.1f} s   {ratio:5.2f}", flush=True)


if __name__ == "__main__":
    main()
