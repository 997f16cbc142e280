"""The commands `glassformer compare` and `glassformer tune`."""

import shlex
from typing import Any

from glassformer.cli.options import Parser, arguments_of, training_settings
from glassformer.cli.terminal.inputs import check_folder, show_result
from glassformer.cli.terminal.show import say, say_next, show_text

COMPARE = Parser("compare", checks={"out": check_folder})
TUNE = Parser("tune", checks={"out": check_folder})


def run_compare(argv: list[str]) -> None:
    options = COMPARE.read(argv)
    settings = training_settings(options, "compare")

    from glassformer.cli.terminal.progress import Board
    from glassformer.trials.compare import compare

    try:
        with Board() as board:
            arguments = {**arguments_of(options, compare), **settings, "runs": options.runs or ()}
            comparison = compare(listen=board, say=board.say, **arguments)
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped: nothing was trained yet")
        raise SystemExit(1) from None
    show_result(comparison, options)
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
            arguments = {**arguments_of(options, tune), **settings}
            tuned = tune(model=models, listen=watcher, **arguments)
    except KeyboardInterrupt:
        say("stopped; what was tried is kept: the same command goes on")
        raise SystemExit(1) from None
    importance = [f"  {share:4.0%}  {name}" for name, share in list(tuned.importance.items())[:5]]
    lines = "\n".join([tuned.summary, *importance, tuned.recipe])
    show_result(tuned, options, show=lambda: show_text(lines))
    say(f"all trials, and which settings mattered: {tuned.out}/tune.html")
    if tuned.run is None:
        data = [] if options.data is None else [options.data]
        say("next: " + shlex.join(["glassformer", "train", *data, "--config", tuned.recipe]))
    else:
        say_next(tuned.run)


def _show_space(data: str | None, models: str | None, config: str | None, settings: dict[str, Any]) -> None:
    import yaml

    from glassformer.trials.tune import default_spaces

    spaces = default_spaces(data, model=models, config=config, **settings)
    print(yaml.safe_dump(spaces, sort_keys=False, default_flow_style=None, width=100), end="")
    say("edit it, and give it back with --space FILE")
