"""glassformer look"""

from glassformer.cli.inputs import check_out
from glassformer.cli.options import Parser

EXAMPLE = 'glassformer look last "le 14 juillet 1989" --out alignment.png'
ENDINGS = (".png", ".svg", ".pdf", ".json")


def parser() -> Parser:
    made = Parser("look", "RUN TEXT", "Inside a run that translates: which tokens of the source it looks at while it "
                  "writes each token.", EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("text", metavar="TEXT", help="what to translate")
    made.add_argument("--out", metavar="FILE", help=f"the picture: {', '.join(ENDINGS)} (default alignment.png, with "
                      "--json none)")  # fmt: skip
    made.add_argument("--translation", metavar="TEXT", help="align with this instead of what the run would write")
    made.add_argument("--layer", type=int, metavar="N", help="Transformer: one layer, from 0 (default: mean over all)")
    made.add_argument("--head", type=int, metavar="N", help="Transformer: one head, from 0 (default: mean over all)")
    made.add_argument("--beam", type=int, default=5, metavar="N", help="translations followed at once (default 5)")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print tokens and weights as one JSON object")
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    out = options.out or (None if options.json else "alignment.png")
    check_out(out, ENDINGS)

    from pathlib import Path

    from glassformer.cli.show import print_json, printable, results, say, visible
    from glassformer.runs.files import write_json
    from glassformer.verbs.look import look

    seen = look(
        options.run,
        options.text,
        target=options.translation,
        layer=options.layer,
        head=options.head,
        beam=options.beam,
        device=options.device,
        say=say,
    )
    if out is not None and out.endswith(".json"):
        write_json(Path(out), seen.to_dict())
    elif out is not None:
        seen.save(out)
    if options.json:
        print_json(seen.to_dict())
    else:
        results.print(visible(printable(seen.translation)))
    say(seen.which + (f": {out}" if out else ""))
    return 0
