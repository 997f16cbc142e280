"""glassformer plan"""

import argparse
import shlex
from typing import Any

from glassformer.cli.options import ALL_SECTIONS, CONFIG, JSON, TASK, Option, Parser, flag, training_settings, values_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, show_result
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS

PARSER = Parser(
    "plan",
    "DATA",
    "Before a training: parameters by part, memory, products, speed and time to the end. With --gpus the same on "
    "paper, for models that no machine here holds.",
    "glassformer plan shakespeare.txt --size small --steps 5000",
    [
        Option("data", nargs="*", metavar="DATA", help="data, as for `glassformer train`"),
        CONFIG,
        TASK,
        JSON,
        Option("--memory", type=float, metavar="GIB", help="memory to fit into (default: what is free here; with "
               "--gpus 80 GiB each)"),
        Option("--models", metavar="NAMES", help="list the parameters and FLOPs per token (without text: per row) of "
               "these models side by side, such as bag,lstm,transformer, and plan nothing else"),
        flag("--no-probe", "try out no updates: nothing is said of the speed"),
        Option("--gpus", type=int, metavar="N", help="on paper: on so many GPUs, with the sharing it would need"),
        Option("--tokens", type=float, metavar="N", help="on paper: a language model on so many tokens, instead of "
               "DATA"),
        Option("--flops", type=float, metavar="X", help="on paper: TFLOP/s that a GPU reaches (default 400)"),
        Option("--bandwidth", type=float, metavar="X", help="on paper: GB/s that come to a GPU from "
               "others (default 400 up to 8 GPUs, else 50)"),
        Option("--price", type=float, metavar="X", help="on paper: of an hour of a GPU, for what it costs in all"),
        Option("--out", metavar="FILE", help=f"also write {', '.join(ENDINGS)}"),
    ],
    settings=ALL_SECTIONS,
)  # fmt: skip
ON_PAPER = ("gpus", "memory", "flops", "bandwidth", "price")
PLAN_ARGUMENTS = (*ON_PAPER, "tokens", "probe", "config")


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    settings = training_settings(
        options, "plan", instead=", or --tokens N instead of it", needs_data=options.tokens is None
    )
    check_out(options.out, ENDINGS)

    if options.models is not None:
        show_models(options, settings)
        return

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.plan import plan

    planned = plan(options.data, **values_of(options, PLAN_ARGUMENTS), say=say, **settings)
    show_result(planned, as_json=options.json, out=options.out, show=lambda: show_view(planned.view()))
    if options.data is not None and planned.fit is not None and planned.fit.accumulation_steps:
        say(f"next: glassformer train {training_words(argv)}{f' {planned.advice}' if planned.advice else ''}")


def show_models(options: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Print several models side by side."""
    for name in ON_PAPER:
        if getattr(options, name) is not None:
            raise Misuse(f"--models lists parameters and FLOPs only; remove --{name}, or plan one --model")

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.plan import plan_models

    table = plan_models(options.data, **values_of(options, ("models", "tokens", "config")), say=say, **settings)
    show_result(table, as_json=options.json, out=options.out, show=lambda: show_view(table.view()))


def training_words(argv: list[str]) -> str:
    """Return the words of the command line without the options that only `plan` has."""
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in ("--memory", "--out"):
            if not equals:
                next(rest, None)
        elif name not in ("--no-probe", "--json"):
            words.append(word)
    return shlex.join(words)
