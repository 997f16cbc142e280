"""The command `glassformer data`."""

import argparse
from typing import TYPE_CHECKING

from glassformer.cli.options import Parser, run_action, settings_of
from glassformer.cli.terminal.inputs import PAIR_FILES, show_result
from glassformer.cli.terminal.show import RowProgress, print_json, say, show_table, show_text, visible
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.config.resolve import Config
    from glassformer.data.check.tables import DataCheck
    from glassformer.data.io.table import Pictures, Table

MOST_ROWS = 40
LIST, DESCRIBE, CHECK, SHOW = [Parser(f"data {action}") for action in ("list", "describe", "check", "show")]


def run(argv: list[str]) -> None:
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        argv = ["list", *argv]
    run_action("data", argv, {"list": list_sets, "describe": describe, "check": check, "show": show})


def list_sets(argv: list[str]) -> None:
    options = LIST.read(argv)

    from glassformer.data.datasets.embedded import DATASETS

    sets = DATASETS.items()
    if options.json:
        about = [{"name": name, "summary": info.summary, "parameters": dict(info.parameters)} for name, info in sets]
        print_json({"datasets": about})
        return
    parameters = {name: ",".join(f"{key}={value}" for key, value in info.parameters.items()) for name, info in sets}
    rows = [[name, info.summary, parameters[name]] for name, info in sets]
    show_table(["name", "what it is", "parameters"], rows, left=(0, 1, 2))
    say("parameters go behind the name: recall:distance=16,rows=5000")
    say("next: glassformer data show docstrings")


def _infer(options: argparse.Namespace) -> "tuple[Config, Table | Pictures | None]":
    settings = settings_of(options)
    if options.data is None and not PAIR_FILES.intersection(settings):
        raise Misuse("DATA is missing (see glassformer data --help)")
    from glassformer.families.recognition import infer_config

    return infer_config({}, {**settings, "data.path": options.data, "task": options.task})


def describe(argv: list[str]) -> None:
    options = DESCRIBE.read(argv)
    config, rows = _infer(options)

    from glassformer.verbs.data import describe as describe_data

    description = describe_data(config, rows)
    if options.json:
        print_json(vars(description))
        return
    show_text(description.report)
    sizes = [[name, *(f"{size:,}" for size in part.values())] for name, part in description.parts.items()]
    show_table(["part", *next(iter(description.parts.values()))], sizes)


def check(argv: list[str]) -> None:
    options = CHECK.read(argv)

    with RowProgress():
        config, rows = _infer(options)

        from glassformer.verbs.data import check as check_data

        checked = check_data(config, rows)
    show_result(checked, options, show=lambda: _show_check(checked))


def _show_check(checked: "DataCheck") -> None:
    """Print counts, classes, lengths of texts and findings of a check."""
    show_table(["", "count"], [[name.replace("_", " "), f"{count:,}"] for name, count in checked.counts.items()])
    if checked.classes:
        rows = [[one.name, f"{one.count:,}", f"{one.share:.1%}"] for one in checked.classes[:MOST_ROWS]]
        show_table(["class", "rows", "share"], rows)
        if len(checked.classes) > MOST_ROWS:
            show_text(f"… and {len(checked.classes) - MOST_ROWS} smaller classes (--json has them all)")
    if checked.amounts is not None:
        show_text("numbers: " + ", ".join(f"{name} {value:.6g}" for name, value in vars(checked.amounts).items()))
    spreads = {name: vars(spread) for name, spread in checked.lengths.items() if spread is not None}
    if spreads:
        lengths = [[name, *(f"{length:,}" for length in spread.values())] for name, spread in spreads.items()]
        show_table(["length of a text in", "min", "median", "p90", "p99", "max"], lengths)
    for finding in checked.findings or ["nothing odd found"]:
        show_text(f"! {finding}" if checked.findings else finding)


def show(argv: list[str]) -> None:
    options = SHOW.read(argv)
    if options.rows < 1:
        raise Misuse(f"--rows is {options.rows}, but must be at least 1")
    if options.batch < 0:
        raise Misuse(f"--batch is {options.batch}, but batches count from 0")
    config, table = _infer(options)

    from glassformer.verbs.data import show_batch

    batch = show_batch(config, options.batch, table)
    few = batch.rows[: options.rows]
    if options.json:
        answers = None if batch.answers is None else batch.answers[: options.rows]
        print_json({**vars(batch), "rows": few, "ids": batch.ids[: options.rows], "answers": answers})
        return
    width = len(batch.rows[0])
    size = f" of {width} tokens with padding" if batch.ids else ", the numbers of each as the model reads them"
    if batch.hidden:
        size = f" of {width} tokens; before ← those to guess, by their places"
    elif batch.answers is None:
        size = f" of {width - 1} tokens, each followed by its answer"
    show_text(f"batch {batch.step}: {len(batch.rows)} rows{size}", "bold")
    for number, row in enumerate(few):
        answer = "" if batch.answers is None else f"{visible(batch.answers[number])} ←  "
        show_text(f"{number:4}  {answer}" + "|".join(visible(token) for token in row))
    if len(batch.rows) > options.rows:
        show_text(f"      … and {len(batch.rows) - options.rows} more rows")
    if batch.pairs:
        show_text("row 0 as training pairs: after this → comes that", "bold")
    for before, after in batch.pairs:
        show_text(f"  {visible(before)} → {visible(after)}")
