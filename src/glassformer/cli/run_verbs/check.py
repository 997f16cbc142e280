"""glassformer check"""

from glassformer.checks import NAMES, choose_checks
from glassformer.cli.options import DEVICE, JSON, RUN, Option, Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, say_next, show_result
from glassformer.config.views import ENDINGS

PARSER = Parser(
    "check",
    "RUN",
    "Whether a run computes the same whichever way it is asked: "
    + "; ".join(NAMES.values())
    + ". The largest difference of each; exit code 1 if one fails.",
    "glassformer check last",
    [
        RUN,
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
    ],
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    check_out(options.out, ENDINGS)

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.check import check

    checks = check(options.run, data=options.data, only=options.only, export=options.export, device=options.device,
                   say=say)  # fmt: skip
    show_result(checks, as_json=options.json, out=options.out, show=lambda: show_view(checks.view()))
    if not checks.passed:
        say(f"{checks.words}: what this run says depends on how it is asked")
        raise SystemExit(1)
    say_next(options.run)
