"""glassformer plan"""

import argparse
import shlex
from typing import Any

from glassformer.cli.options import Parser, arguments_of, training_settings
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, show_result
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS

PARSER = Parser("plan")
ON_PAPER = ("gpus", "memory", "flops", "bandwidth", "price")


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

    planned = plan(**arguments_of(options, plan), say=say, **settings)
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

    table = plan_models(**arguments_of(options, plan_models), say=say, **settings)
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
