"""The commands `glassformer look`, `check` and `doctor`, which examine a run."""

import argparse
import shlex
import webbrowser
from pathlib import Path

from glassformer.checks import NAMES, choose_checks
from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_out, show_result
from glassformer.cli.terminal.show import say, say_next, show_text
from glassformer.config.errors import Misuse
from glassformer.config.views import ALL, ENDINGS, OPTIONS, OWN_VIEWS, VIEWS, check_view, flag_of
from glassformer.decoding.options import Search

VIEW_LINES = [
    f"  {ALL:13} on a page: every one that a single text is enough for, made in a moment",
    *(f"  {name:13} {shows}" for name, shows in {**VIEWS, **OWN_VIEWS}.items()),
]
LOOK = Parser(
    "look",
    checks={"view": check_view},
    options={flag_of(name): table for name, table in OPTIONS.items()},
    views="\n".join(VIEW_LINES),
)
CHECK = Parser("check", checks={"only": choose_checks}, check_names="; ".join(NAMES.values()), names=", ".join(NAMES))
DOCTOR = Parser("doctor")
GOES_ON = ("failed", "interrupted", "training")
"""Statuses of training runs that can be resumed."""


def run_look(argv: list[str]) -> None:
    options = LOOK.read(argv)
    out = options.out or (None if options.json and not options.open else _usual_page(options))
    check_out(out, ENDINGS)
    if options.beam is not None:
        Search(beam=options.beam)  # refuse wrong options before torch is imported
    page = out is not None and out.endswith(".html")
    if options.open and not page:
        raise Misuse("--open shows a page: --out must end in .html")

    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.look import look

    view_options = {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}
    chooses = any("chooses" in OPTIONS[name] for name in view_options)
    name = options.view or (ALL if page and not chooses else None)
    view = look(options.run, *options.texts, view=name, device=options.device, **view_options)
    show_result(view, options, out=out, show=lambda: show_view(view))
    if out is not None:
        say(f"written: {out}")
        if options.open:
            webbrowser.open(Path(out).resolve().as_uri())


def _usual_page(options: argparse.Namespace) -> str:
    """Return the default file for a page."""
    if options.view != "report":
        return f"{options.view or 'look'}.html"
    from glassformer.runs.run import Run

    return str(Run.open(options.run).path / "report.html")


def run_check(argv: list[str]) -> None:
    options = CHECK.read(argv)
    check_out(options.out, ENDINGS)
    if options.run is None:
        _check_brick(options)
        return

    from glassformer.verbs.check import check

    checks = check(**arguments_of(options, check))
    show_result(checks, options, out=options.out)
    if not checks.passed:
        say(f"{checks.words}: what this run says depends on how it is asked")
        raise SystemExit(1)
    say_next(options.run)


def _check_brick(options: argparse.Namespace) -> None:
    """Check a user's brick."""
    if not options.brick:
        raise Misuse("RUN is missing, or --brick FILE.py:Name (see glassformer check --help)")
    if len(options.brick) > 1:
        raise Misuse("without a RUN, one brick at a time is checked")

    from glassformer.teaching.brick_check.check import check_brick

    checks = check_brick(options.brick[0], options.like)
    show_result(checks, options, out=options.out)
    say(f"{checks.words}{f'; likely reason: {checks.hint}' if checks.hint else ''}")
    if not checks.passed:
        raise SystemExit(1)


def run_doctor(argv: list[str]) -> None:
    options = DOCTOR.read(argv)
    check_out(options.out, ENDINGS)

    from glassformer.runs.run import Run
    from glassformer.verbs.check import doctor

    diagnosis = doctor(**arguments_of(options, doctor))

    def show() -> None:
        for finding in diagnosis.findings:
            at = f"step {finding.step:,}" if finding.step else "data"
            show_text(f"{finding.severity} ({at}): {finding.words}\n  try: {finding.advice}")
        show_text(diagnosis.note)

    show_result(diagnosis, options, out=options.out, show=show)
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
