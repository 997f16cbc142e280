"""glassformer scaling"""

from glassformer.cli.options import DEVICE, Option, Parser, flag, values_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, show_result, show_text
from glassformer.config.views import ENDINGS
from glassformer.experiments.request import CHOSEN, LAYERS, LENGTHS, MINUTES, MODELS, PARTS, WIDTH, scaling_request

SETTINGS = ("models", "lengths", "parts", "width", "layers", "minutes", "seed", "device")

PARSER = Parser(
    "scaling",
    "",
    "How models of like size grow with the length of the text: "
    + "; ".join(f"{what} ({name})" for name, what in PARTS.items()) + ".",
    "glassformer scaling --models lstm,transformer --parts time,recall --out growth.html",
    [
        Option("--models", default=",".join(CHOSEN), metavar="NAMES", help="with commas between them, of "
               f"{', '.join(MODELS)} (default {','.join(CHOSEN)})"),
        Option("--lengths", default=",".join(map(str, LENGTHS)), metavar="NUMBERS", help="of the texts whose time is "
               f"taken (default {','.join(map(str, LENGTHS))})"),
        Option("--parts", metavar="NAMES", help=f"measure only: {', '.join(PARTS)} (default: all that apply to "
               "--models)"),
        Option("--width", type=int, default=WIDTH, metavar="N", help="of the Transformer; the others get about as many "
               f"weights (default {WIDTH})"),
        Option("--layers", type=int, default=LAYERS, metavar="N", help=f"of the Transformer (default {LAYERS})"),
        Option("--minutes", type=float, default=MINUTES, metavar="X", help="about so long for all parts on two cores: "
               f"trainings go with it (default {MINUTES:g})"),
        Option("--seed", type=int, default=0, metavar="N", help="of weights and data (default 0)"),
        DEVICE,
        Option("--out", metavar="FILE", help=f"{', '.join(ENDINGS)} (default growth.html, with --json none)"),
        flag("--json", "print all numbers as one JSON object"),
    ],
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    out = options.out or (None if options.json else "growth.html")
    check_out(out, ENDINGS)
    settings = values_of(options, SETTINGS)
    scaling_request(**settings)  # what cannot be is refused before torch is there

    from glassformer.verbs.scaling import scaling

    growth = scaling(**settings, say=say)
    show_result(growth, as_json=options.json, out=out, show=lambda: show_text("\n".join(growth.findings)))
    say(growth.how + (f" All of it: {out}" if out else ""))
