"""Compare classifiers with scikit-learn's TF-IDF and logistic regression on the same training and held-out texts.

    python benchmarks/labels.py trec.csv --models bag,average,cnn,lstm,transformer --seeds 3
    python benchmarks/labels.py imdb.jsonl --models bag,bag:bigrams --seeds 1
    python benchmarks/labels.py opinions --models bag,lstm,transformer --seeds 3
    python benchmarks/labels.py sst2.csv --also dev.csv

Each model is trained in a process of its own: ours by `glassformer train` with its default settings. Seconds are for
the whole process, from starting Python to the end; ours includes writing a run with its figures. Memory is the highest
peak of any process so far, so our models are measured first. The texts of --also are scored and never used to choose
anything.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from glassformer.config.presets import label_kind_of
from glassformer.data.columns.inference import choose_columns
from glassformer.data.io.table import read_table
from glassformer.data.split.labelled import whole_table
from glassformer.families.build import split_data
from glassformer.families.recognition import infer_config

PEER = """
import json, sys
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
parts = json.load(open(sys.argv[1]))
features = TfidfVectorizer(ngram_range=(1, int(sys.argv[2])))
model = LogisticRegression(max_iter=1000)
model.fit(features.fit_transform(parts["train"][0]), parts["train"][1])
print(json.dumps([model.score(features.transform(texts), labels) for texts, labels in list(parts.values())[1:]]))
"""


def peer(data, also, longest):
    """Train scikit-learn on glassformer's split, with word n-grams up to `longest`."""
    config, table = infer_config({}, {"data.path": data})
    parts = split_data(config, table).parts
    held = {"train": parts["train"], "held": parts.get("test", parts["validation"])}
    if also:
        other = read_table(also, config.data)
        held["also"] = whole_table(other, choose_columns(other, config.data, label_kind_of(config.task)), "given", None)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({name: (part.texts, part.labels) for name, part in held.items()}, file)
        file.flush()
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", PEER, file.name, str(longest)], capture_output=True, check=True)
        seconds = time.perf_counter() - began
    return json.loads(done.stdout), seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def ours(data, also, model, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "glassformer.cli.main"]
        train = [*command, "train", data, "--model", model, "--seed", str(seed), "--out", folder + "/run", "--json"]
        began = time.perf_counter()
        done = subprocess.run(train, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - began
        trained = json.loads(done.stdout.splitlines()[-1])
        scores = [(trained.get("test") or trained["validation"])["accuracy"]]
        if also:
            done = subprocess.run(
                [*command, "evaluate", folder + "/run", also, "--json"], capture_output=True, text=True
            )
            scores.append(json.loads(done.stdout.splitlines()[-1])["accuracy"])
    return scores, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def show(name, results):
    columns = zip(*(scores for scores, _, _ in results), strict=True)
    shown = [
        f"{statistics.mean(column):.4f}" + (f" ± {statistics.stdev(column):.4f}" if len(column) > 1 else "")
        for column in columns
    ]
    seconds = statistics.mean(seconds for _, seconds, _ in results)
    print(
        f"{name:24} {'   '.join(shown):36} {seconds:7.1f} s   {max(memory for *_, memory in results):5.2f} GiB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="train on this file or embedded data set")
    parser.add_argument("--also", help="score these texts too")
    parser.add_argument(
        "--models",
        default="bag,bag:bigrams,average,cnn,rnn,lstm,gru,bilstm,transformer",
        help="train these models, separated by commas (default %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=3, help="train with this many seeds (default %(default)s)")
    options = parser.parse_args()
    for model in options.models.split(","):
        show(model, [ours(options.data, options.also, model, seed) for seed in range(options.seeds)])
    show("scikit-learn, words", [peer(options.data, options.also, 1)])
    show("scikit-learn, bigrams", [peer(options.data, options.also, 2)])


if __name__ == "__main__":
    main()
