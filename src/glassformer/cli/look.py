"""glassformer look"""

import argparse
from pathlib import Path

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, show_result
from glassformer.config.errors import Misuse
from glassformer.config.views import ALL, ENDINGS, OPTIONS, OWN_VIEWS, VIEWS, check_view, flag_of
from glassformer.decoding.options import Search

VIEW_LINES = [
    f"  {ALL:13} on a page: every one that a single text is enough for, made in a moment",
    *(f"  {name:13} {shows}" for name, shows in {**VIEWS, **OWN_VIEWS}.items()),
]
PARSER = Parser(
    "look",
    checks={"view": check_view},
    options={flag_of(name): vars(info) | {"type": info.kind.__name__} for name, info in OPTIONS.items()},
    views="\n".join(VIEW_LINES),
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    out = options.out or (None if options.json and not options.open else _usual_page(options))
    check_out(out, ENDINGS)
    if options.beam is not None:
        Search(beam=options.beam)  # refuse at once
    page = out is not None and out.endswith(".html")
    if options.open and not page:
        raise Misuse("--open shows a page: --out must end in .html")

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.look import look

    view_options = {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}
    chooses = any(OPTIONS[name].chooses for name in view_options)
    name = options.view or (ALL if page and not chooses else None)
    view = look(options.run, *options.texts, view=name, device=options.device, say=say, **view_options)
    show_result(view, as_json=options.json, out=out, show=lambda: show_view(view))
    if out is not None:
        say(f"written: {out}")
        if options.open:
            import webbrowser

            webbrowser.open(Path(out).resolve().as_uri())


def _usual_page(options: argparse.Namespace) -> str:
    """Where a page goes of which nobody said where."""
    if options.view != "report":
        return f"{options.view or 'look'}.html"
    from glassformer.runs.run import Run

    return str(Run.open(options.run).path / "report.html")
