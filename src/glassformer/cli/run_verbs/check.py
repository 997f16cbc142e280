"""glassformer check"""

import argparse

from glassformer.checks import NAMES, choose_checks
from glassformer.cli.options import DEVICE, JSON, NO_VERIFY, Option, Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, say_next, show_result
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS

PARSER = Parser(
    "check",
    "RUN | --brick FILE.py:Name",
    "Whether a run computes the same whichever way it is asked: "
    + "; ".join(NAMES.values())
    + ". Without a RUN, whether a brick of your own computes what ours does: forward and backward, causality, "
    "padding; the first wrong tensor, and the likely reason. The largest difference of each; exit code 1 if one fails.",
    "glassformer check last\n  glassformer check --brick mine.py:Attention",
    [
        Option("run", nargs="?", metavar="RUN", help="a run's folder, or `last`"),
        Option("--brick", action="append", metavar="FILE.py:Name", help="without a RUN: a class or function of yours"),
        Option(
            "--like",
            metavar="KIND",
            help="what the brick should be, such as attention, layer-norm, lstm (default: by its name)",
        ),
        Option(
            "--only",
            check=choose_checks,
            metavar="NAMES",
            help=f"with commas between them, of {', '.join(NAMES)} (default all)",
        ),
        Option("--data", metavar="DATA", help="where the run's data is now, if it has moved"),
        Option("--export", metavar="DIR", help="where an export of it is (default: where it was exported to)"),
        DEVICE,
        Option("--out", metavar="FILE", help=f"the table as {', '.join(ENDINGS)}"),
        JSON,
        NO_VERIFY,
    ],
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    check_out(options.out, ENDINGS)
    if options.run is None:
        _check_brick(options)
        return

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.check import check

    checks = check(options.run, data=options.data, only=options.only, export=options.export, device=options.device,
                   say=say)  # fmt: skip
    show_result(checks, as_json=options.json, out=options.out, show=lambda: show_view(checks.view()))
    if not checks.passed:
        say(f"{checks.words}: what this run says depends on how it is asked")
        raise SystemExit(1)
    say_next(options.run)


def _check_brick(options: argparse.Namespace) -> None:
    """A brick of a person's own."""
    if not options.brick:
        raise Misuse("RUN is missing, or --brick FILE.py:Name (see glassformer check --help)")
    if len(options.brick) > 1:
        raise Misuse("without a RUN, one brick at a time is checked")

    from glassformer.cli.terminal.view import show_view
    from glassformer.teaching.brick_check.check import check_brick

    checks = check_brick(options.brick[0], options.like)
    show_result(checks, as_json=options.json, out=options.out, show=lambda: show_view(checks.view()))
    say(f"{checks.words}{f'; likely reason: {checks.hint}' if checks.hint else ''}")
    if not checks.passed:
        raise SystemExit(1)
