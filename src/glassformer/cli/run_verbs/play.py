"""glassformer play"""

from glassformer.cli.options import Option, Parser, flag
from glassformer.cli.run_verbs.serve import SERVING, serve_until_stopped
from glassformer.config.errors import Misuse

PARSER = Parser(
    "play",
    "RUN [RUN2]",
    "The playground: a page in the browser, on which one types to a run, looks into it and changes it.",
    "glassformer play last",
    [
        Option("runs", nargs="+", metavar="RUN", help="a run's folder, or `last`; a second one is shown beside it"),
        flag("--no-browser", "open nothing: print the address"),
        *SERVING,
    ],
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if len(options.runs) > 2:
        raise Misuse(f"play shows one run, or two beside each other, not {len(options.runs)}: serve offers more")
    serve_until_stopped(options, "the playground is at {page}; Ctrl-C stops", browser=not options.no_browser)
