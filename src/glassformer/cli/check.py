"""glassformer check and glassformer doctor"""

import argparse
import shlex

from glassformer.checks import NAMES, choose_checks
from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.cli.terminal.show import say, say_next, show_result, show_text
from glassformer.config.errors import Misuse
from glassformer.config.views import ENDINGS

CHECK = Parser("check", checks={"only": choose_checks}, check_names="; ".join(NAMES.values()), names=", ".join(NAMES))
DOCTOR = Parser("doctor")
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

    checks = check(**arguments_of(options, check), say=say)
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

    diagnosis = doctor(**arguments_of(options, doctor), say=say)

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
