"""glassformer tune"""

import shlex

from glassformer.cli.options import Parser, add_settings, add_training_options, training_settings

EXAMPLE = "glassformer tune reviews.csv --model bag,cnn --trials 40 --data.test_fraction 0.1"

SUMMARY = (
    "Search for the best settings on development data: many trainings, judged by the validation part; those that "
    "fall behind are stopped early. The best becomes a recipe for `train --config`, and is trained once more as a "
    "whole run, the only one that looks at the test part. The same command again goes on. Settings of train that are "
    "given are not searched."
)


def parser() -> Parser:
    made = Parser("tune", "DATA", SUMMARY, EXAMPLE)
    made.conflict_handler = "resolve"  # --minutes is for all trials here
    made.add_argument("data", nargs="?", metavar="DATA", help="as for train")
    own = made.add_argument_group("the search")
    add_settings(made)
    own.add_argument("--model", dest="models", metavar="NAMES", help="a model, or several to choose from: bag,cnn "
                      "(default transformer)")  # fmt: skip
    own.add_argument("--trials", type=int, metavar="N", help="in all, earlier ones too (default 30, with --minutes no "
                      "end)")  # fmt: skip
    own.add_argument("--minutes", type=float, metavar="X", help="for all trials together; the last run is on top")
    own.add_argument("--trial-minutes", type=float, metavar="X", help="for each trial, instead of its usual length, "
                      "--steps or --epochs")  # fmt: skip
    own.add_argument("--space", metavar="FILE", help="what is searched, in YAML: model.width: [64, 128] or "
                      "training.lr: {low: 1e-4, high: 1e-2, log: true} (default: by model and data)")  # fmt: skip
    own.add_argument(
        "--show-space", action="store_true", help="print what would be searched, as YAML to edit, and stop"
    )
    own.add_argument("--storage", metavar="FILE", help="where trials are kept: a journal (.log, also on network disks) "
                      "or a database's URL; several machines may share it; what an SQLite file (.db) holds is copied "
                      "into a journal beside it (default OUT/study.log)")  # fmt: skip
    own.add_argument("--study", metavar="NAME", help="of the search in its storage (default <data>-<model>)")
    own.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at once on this machine (default 1)")
    own.add_argument("--seeds", type=int, metavar="N", help="a trial's score is the mean of so many "
                      "trainings (default 1)")  # fmt: skip
    own.add_argument("--folds", type=int, metavar="K", help="a trial's score is the mean over so many folds, each held "
                      "out once: where data is scarce, one part of it tells little")  # fmt: skip
    own.add_argument("--no-pruning", action="store_true", help="train every trial to its end")
    own.add_argument("--no-final", action="store_true", help="do not train the best once more: the test part is then "
                      "never looked at")  # fmt: skip
    own.add_argument("--out", metavar="DIR", help="(default runs/tune-<data>-<model>-N)")
    add_training_options(own, config="settings that are not searched, from a YAML file")
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    settings = training_settings(options, "tune")
    models = options.models or settings.pop("model.encoder", None)
    if options.show_space:
        return _show_space(options.data, models, options.config, settings)

    from glassformer.cli.terminal.show import Watcher, print_json, results, say, say_next
    from glassformer.trials.tune import tune

    data = [] if options.data is None else [options.data]
    watcher = Watcher()
    try:
        tuned = tune(
            options.data,
            model=models,
            trials=options.trials,
            minutes=options.minutes,
            trial_minutes=options.trial_minutes,
            space=options.space,
            storage=options.storage,
            study=options.study,
            jobs=options.jobs,
            seeds=options.seeds,
            folds=options.folds,
            out=options.out,
            config=options.config,
            prune=not options.no_pruning,
            final=not options.no_final,
            say=say,
            listen=watcher,
            **settings,
        )
    except KeyboardInterrupt:
        say("stopped; what was tried is kept: the same command goes on")
        return 1
    finally:
        watcher.close()
    if options.json:
        print_json(tuned.to_dict())
    else:
        results.print(tuned.summary)
        for name, share in list(tuned.importance.items())[:5]:
            results.print(f"  {share:4.0%}  {name}")
        results.print(f"{tuned.recipe}")
    say(f"all trials, and which settings mattered: {tuned.out}/tune.html")
    if tuned.run is None:
        say("next: " + shlex.join(["glassformer", "train", *data, "--config", tuned.recipe]))
    else:
        say_next(tuned.run)
    return 0


def _show_space(data: str | None, models: str | None, config: str | None, settings: dict[str, object]) -> int:
    import yaml

    from glassformer.cli.terminal.show import say
    from glassformer.trials.tune import default_spaces

    spaces = default_spaces(data, model=models, config=config, say=say, **settings)
    print(yaml.safe_dump(spaces, sort_keys=False, default_flow_style=None, width=100), end="")
    say("edit it, and give it back with --space FILE")
    return 0
