"""glassformer evaluate"""

import argparse
import shlex

from glassformer.cli.options import Parser, settings_of
from glassformer.config.resolve import flatten

EXAMPLE = "glassformer evaluate last --stride 64 --json"


def parser() -> Parser:
    made = Parser(
        "evaluate",
        "RUN [DATA]",
        "How good a run is: a full pass over a text, or over the part that it held out.",
        EXAMPLE,
    )
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("data", nargs="?", metavar="DATA", help="what to evaluate on (default: the run's held-out part)")
    made.add_argument("--part", choices=("train", "validation", "test"), help="which of the run's own parts")
    made.add_argument("--stride", type=int, metavar="N", help="tokens between windows (default: the context)")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    group = made.add_argument_group("how DATA is read (default: as the run's data was)")
    for name in ("text", "encoding"):
        group.add_argument(f"--data.{name}", dest=f"data.{name}", metavar="NAME", default=argparse.SUPPRESS)
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    reading = {key.split(".")[1]: value for key, value in flatten(settings_of(options)).items()}

    from glassformer.cli.show import print_json, results, say
    from glassformer.verbs.evaluate import evaluate

    evaluation = evaluate(
        options.run,
        options.data,
        part=options.part,
        stride=options.stride,
        device=options.device,
        reading=reading,
        say=say,
    )
    metrics = evaluation.metrics
    if options.json:
        print_json(metrics)
        return 0
    results.print(f"{evaluation.words}, over {metrics['tokens']:,} tokens")
    say(f'next: glassformer generate {shlex.quote(options.run)} "A prompt" --probabilities')
    return 0
