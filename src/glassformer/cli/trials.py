"""glassformer compare and glassformer tune"""

import shlex

from glassformer.cli.options import (
    ALL_SECTIONS,
    CONFIG,
    JSON,
    LOG_TO,
    PLACE,
    TASK,
    Option,
    Parser,
    flag,
    training_settings,
    values_of,
)
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import say, say_next, show_result, show_text
from glassformer.config.resolve import check_config

COMPARE = Parser(
    "compare",
    "DATA",
    "Which model suits your data, and is the Transformer worth it? The ladder of models on the same split, tokens and "
    "examples, each in a process of its own; what is done is kept, and the same command goes on.",
    "glassformer compare opinions --models bag,lstm,transformer --minutes 1\n"
    "  glassformer compare opinions --model transformer --vary model.heads=1,2,4 --seeds 3\n"
    "  glassformer compare docstrings --ablate --steps 500\n"
    "  glassformer compare opinions --models bag,transformer --from runs/minilm",
    [
        Option("data", nargs="*", metavar="DATA", help="data, as for train: a text file, a folder, a table, "
               "images, the name of an embedded data set, or hf:NAME, one of the hub"),
        Option("--models", metavar="NAMES", help="with commas between them, as train --model takes them, or "
               "lstm:no-attention (default: the ladder for this data)"),
        Option("--seeds", type=int, metavar="N", help="trainings of each model (default 3)"),
        Option("--folds", type=int, metavar="K", help="instead of seeds: one training for each fold held out"),
        Option("--vary", action="append", metavar="KEY=A,B", help="try a setting with these values; given "
               "several times: every combination"),
        flag("--ablate", "take the Transformer's parts out, one at a time"),
        Option("--fractions", metavar="A,B", help="learn from these parts of the training data: 0.1,0.3,1"),
        Option("--sizes", metavar="NAMES", help="models of these sizes: nano,tiny,small"),
        Option("--parameters", metavar="N", help="make each model so wide that it has about so many"),
        Option("--cpu-seconds", type=float, metavar="X", help="train each for as many updates as one core makes in "
               "that time, however busy the machine is (other budgets: --steps, --epochs, --minutes)"),
        Option("--jobs", metavar="N", help="trainings at once; here they share the cores (default 1; with --on, as "
               "many as there is room for); auto: one on each GPU, or several where they fit by their plans"),
        *PLACE,
        Option("--runs", metavar="RUNS", help="trained before, with commas between them: judged on the same examples"),
        flag("--no-floors", "leave out what learns nothing, or only counts"),
        flag("--no-references", "leave out scikit-learn's models"),
        Option("--out", check=check_folder, metavar="DIR", help="where all of it goes (default runs/compare-<data>-N)"),
        flag("--overwrite", "replace the comparison in --out"),
        CONFIG,
        TASK,
        LOG_TO,
        JSON,
    ],
    settings=ALL_SECTIONS,
)  # fmt: skip
COMPARE_ARGUMENTS = (
    "models", "seeds", "folds", "vary", "ablate", "fractions", "sizes", "parameters", "cpu_seconds", "jobs", "on",
    "sbatch", "floors", "references", "out", "log_to", "overwrite", "config",
)  # fmt: skip

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
    flag("--no-pruning", "train every trial to its end", dest="prune"),
    flag("--no-final", "do not train the best once more: the test part is then never looked at"),
    Option("--out", check=check_folder, metavar="DIR", help="(default runs/tune-<data>-<model>-N)"),
    Option("--config", check=check_config, metavar="FILE", help="settings that are not searched, from a YAML file"),
    TASK,
    LOG_TO,
    JSON,
]  # fmt: skip

TUNE = Parser(
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
TUNE_ARGUMENTS = (
    "trials", "minutes", "trial_minutes", "space", "storage", "study", "jobs", "on", "sbatch", "seeds", "folds", "out",
    "log_to", "config", "prune", "final",
)  # fmt: skip

PARSERS = (COMPARE, TUNE)


def run_compare(argv: list[str]) -> None:
    options = COMPARE.read(argv)
    settings = training_settings(options, "compare")

    from glassformer.cli.terminal.progress import Board
    from glassformer.cli.terminal.view import show_view
    from glassformer.trials.compare import compare

    try:
        with Board() as board:
            arguments = {**values_of(options, COMPARE_ARGUMENTS), **settings, "runs": options.runs or ()}
            comparison = compare(options.data, listen=board, say=board.say, **arguments)
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped: nothing was trained yet")
        raise SystemExit(1) from None
    show_result(comparison, as_json=options.json, show=lambda: show_view(comparison.view()))
    for line in board.after:
        say(line)
    trained = [row for row in comparison.rows if row.is_trained]
    if trained and not any(row.outcomes for row in trained):
        raise SystemExit(1)


def run_tune(argv: list[str]) -> None:
    options = TUNE.read(argv)
    settings = training_settings(options, "tune")
    models = options.models or settings.pop("model.encoder", None)
    if options.show_space:
        _show_space(options.data, models, options.config, settings)
        return

    from glassformer.cli.terminal.progress import Watcher
    from glassformer.trials.tune import tune

    try:
        with Watcher() as watcher:
            arguments = {**values_of(options, TUNE_ARGUMENTS), **settings}
            tuned = tune(options.data, model=models, listen=watcher, say=say, **arguments)
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
