"""glassformer doctor"""

import shlex

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.views import ENDINGS

EXAMPLE = "glassformer doctor last"
GOES_ON = ("failed", "interrupted", "training")
"""Trainings that have not ended."""


def parser() -> Parser:
    made = Parser("doctor", "RUN", "What is wrong with a training, in plain words: each finding with the number behind "
                  "it and what to try. A run that failed or goes on still can be asked too. The exit code is 0 with "
                  "findings too (--json names them).", EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("--out", metavar="FILE", help=f"also write it to a file: {', '.join(ENDINGS)}")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    check_out(options.out, ENDINGS)

    from glassformer.cli.terminal.show import print_json, printable, results, say, say_next
    from glassformer.runs.run import Run
    from glassformer.verbs.doctor import doctor

    found = doctor(options.run, device=options.device, say=say)
    if options.out is not None:
        found.save(options.out)
    if options.json:
        print_json(found.to_dict())
    else:
        for finding in found.findings:
            at = f"step {finding.step:,}" if finding.step else "data"
            results.print(f"{finding.severity} ({at}): {printable(finding.words)}\n  try: {finding.advice}")
        results.print(found.note)
    say(f"looked at: {'; '.join(found.looked)}")
    if found.missing:
        say(f"not looked at: {found.missing}")
    if options.out is not None:
        say(f"written: {options.out}")
    asked = Run.open(options.run)
    if asked.card().get("status") in GOES_ON:
        say(f"next: glassformer train --resume --out {shlex.quote(str(asked.path))}")
    else:
        say_next(str(asked.path))
    return 0
