"""glassformer look"""

from pathlib import Path

from glassformer.cli.inputs import check_out
from glassformer.cli.options import Parser
from glassformer.config.errors import Misuse
from glassformer.config.views import ALL, ENDINGS, IMPLIED, MODES, VIEWS

EXAMPLE = 'glassformer look last "the food was good, not bad at all" --out look.html'

SUMMARY = "\n".join([
    "Inside a run, for every architecture: what it looks at, expects, and decides by. Looking changes no logit.",
    "",
    "views (--view NAME; a run that does not have one says which it has):",
    f"  {ALL:10} on a page: every one that a single text is enough for, made in a moment",
    *(f"  {name:10} {info.summary}" for name, info in VIEWS.items()),
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
    made.add_argument("--layer", type=int, metavar="N", help="one layer, from 0 (default: mean over all; numbers: 0)")
    made.add_argument("--head", type=int, metavar="N", help="one head, from 0 (default: mean over all; numbers: 0)")
    made.add_argument(
        "--mode", metavar="NAME", help=f"how attention is drawn first: {', '.join(MODES)} (default {MODES[0]})"
    )
    made.add_argument("--position", type=int, metavar="N", help="numbers, step: the token that is worked out, from 0 "
                      "(default: the last)")  # fmt: skip
    made.add_argument("--translation", metavar="TEXT", help="a translator: look at this instead of what it would write")
    made.add_argument("--answer", metavar="LABEL", help="step, worth: what the example should be")
    made.add_argument("--word", metavar="WORD", help="its vector in each of the texts")
    made.add_argument("--versus", metavar="TEXT", help="a second text beside the first")
    made.add_argument("--beside", metavar="RUN", help="with --versus: a second run beside the first")
    made.add_argument("--links", metavar="FILE", help='.jsonl, a line each: {"text": "…", "links": [[from, to], …]}, '
                      "words counted from 0; or `pronouns`")  # fmt: skip
    made.add_argument("--without", metavar="HEADS", help="heads to switch off, one by one: 2.3 or 0.1,2.3 or "
                      "cross:0.1 (layer.head)")  # fmt: skip
    made.add_argument("--beam", type=int, metavar="N", help="translations followed at once (default 5)")
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

    from glassformer.cli.show import print_json, say
    from glassformer.cli.show_view import show_view
    from glassformer.verbs.look import look

    seen = look(
        options.run,
        *options.texts,
        view=options.view or (ALL if page and all(getattr(options, name) is None for name in IMPLIED) else None),
        layer=options.layer,
        head=options.head,
        mode=options.mode,
        position=options.position,
        target=options.translation,
        answer=options.answer,
        beam=options.beam,
        word=options.word,
        versus=options.versus,
        beside=options.beside,
        links=options.links,
        without=options.without,
        device=options.device,
        say=say,
    )
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
