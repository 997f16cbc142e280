"""glassformer plan"""

import shlex

from glassformer.cli.options import Parser, add_settings, add_training_options, training_settings
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.views import ENDINGS

EXAMPLE = "glassformer plan shakespeare.txt --size small --steps 5000"


def parser() -> Parser:
    made = Parser("plan", "DATA", "Before a training: parameters by part, memory, products, speed and time to the end. "
                  "With --gpus the same on paper, for models that no machine here holds.", EXAMPLE)  # fmt: skip
    made.add_argument("data", nargs="?", metavar="DATA", help="what `glassformer train` would be given")
    add_training_options(made)
    made.add_argument("--memory", type=float, metavar="GIB", help="memory to fit into (default: what is free here; "
                      "with --gpus 80 GiB each)")  # fmt: skip
    made.add_argument("--no-probe", action="store_true", help="try out no updates: nothing is said of the speed")
    made.add_argument("--gpus", type=int, metavar="N", help="on paper: on so many GPUs, with the sharing it would need")
    made.add_argument("--tokens", type=float, metavar="N", help="on paper: a language model on so many tokens, "
                      "instead of DATA")  # fmt: skip
    made.add_argument("--flops", type=float, metavar="X", help="on paper: TFLOP/s that a GPU reaches (default 400)")
    made.add_argument("--out", metavar="FILE", help=f"also write {', '.join(ENDINGS)}")
    add_settings(made)
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    given = options.tokens is not None
    settings = training_settings(options, "plan", instead=", or --tokens N instead of it", given=given)
    check_out(options.out, ENDINGS)

    from glassformer.cli.terminal.show import print_json, say
    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.plan import plan

    found = plan(
        options.data,
        gpus=options.gpus,
        memory=options.memory,
        tokens=options.tokens,
        flops=options.flops,
        probe=not options.no_probe,
        config=options.config,
        say=say,
        **settings,
    )
    if options.out is not None:
        found.save(options.out)
    if options.json:
        print_json(found.to_dict())
    else:
        show_view(found.view())
    if options.data is not None and found.fit is not None and found.fit.accumulation_steps:
        say(f"next: glassformer train {_same(argv)}{f' {found.advice}' if found.advice else ''}")
    return 0


def _same(argv: list[str]) -> str:
    """The words of a training: without those that only a plan has."""
    kept: list[str] = []
    rest = iter(argv)
    for word in rest:
        name = word.split("=")[0]
        if name in ("--memory", "--out"):
            if "=" not in word:
                next(rest, None)
        elif name not in ("--no-probe", "--json"):
            kept.append(word)
    return shlex.join(kept)
