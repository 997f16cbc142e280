"""glassformer train"""

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from glassformer.cli.options import Parser, add_settings, add_training_options, training_settings
from glassformer.config.errors import Misuse

EXAMPLE = "glassformer train shakespeare.txt --tokenizer.kind char --model lstm --minutes 5"


def parser() -> Parser:
    made = Parser("train", "DATA", "Train a model on a text, or on texts, tables or images with labels or numbers, and "
                  "leave a run.", EXAMPLE)  # fmt: skip
    made.add_argument("data", nargs="?", metavar="DATA", help="a text file, a folder, a table (.csv, .tsv, .jsonl, "
                      ".parquet), images (a folder of class folders, or .npz), the name of an embedded data set "
                      "(`glassformer data` lists them), or hf:NAME, a data set of the Hugging Face hub")  # fmt: skip
    made.add_argument("--out", metavar="RUN", help="the run's folder (default runs/<data>-<model>-N)")
    add_training_options(made)
    made.add_argument("--folds", type=int, metavar="K", help="cross-validation: K trainings, each validated on another "
                      "part of the rows; the runs are RUN/fold-1 …")  # fmt: skip
    made.add_argument("--refit", action="store_true", help="then train on all rows but the test, for as long as the "
                      "best weights took; what was held out before tells how good it is")  # fmt: skip
    made.add_argument("--resume", action="store_true", help="go on with the run in --out (default: the last one)")
    made.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    add_settings(made)
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    if options.resume and options.overwrite:
        raise Misuse("--resume goes on with a run, --overwrite replaces it: give one of them")
    settings = training_settings(options, "train", given=options.resume)

    if options.folds is not None or (options.resume and options.out and (Path(options.out) / "folds.json").exists()):
        return _folds(options, settings, argv)

    from glassformer.cli.terminal.show import Watcher, print_json, results, say, say_next
    from glassformer.models.build import sized
    from glassformer.verbs.train import train

    first = os.environ.get("RANK", "0") == "0"
    watcher = Watcher()
    try:
        trained = train(
            options.data,
            out=options.out,
            config=options.config,
            resume=options.resume,
            overwrite=options.overwrite,
            refit=options.refit,
            listen=watcher,
            command=shlex.join(["glassformer", "train", *argv]),
            **settings,
        )
    finally:
        watcher.close()
    if not first:
        return 0
    if trained.reason == "interrupted":
        refit = " --refit" * (options.refit and trained.before_refit is None)
        say(f"stopped after step {trained.steps:,} and saved; go on with: "
            f"glassformer train --resume{refit} --out {shlex.quote(trained.run)}")  # fmt: skip
        return 1
    if options.json:
        print_json(trained.to_dict())
    else:
        how_good = f"validation {trained.summary}"
        if trained.before_refit is not None:
            how_good = f"before the refit, on rows held out: {trained.before_refit['words']}"
        size = sized(trained.parameters, trained.learned)
        results.print(
            f"{trained.run}: {trained.model}, {size}, {trained.steps:,} updates in {trained.seconds:.0f} s; {how_good}"
        )
    say_next(trained.run)
    return 0


def _folds(options: argparse.Namespace, settings: dict[str, Any], argv: list[str]) -> int:
    """Cross-validation."""
    if any(key in settings for key in ("data.folds", "data.fold")):
        raise Misuse("--folds trains on every fold, --data.folds and --data.fold on one: give one of them")

    from glassformer.cli.terminal.show import Watcher, print_json, results, say, say_next, table
    from glassformer.trials.cross_validation import cross_validate
    from glassformer.trials.results.metrics import titled

    watcher = Watcher()
    try:
        found = cross_validate(
            options.data,
            folds=options.folds,
            out=options.out,
            refit=options.refit,
            config=options.config,
            resume=options.resume,
            overwrite=options.overwrite,
            listen=watcher,
            command=shlex.join(["glassformer", "train", *argv]),
            **settings,
        )
    finally:
        watcher.close()
    here, refit = shlex.quote(found.out), " --refit" * options.refit
    if found.reason == "interrupted":
        say(f"stopped and saved; go on with: glassformer train --resume{refit} --out {here}")
        return 1
    if options.json:
        print_json(found.to_dict())
    else:
        shown = table("fold", titled(found.primary), "best after")
        for fold in found.folds:
            shown.add_row(str(fold.fold), f"{fold.metrics[found.primary]:.4f}", f"{fold.steps:,} updates")
        results.print(shown)
        results.print(f"{found.out}: {found.model}; {found.words}")
        say(f"note: {found.note}")
    if found.refit is not None:
        say_next(found.out)
    else:
        say(f"next: glassformer train --resume --refit --out {here}, which trains on all rows")
    return 0
