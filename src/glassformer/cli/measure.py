"""The commands `glassformer plan` and `scaling`: the cost of training, and how it grows with the length of texts."""

import shlex

from glassformer.cli.options import Parser, arguments_of, training_settings
from glassformer.cli.terminal.inputs import check_out, show_result
from glassformer.cli.terminal.show import say, show_text
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS
from glassformer.experiments.request import MODELS, PARTS, ScalingRequest, scaling_request

PLAN = Parser("plan")
SCALING = Parser(
    "scaling",
    models=", ".join(MODELS),
    parts="; ".join(f"{what} ({name})" for name, what in PARTS.items()),
    part_names=", ".join(PARTS),
)
ON_PAPER = ("gpus", "device_memory", "flops", "bandwidth", "price")


def run_plan(argv: list[str]) -> None:
    options = PLAN.read(argv)
    settings = training_settings(
        options, "plan", instead=", or --training-tokens N", needs_data=options.training_tokens is None
    )
    check_out(options.out, ENDINGS)
    for name in ON_PAPER:
        if options.models is not None and getattr(options, name) is not None:
            raise Misuse(
                f"--models lists parameters and FLOPs only; remove --{name.replace('_', '-')}, or plan one --model"
            )

    from glassformer.verbs.plan import plan, plan_models

    if options.models is not None:
        table = plan_models(**arguments_of(options, plan_models), **settings)
        show_result(table, options, out=options.out)
        return
    planned = plan(**arguments_of(options, plan), **settings)
    show_result(planned, options, out=options.out)
    if options.data is not None and planned.fit is not None and planned.fit.accumulation_steps:
        say(f"next: glassformer train {training_words(argv)}{f' {planned.advice}' if planned.advice else ''}")


def training_words(argv: list[str]) -> str:
    """Return the words of the command line without the options that only `plan` has."""
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in ("--device-memory", "--out"):
            if not equals:
                next(rest, None)
        elif name not in ("--no-probe", "--json"):
            words.append(word)
    return shlex.join(words)


def run_scaling(argv: list[str]) -> None:
    options = SCALING.read(argv)
    out = options.out or (None if options.json else "growth.html")
    check_out(out, ENDINGS)
    settings = arguments_of(options, ScalingRequest)
    scaling_request(**settings)  # refuse wrong settings before torch is imported

    from glassformer.verbs.scaling import scaling

    growth = scaling(**settings)
    show_result(growth, options, out=out, show=lambda: show_text("\n".join(growth.findings)))
    say(growth.how + (f" All of it: {out}" if out else ""))
