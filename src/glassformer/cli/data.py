"""glassformer data"""

import argparse
from typing import TYPE_CHECKING

from glassformer.cli.options import Parser, add_settings, run_action, settings_of
from glassformer.cli.terminal.inputs import PAIR_FILES
from glassformer.config.errors import Misuse
from glassformer.config.presets import TASKS
from glassformer.config.resolve import SECTIONS

if TYPE_CHECKING:
    from glassformer.config.resolve import Config
    from glassformer.data.check.pairs import PairCheck
    from glassformer.data.io.table import Pictures, Table

HELP = """usage: glassformer data                     the data sets that come along
       glassformer data describe DATA       how large it is, and how it would be divided
       glassformer data check DATA          repeated texts, contradicting labels, odd pairs, what would be cut …
       glassformer data show DATA           a batch as the model will see it

examples:
  glassformer data check opinions
  glassformer data show reverse --batch 0 --tokenizer.kind char --model.context 32
"""
MOST_ROWS = 40
DATA = "a text file, a folder, a table (.csv, .tsv, .jsonl, .parquet), an embedded data set, or hf:NAME, one of the hub"


def run(argv: list[str]) -> int:
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        argv = ["list", *argv]
    return run_action(argv, {"list": listing, "describe": describe, "check": check, "show": show}, HELP)


def listing(argv: list[str]) -> int:
    parser = Parser("data list", "", "The data sets that come along.", "glassformer data")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options = parser.read(argv)

    from rich.text import Text

    from glassformer.cli.terminal.show import print_json, results, say, table
    from glassformer.verbs.data import list_data

    rows = list_data()
    if options.json:
        print_json({"datasets": [vars(row) for row in rows]})
        return 0
    shown = table("name", "what it is", "parameters")
    shown.columns[1].justify = shown.columns[2].justify = "left"
    for row in rows:
        parameters = ",".join(f"{key}={value}" for key, value in row.parameters.items())
        shown.add_row(row.name, Text(row.summary), Text(parameters))
    results.print(shown)
    say("parameters go behind the name: recall:distance=16,rows=5000")
    say("next: glassformer data show docstrings")
    return 0


def _parser(action: str, summary: str, example: str, sections: tuple[str, ...]) -> Parser:
    parser = Parser(f"data {action}", "DATA", summary, example)
    parser.add_argument("data", nargs="?", metavar="DATA", help=DATA)
    parser.add_argument("--task", metavar="NAME", help=f"{', '.join(TASKS)} (default: from the data)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser, sections)
    return parser


def _infer(options: argparse.Namespace) -> "tuple[Config, Table | Pictures | None]":
    from glassformer.cli.terminal.show import say
    from glassformer.families.infer import infer_config

    settings = settings_of(options)
    if options.data is None and not PAIR_FILES.intersection(settings):
        raise Misuse("DATA is missing (see glassformer data --help)")
    return infer_config({}, {**settings, "data.path": options.data, "task": options.task}, say)


def describe(argv: list[str]) -> int:
    parser = _parser("describe", "How large data is, and how it would be divided.",
                     "glassformer data describe docstrings", ("data",))  # fmt: skip
    options = parser.read(argv)

    from rich.text import Text

    from glassformer.cli.terminal.show import print_json, results, table
    from glassformer.verbs.data import describe as describe_data

    description = describe_data(*_infer(options))
    if options.json:
        print_json(vars(description))
        return 0
    results.print(Text(description.report))
    shown = table("part", *next(iter(description.parts.values())))
    for name, sizes in description.parts.items():
        shown.add_row(name, *(f"{value:,}" for value in sizes.values()))
    results.print(shown)
    results.print(Text(f"it begins: {description.beginning!r}"))
    return 0


def check(argv: list[str]) -> int:
    parser = _parser("check", "What is odd about labelled examples, and what a model would cut off.",
                     "glassformer data check opinions --model.context 64", ("data", "tokenizer", "model"))  # fmt: skip
    options = parser.read(argv)

    from rich.text import Text

    from glassformer.cli.terminal.show import print_json, results, say, table
    from glassformer.families.base import FAMILIES
    from glassformer.verbs.data import check as check_data

    config, rows = _infer(options)
    checked = check_data(config, rows, say)
    if options.json:
        print_json(checked.to_dict())
        return 0
    if FAMILIES[config.task].has_decoder:
        _show_pairs(checked)
        return 0
    if checked.words is None:
        results.print(f"{checked.rows:,} examples, {checked.repeated_texts:,} repeat an earlier one, "
                      f"{checked.contradicting_texts:,} with different labels")  # fmt: skip
    else:
        results.print(f"{checked.rows:,} rows, {checked.empty_texts:,} without text, {checked.repeated_texts:,} repeat "
                      f"an earlier text, {checked.contradicting_texts:,} texts with different labels")  # fmt: skip
    if checked.classes:
        classes = table("class", "rows", "share")
        for one in checked.classes[:MOST_ROWS]:
            classes.add_row(Text(one.name), f"{one.count:,}", f"{one.share:.1%}")
        results.print(classes)
        if len(checked.classes) > MOST_ROWS:
            results.print(f"… and {len(checked.classes) - MOST_ROWS} smaller classes (--json has them all)")
    if checked.amounts is not None:
        results.print("numbers: " + ", ".join(f"{name} {value:.6g}" for name, value in vars(checked.amounts).items()))
    lengths = table("length of a text in", "min", "median", "p90", "p99", "max")
    for name, spread in (("words", checked.words), ("tokens", checked.tokens)):
        if spread is not None:
            lengths.add_row(name, *(f"{value:,}" for value in vars(spread).values()))
    if checked.words is not None:
        results.print(lengths)
    _show_findings(checked.findings)
    return 0


def _show_pairs(checked: "PairCheck") -> None:
    from glassformer.cli.terminal.show import results, table

    results.print(f"{checked.rows:,} pairs, {checked.empty_sources:,} without source, {checked.empty_targets:,} "
                  f"without target; {checked.repeated_pairs:,} repeat an earlier pair, {checked.ambiguous_sources:,} "
                  f"sources with different targets, {checked.copies:,} copies of their source, "
                  f"{checked.odd_lengths:,} of odd length")  # fmt: skip
    lengths = table("length of a", "min", "median", "p90", "p99", "max")
    for side in ("source", "target"):
        for unit in ("words", "tokens"):
            if (spread := getattr(checked, f"{side}_{unit}")) is not None:
                lengths.add_row(f"{side} in {unit}", *(f"{value:,}" for value in vars(spread).values()))
    results.print(lengths)
    _show_findings(checked.findings)


def _show_findings(findings: list[str]) -> None:
    from rich.text import Text

    from glassformer.cli.terminal.show import results

    for finding in findings:
        results.print(Text(f"! {finding}"))
    if not findings:
        results.print("nothing odd found")


def show(argv: list[str]) -> int:
    parser = _parser("show", "A batch as the model will see it; for a language model, one sentence as training pairs.",
                     "glassformer data show reverse --batch 0 --tokenizer.kind char --model.context 32",
                     tuple(SECTIONS))  # fmt: skip
    parser.add_argument("--batch", type=int, default=0, metavar="K", help="which one (default 0)")
    parser.add_argument("--rows", type=int, default=4, metavar="N", help="rows to show (default 4)")
    options = parser.read(argv)
    if options.rows < 1:
        raise Misuse(f"--rows is {options.rows}, but must be at least 1")
    if options.batch < 0:
        raise Misuse(f"--batch is {options.batch}, but batches count from 0")

    from rich.text import Text

    from glassformer.cli.terminal.show import print_json, results, say, visible
    from glassformer.verbs.data import show_batch

    config, table = _infer(options)
    shown = show_batch(config, options.batch, say, table)
    few = shown.rows[: options.rows]
    if options.json:
        answers = None if shown.answers is None else shown.answers[: options.rows]
        print_json({**vars(shown), "rows": few, "ids": shown.ids[: options.rows], "answers": answers})
        return 0
    width = len(shown.rows[0])
    size = f" of {width} tokens with padding"
    if shown.hidden:
        size = f" of {width} tokens; before ← those to guess, by their places"
    elif shown.answers is None:
        size = f" of {width - 1} tokens, each followed by its answer"
    elif not shown.ids:
        size = ", the numbers of each as the model reads them"
    results.print(Text(f"batch {shown.step}: {len(shown.rows)} rows{size}", style="bold"))
    for number, row in enumerate(few):
        answer = "" if shown.answers is None else f"{visible(shown.answers[number])} ←  "
        results.print(Text(f"{number:4}  {answer}" + "|".join(visible(token) for token in row)))
    if len(shown.rows) > options.rows:
        results.print(f"      … and {len(shown.rows) - options.rows} more rows")
    if shown.pairs:
        results.print(Text("row 0 as training pairs: after this → comes that", style="bold"))
    for before, after in shown.pairs:
        results.print(Text(f"  {visible(before)} → {visible(after)}"))
    return 0
