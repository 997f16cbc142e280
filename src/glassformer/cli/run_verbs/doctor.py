"""glassformer doctor"""

import shlex

from glassformer.cli.options import DEVICE, RUN, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, say_next, show_result, show_text
from glassformer.config.views import ENDINGS

PARSER = Parser(
    "doctor",
    "RUN",
    "What is wrong with a training, in plain words: each finding with the number behind it and what to try. A run that "
    "failed or goes on still can be asked too. The exit code is 0 with findings too (--json names them).",
    "glassformer doctor last",
    [
        RUN,
        Option("--out", metavar="FILE", help=f"also write it to a file: {', '.join(ENDINGS)}"),
        DEVICE,
        flag("--json", "print the findings as one JSON object"),
    ],
)
GOES_ON = ("failed", "interrupted", "training")
"""Trainings that have not ended."""


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    check_out(options.out, ENDINGS)

    from glassformer.runs.run import Run
    from glassformer.verbs.check import doctor

    diagnosis = doctor(options.run, device=options.device, say=say)

    def show() -> None:
        for finding in diagnosis.findings:
            at = f"step {finding.step:,}" if finding.step else "data"
            show_text(f"{finding.severity} ({at}): {finding.words}\n  try: {finding.advice}")
        show_text(diagnosis.note)

    show_result(diagnosis, as_json=options.json, out=options.out, show=show)
    say(f"looked at: {'; '.join(diagnosis.looked)}")
    if diagnosis.missing:
        say(f"not looked at: {diagnosis.missing}")
    if options.out is not None:
        say(f"written: {options.out}")
    examined = Run.open(options.run)
    if examined.card().get("status") in GOES_ON:
        say(f"next: glassformer train --resume --out {shlex.quote(str(examined.path))}")
    else:
        say_next(str(examined.path))
