"""glassformer scaling"""

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.views import ENDINGS
from glassformer.experiments.request import CHOSEN, LAYERS, LENGTHS, MINUTES, MODELS, PARTS, WIDTH

EXAMPLE = "glassformer scaling --models lstm,transformer --parts time,recall --out growth.html"


def parser() -> Parser:
    made = Parser("scaling", "", "How models of like size grow with the length of the text: "
                  + "; ".join(f"{what} ({name})" for name, what in PARTS.items()) + ".", EXAMPLE)  # fmt: skip
    made.add_argument("--models", default=",".join(CHOSEN), metavar="NAMES", help="with commas between them, of "
                      f"{', '.join(MODELS)} (default {','.join(CHOSEN)})")  # fmt: skip
    made.add_argument("--lengths", default=",".join(map(str, LENGTHS)), metavar="NUMBERS", help="of the texts whose "
                      f"time is taken (default {','.join(map(str, LENGTHS))})")  # fmt: skip
    made.add_argument("--parts", default=",".join(PARTS), metavar="NAMES", help=f"of {', '.join(PARTS)} (default all)")
    made.add_argument("--width", type=int, default=WIDTH, metavar="N", help="of the Transformer; the others get about "
                      f"as many weights (default {WIDTH})")  # fmt: skip
    made.add_argument("--layers", type=int, default=LAYERS, metavar="N", help=f"of the Transformer (default {LAYERS})")
    made.add_argument("--minutes", type=float, default=MINUTES, metavar="X", help="about so long for all parts on two "
                      f"cores: trainings go with it (default {MINUTES:g})")  # fmt: skip
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and data (default 0)")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--out", metavar="FILE", help=f"{', '.join(ENDINGS)} (default growth.html, with --json none)")
    made.add_argument("--json", action="store_true", help="print all numbers as one JSON object")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    out = options.out or (None if options.json else "growth.html")
    check_out(out, ENDINGS)

    from glassformer.cli.terminal.show import print_json, results, say
    from glassformer.verbs.scaling import scaling

    found = scaling(
        models=options.models,
        lengths=options.lengths,
        parts=options.parts,
        width=options.width,
        layers=options.layers,
        minutes=options.minutes,
        seed=options.seed,
        device=options.device,
        say=say,
    )
    if out is not None:
        found.save(out)
    if options.json:
        print_json(found.to_dict())
    else:
        for finding in found.findings:
            results.print(finding)
    say(found.how + (f" All of it: {out}" if out else ""))
    return 0
