"""glassformer train"""

import os
import shlex

from glassformer.cli.inputs import PAIR_FILES
from glassformer.cli.options import Parser, add_settings, settings_of
from glassformer.config.errors import Misuse
from glassformer.config.presets import TASKS

EXAMPLE = "glassformer train shakespeare.txt --tokenizer.kind char --model lstm --minutes 5"


def parser() -> Parser:
    made = Parser("train", "DATA", "Train a model on a text, or on texts, tables or images with labels or numbers, and "
                  "leave a run.", EXAMPLE)  # fmt: skip
    made.add_argument("data", nargs="?", metavar="DATA", help="a text file, a folder, a table (.csv, .tsv, .jsonl, "
                      ".parquet), images (a folder of class folders, or .npz), or the name of an embedded data set "
                      "(`glassformer data` lists them)")  # fmt: skip
    made.add_argument("--out", metavar="RUN", help="the run's folder (default runs/<data>-<model>-N)")
    made.add_argument("--config", metavar="FILE", help="settings from a YAML file; flags win over it")
    made.add_argument("--task", metavar="NAME", help=f"what is learned: {', '.join(TASKS)} (default: from the data)")
    made.add_argument("--resume", action="store_true", help="go on with the run in --out (default: the last one)")
    made.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(made)
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    settings = settings_of(options)
    if options.task:
        settings["task"] = options.task
    if options.resume and options.overwrite:
        raise Misuse("--resume goes on with a run, --overwrite replaces it: give one of them")
    if options.data is None and not (options.resume or options.config or PAIR_FILES.intersection(settings)):
        raise Misuse("DATA is missing (see glassformer train --help)")

    from glassformer.cli.show import Watcher, print_json, results, say, say_next
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
            listen=watcher,
            command=shlex.join(["glassformer", "train", *words]),
            **settings,
        )
    finally:
        watcher.close()
    if not first:
        return 0
    if trained.reason == "interrupted":
        say(f"stopped after step {trained.steps:,} and saved; go on with: "
            f"glassformer train --resume --out {shlex.quote(trained.run)}")  # fmt: skip
        return 1
    if options.json:
        print_json(trained.to_dict())
    else:
        results.print(
            f"{trained.run}: {trained.model}, {trained.parameters:,} parameters, {trained.steps:,} updates in "
            f"{trained.seconds:.0f} s; validation {trained.words}"
        )
    say_next(trained.run)
    return 0
