"""glassformer compare"""

from glassformer.cli.options import Parser, add_settings, add_training_options, training_settings

EXAMPLE = (
    "glassformer compare opinions --models bag,lstm,transformer --minutes 1\n"
    "  glassformer compare opinions --model transformer --vary model.heads=1,2,4 --seeds 3\n"
    "  glassformer compare docstrings --ablate --steps 500\n"
    "  glassformer compare opinions --models bag,transformer --from runs/minilm"
)


def parser() -> Parser:
    made = Parser("compare", "DATA", "Which model suits your data, and is the Transformer worth it? The ladder of "
                  "models on the same split, tokens and examples, each in a process of its own; what is done is kept, "
                  "and the same command goes on.", EXAMPLE)  # fmt: skip
    made.add_argument("data", nargs="?", metavar="DATA", help="what train takes: a text file, a folder, a table, "
                      "images, the name of an embedded data set, or hf:NAME, one of the hub")  # fmt: skip
    made.add_argument("--models", metavar="NAMES", help="with commas between them, as train --model takes them, or "
                      "lstm:no-attention (default: the ladder for this data)")  # fmt: skip
    made.add_argument("--seeds", type=int, metavar="N", help="trainings of each model (default 3)")
    made.add_argument("--folds", type=int, metavar="K", help="instead of seeds: one training for each fold held out")
    made.add_argument("--vary", action="append", metavar="KEY=A,B", help="try a setting with these values; given "
                      "several times: every combination")  # fmt: skip
    made.add_argument("--ablate", action="store_true", help="take the Transformer's parts out, one at a time")
    made.add_argument("--fractions", metavar="A,B", help="learn from these parts of the training data: 0.1,0.3,1")
    made.add_argument("--sizes", metavar="NAMES", help="models of these sizes: nano,tiny,small")
    made.add_argument("--parameters", metavar="N", help="make each model so wide that it has about so many")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at once, which share the cores")
    made.add_argument("--runs", metavar="RUNS", help="trained before, with commas between them: judged on the same "
                      "examples")  # fmt: skip
    made.add_argument("--no-floors", action="store_true", help="leave out what learns nothing, or only counts")
    made.add_argument("--no-references", action="store_true", help="leave out scikit-learn's models")
    made.add_argument("--out", metavar="DIR", help="where all of it goes (default runs/compare-<data>-N)")
    made.add_argument("--overwrite", action="store_true", help="replace the comparison in --out")
    add_training_options(made)
    add_settings(made)
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    settings = training_settings(options, "compare")

    from glassformer.cli.terminal.board import Board
    from glassformer.cli.terminal.show import print_json, say
    from glassformer.cli.terminal.view import show_view
    from glassformer.trials.compare import compare

    try:
        with Board() as board:
            found = compare(
                options.data,
                models=options.models,
                seeds=options.seeds,
                folds=options.folds,
                vary=options.vary,
                ablate=options.ablate,
                fractions=options.fractions,
                sizes=options.sizes,
                parameters=options.parameters,
                jobs=options.jobs,
                runs=options.runs or (),
                floors=not options.no_floors,
                references=not options.no_references,
                out=options.out,
                overwrite=options.overwrite,
                config=options.config,
                listen=board,
                say=board.say,
                **settings,
            )
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped: nothing was trained yet")
        return 1
    if options.json:
        print_json(found.to_dict())
    else:
        show_view(found.view())
    for line in board.after:
        say(line)
    trained = [row for row in found.rows if row.is_trained]
    return 1 if trained and not any(row.outcomes for row in trained) else 0
