"""glassformer scaling"""

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, show_result, show_text
from glassformer.config.views import ENDINGS
from glassformer.experiments.request import MODELS, PARTS, ScalingRequest, scaling_request

PARSER = Parser(
    "scaling",
    models=", ".join(MODELS),
    parts="; ".join(f"{what} ({name})" for name, what in PARTS.items()),
    part_names=", ".join(PARTS),
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    out = options.out or (None if options.json else "growth.html")
    check_out(out, ENDINGS)
    settings = arguments_of(options, ScalingRequest)
    scaling_request(**settings)  # what cannot be is refused before torch is there

    from glassformer.verbs.scaling import scaling

    growth = scaling(**settings, say=say)
    show_result(growth, as_json=options.json, out=out, show=lambda: show_text("\n".join(growth.findings)))
    say(growth.how + (f" All of it: {out}" if out else ""))
