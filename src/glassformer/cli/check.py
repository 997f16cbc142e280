"""glassformer check and glassformer doctor"""

import argparse
import shlex

from glassformer.checks import NAMES, choose_checks
from glassformer.cli.options import DEVICE, JSON, NO_VERIFY, RUN, Option, Parser, flag, values_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, say_next, show_result, show_text
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS

CHECK = Parser(
    "check",
    "RUN | --brick FILE.py:Name",
    "Whether a run computes the same whichever way it is asked: "
    + "; ".join(NAMES.values())
    + ". Without a RUN, whether a brick of your own computes what ours does: forward and backward, causality, "
    "padding; the first wrong tensor, and the likely reason. The largest difference of each; exit code 1 if one fails.",
    "glassformer check last\n  glassformer check --brick mine.py:Attention",
    [
        Option("run", nargs="?", metavar="RUN", help="a run's folder, or `last`"),
        Option("--brick", action="append", metavar="FILE.py:Name", help="without a RUN: a class or function of yours"),
        Option(
            "--like",
            metavar="KIND",
            help="what the brick should be, such as attention, layer-norm, lstm (default: by its name)",
        ),
        Option(
            "--only",
            check=choose_checks,
            metavar="NAMES",
            help=f"with commas between them, of {', '.join(NAMES)} (default all)",
        ),
        Option("--data", metavar="DATA", help="where the run's data is now, if it has moved"),
        Option("--export", metavar="DIR", help="where an export of it is (default: where it was exported to)"),
        DEVICE,
        Option("--out", metavar="FILE", help=f"the table as {', '.join(ENDINGS)}"),
        JSON,
        NO_VERIFY,
    ],
)

DOCTOR = Parser(
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

PARSERS = (CHECK, DOCTOR)


def run_check(argv: list[str]) -> None:
    options = CHECK.read(argv)
    check_out(options.out, ENDINGS)
    if options.run is None:
        _check_brick(options)
        return

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.check import check

    checks = check(options.run, **values_of(options, ("data", "only", "export", "device")), say=say)
    show_result(checks, as_json=options.json, out=options.out, show=lambda: show_view(checks.view()))
    if not checks.passed:
        say(f"{checks.words}: what this run says depends on how it is asked")
        raise SystemExit(1)
    say_next(options.run)


def _check_brick(options: argparse.Namespace) -> None:
    """A brick of a person's own."""
    if not options.brick:
        raise Misuse("RUN is missing, or --brick FILE.py:Name (see glassformer check --help)")
    if len(options.brick) > 1:
        raise Misuse("without a RUN, one brick at a time is checked")

    from glassformer.cli.terminal.view import show_view
    from glassformer.teaching.brick_check.check import check_brick

    checks = check_brick(options.brick[0], options.like)
    show_result(checks, as_json=options.json, out=options.out, show=lambda: show_view(checks.view()))
    say(f"{checks.words}{f'; likely reason: {checks.hint}' if checks.hint else ''}")
    if not checks.passed:
        raise SystemExit(1)


def run_doctor(argv: list[str]) -> None:
    options = DOCTOR.read(argv)
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
