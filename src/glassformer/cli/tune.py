"""glassformer tune"""

import shlex

from glassformer.cli.options import ALL_SECTIONS, JSON, LOG_TO, PLACE, TASK, Option, Parser, flag, training_settings
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import say, say_next, show_result, show_text
from glassformer.config.resolve import check_config

SEARCH = [
    Option("--model", dest="models", metavar="NAMES", help="a model, or several to choose from: bag,cnn (default "
           "transformer)"),
    Option("--trials", type=int, metavar="N", help="in all, earlier ones too (default 30, with --minutes no end)"),
    Option("--minutes", type=float, metavar="X", help="for all trials together; the last run is on top"),
    Option("--trial-minutes", type=float, metavar="X", help="for each trial, instead of its usual length, --steps or "
           "--epochs"),
    Option("--space", metavar="FILE", help="what is searched, in YAML: model.width: [64, 128] or training.lr: {low: "
           "1e-4, high: 1e-2, log: true} (default: by model and data)"),
    flag("--show-space", "print what would be searched, as YAML to edit, and stop"),
    Option("--storage", metavar="FILE", help="where trials are kept: a journal (.log, also on network disks) or a "
           "database server's URL; several machines may share it (default OUT/study.log)"),
    Option("--study", metavar="NAME", help="of the search in its storage (default <data>-<model>)"),
    Option("--jobs", default=1, metavar="N", help="processes at once (default 1); auto: one for each GPU"),
    *PLACE,
    Option("--seeds", type=int, metavar="N", help="a trial's score is the mean of so many trainings (default 1)"),
    Option("--folds", type=int, metavar="K", help="a trial's score is the mean over so many folds, each held out once: "
           "where data is scarce, one part of it tells little"),
    flag("--no-pruning", "train every trial to its end"),
    flag("--no-final", "do not train the best once more: the test part is then never looked at"),
    Option("--out", check=check_folder, metavar="DIR", help="(default runs/tune-<data>-<model>-N)"),
    Option("--config", check=check_config, metavar="FILE", help="settings that are not searched, from a YAML file"),
    TASK,
    LOG_TO,
    JSON,
]  # fmt: skip

PARSER = Parser(
    "tune",
    "DATA",
    "Search for the best settings on development data: many trainings, judged by the validation part; those that fall "
    "behind are stopped early. The best becomes a recipe for `train --config`, and is trained once more as a whole "
    "run, the only one that looks at the test part. The same command again goes on. Settings of train that are given "
    "are not searched.",
    "glassformer tune reviews.csv --model bag,cnn --trials 40 --data.test_fraction 0.1",
    [Option("data", nargs="*", metavar="DATA", help="as for train")],
    groups={"the search": SEARCH},
    settings=ALL_SECTIONS,
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    settings = training_settings(options, "tune")
    models = options.models or settings.pop("model.encoder", None)
    if options.show_space:
        _show_space(options.data, models, options.config, settings)
        return

    from glassformer.cli.terminal.progress import Watcher
    from glassformer.trials.tune import tune

    try:
        with Watcher() as watcher:
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
                on=options.on,
                sbatch=options.sbatch,
                seeds=options.seeds,
                folds=options.folds,
                out=options.out,
                log_to=options.log_to,
                config=options.config,
                prune=not options.no_pruning,
                final=not options.no_final,
                say=say,
                listen=watcher,
                **settings,
            )
    except KeyboardInterrupt:
        say("stopped; what was tried is kept: the same command goes on")
        raise SystemExit(1) from None
    importance = [f"  {share:4.0%}  {name}" for name, share in list(tuned.importance.items())[:5]]
    lines = "\n".join([tuned.summary, *importance, tuned.recipe])
    show_result(tuned, as_json=options.json, show=lambda: show_text(lines))
    say(f"all trials, and which settings mattered: {tuned.out}/tune.html")
    if tuned.run is None:
        data = [] if options.data is None else [options.data]
        say("next: " + shlex.join(["glassformer", "train", *data, "--config", tuned.recipe]))
    else:
        say_next(tuned.run)


def _show_space(data: str | None, models: str | None, config: str | None, settings: dict[str, object]) -> None:
    import yaml

    from glassformer.trials.tune import default_spaces

    spaces = default_spaces(data, model=models, config=config, say=say, **settings)
    print(yaml.safe_dump(spaces, sort_keys=False, default_flow_style=None, width=100), end="")
    say("edit it, and give it back with --space FILE")
