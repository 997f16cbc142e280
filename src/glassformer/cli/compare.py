"""glassformer compare"""

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
)
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import say, show_result

PARSER = Parser(
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


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    settings = training_settings(options, "compare")

    from glassformer.cli.terminal.progress import Board
    from glassformer.cli.terminal.view import show_view
    from glassformer.trials.compare import compare

    try:
        with Board() as board:
            comparison = compare(
                options.data,
                models=options.models,
                seeds=options.seeds,
                folds=options.folds,
                vary=options.vary,
                ablate=options.ablate,
                fractions=options.fractions,
                sizes=options.sizes,
                parameters=options.parameters,
                cpu_seconds=options.cpu_seconds,
                jobs=options.jobs,
                on=options.on,
                sbatch=options.sbatch,
                runs=options.runs or (),
                floors=not options.no_floors,
                references=not options.no_references,
                out=options.out,
                log_to=options.log_to,
                overwrite=options.overwrite,
                config=options.config,
                listen=board,
                say=board.say,
                **settings,
            )
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped: nothing was trained yet")
        raise SystemExit(1) from None
    show_result(comparison, as_json=options.json, show=lambda: show_view(comparison.view()))
    for line in board.after:
        say(line)
    trained = [row for row in comparison.rows if row.is_trained]
    if trained and not any(row.outcomes for row in trained):
        raise SystemExit(1)
