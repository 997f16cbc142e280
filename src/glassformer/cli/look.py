"""glassformer look"""

import argparse
from pathlib import Path

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.errors import Misuse
from glassformer.config.views import ALL, ENDINGS, OLD_OPTIONS, OPTIONS, VIEWS, flag_of

EXAMPLE = 'glassformer look last "the food was good, not bad at all" --out look.html'

SUMMARY = "\n".join([
    "Inside a run, for every architecture: what it looks at, expects, and decides by. Looking changes no logit.",
    "",
    "views (--view NAME; a run that does not have one says which it has):",
    f"  {ALL:13} on a page: every one that a single text is enough for, made in a moment",
    *(f"  {name:13} {shows}" for name, shows in VIEWS.items()),
])  # fmt: skip


def parser() -> Parser:
    made = Parser("look", "RUN [TEXT …]", SUMMARY, EXAMPLE)
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("texts", nargs="*", metavar="TEXT", help="what to look at: a text, an image's file, a row as "
                      "JSON; several for --word and nearest")  # fmt: skip
    made.add_argument("--view", metavar="NAME", help="see above (default: all for .html, else the first that the run "
                      "has)")  # fmt: skip
    made.add_argument("--out", metavar="FILE", help=f"{', '.join(ENDINGS)} (default look.html, of one view NAME.html; "
                      "with --json none)")  # fmt: skip
    made.add_argument("--open", action="store_true", help="open it in the browser")
    for name, info in OPTIONS.items():
        made.add_argument(flag_of(name), dest=name, type=info.kind, metavar=info.metavar, help=info.help)
    for old, name in OLD_OPTIONS.items():
        made.add_argument(flag_of(old), dest=old, type=OPTIONS[name].kind, help=argparse.SUPPRESS)
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print the view's numbers as one JSON object")
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    out = options.out or (None if options.json and not options.open else f"{options.view or 'look'}.html")
    check_out(out, ENDINGS)
    page = out is not None and out.endswith(".html")
    if options.open and not page:
        raise Misuse("--open shows a page: --out must end in .html")

    from glassformer.cli.terminal.show import print_json, say
    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.look import look

    given = {name: value for name in (*OPTIONS, *OLD_OPTIONS) if (value := getattr(options, name)) is not None}
    chooses = any(OPTIONS[OLD_OPTIONS.get(name, name)].chooses for name in given)
    view = options.view or (ALL if page and not chooses else None)
    seen = look(options.run, *options.texts, view=view, device=options.device, say=say, **given)
    if out is not None:
        seen.save(out)
    if options.json:
        print_json(seen.to_dict())
    else:
        show_view(seen)
    if out is not None:
        say(f"written: {out}")
    if options.open and out is not None:
        import webbrowser

        webbrowser.open(Path(out).resolve().as_uri())
    return 0
