"""glassformer check"""

from glassformer.checks import NAMES
from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.views import ENDINGS

EXAMPLE = "glassformer check last"


def parser() -> Parser:
    made = Parser("check", "RUN", "Whether a run computes the same whichever way it is asked: "
                  + "; ".join(NAMES.values()) + ". The largest difference of each; exit code 1 if one fails.",
                  EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("--only", metavar="NAMES", help=f"with commas between them, of {', '.join(NAMES)} (default all)")
    made.add_argument("--data", metavar="DATA", help="where the run's data is now, if it has moved")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--out", metavar="FILE", help=f"the table as {', '.join(ENDINGS)}")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    check_out(options.out, ENDINGS)

    from glassformer.cli.terminal.show import print_json, say, say_next
    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.check import check

    checks = check(options.run, data=options.data, only=options.only, device=options.device, say=say)
    if options.out is not None:
        checks.save(options.out)
    if options.json:
        print_json(checks.to_dict())
    else:
        show_view(checks.view())
    if checks.passed:
        say_next(options.run)
    else:
        say(f"{checks.words}: what this run says depends on how it is asked")
    return 0 if checks.passed else 1
