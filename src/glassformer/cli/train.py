"""The command `glassformer train`."""

import argparse
import gc
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.cli.options import Parser, training_settings
from glassformer.cli.terminal.inputs import check_folder, show_result
from glassformer.cli.terminal.show import say, say_next, show_table, show_text
from glassformer.config.errors import Misuse
from glassformer.data.wording import counted
from glassformer.training.budget import Stopwatch

REQUEUE = 75
"""Exit code of a training run that has saved a checkpoint after a scheduler's signal and can be resumed
(EX_TEMPFAIL)."""

PARSER = Parser("train", checks={"out": check_folder})


def run(argv: list[str]) -> None:
    clock = Stopwatch()  # started before torch is imported
    options = PARSER.read(argv)
    if options.resume and options.overwrite:
        raise Misuse("--resume goes on with a run, --overwrite replaces it: give one of them")
    settings = training_settings(options, "train", needs_data=not options.resume)
    folds = options.folds is not None or (options.resume and options.out and Path(options.out, "folds.json").exists())
    if folds and any(key in settings for key in ("data.folds", "data.fold")):
        raise Misuse("--folds trains on every fold, --data.folds and --data.fold on one: give one of them")
    request = {
        "out": options.out,
        "config": options.config,
        "resume": options.resume,
        "overwrite": options.overwrite,
        "refit": options.refit,
        "log_to": options.log_to,
        "command": shlex.join(["glassformer", "train", *argv]),
        **settings,
    }
    if "training.minutes" in settings and (folds or options.refit):
        each = "for each fold" if folds else "for the training before the refit"
        then = "; the refit, of as many updates as the best weights took, is on top" * options.refit
        say(f"--minutes is {each}{then}")
    if folds:
        _cross_validate(options, request)
    else:
        _train(options, {**request, "clock": clock})


@contextmanager
def collected_later() -> Iterator[None]:
    """Disable garbage collection while modules are imported, and exclude them from later collections.

    None of the imported objects is garbage. Scanning them takes about 5 % of a short training run.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _train(options: argparse.Namespace, request: dict[str, Any]) -> None:
    with collected_later():
        from glassformer.cli.terminal.progress import Watcher
        from glassformer.verbs.train import train

    with Watcher() as watcher:
        trained = train(options.data, listen=watcher, **request)
    if os.environ.get("RANK", "0") != "0":
        return
    if trained.reason == "interrupted":
        refit = " --refit" * (options.refit and trained.before_refit is None)
        program = "torchrun … -m glassformer" if "TORCHELASTIC_RUN_ID" in os.environ else "glassformer"
        say(f"stopped after step {trained.steps:,} and saved; go on with: "
            f"{program} train --resume{refit} --out {shlex.quote(trained.run)}")  # fmt: skip
        raise SystemExit(1 if trained.signal in (None, signal.SIGINT) else REQUEUE)
    show_result(trained, options, show=lambda: show_text(trained.line))
    say_next(trained.run)


def _cross_validate(options: argparse.Namespace, request: dict[str, Any]) -> None:
    from glassformer.cli.terminal.progress import Watcher
    from glassformer.trials.cross_validation import cross_validate
    from glassformer.trials.results.metrics import titled

    with Watcher() as watcher:
        validated = cross_validate(options.data, folds=options.folds, listen=watcher, **request)
    here, refit = shlex.quote(validated.out), " --refit" * options.refit
    if validated.reason == "interrupted":
        say(f"stopped and saved; go on with: glassformer train --resume{refit} --out {here}")
        raise SystemExit(1)

    def show() -> None:
        rows = [
            [str(fold.fold), f"{fold.metrics[validated.primary]:.4f}", counted(fold.steps, "update")]
            for fold in validated.folds
        ]
        show_table(["fold", titled(validated.primary), "best after"], rows)
        show_text(f"{validated.out}: {validated.model}; {validated.words}")
        say(f"note: {validated.note}")

    show_result(validated, options, show=show)
    if validated.refit is not None:
        say_next(validated.out)
    else:
        say(f"next: glassformer train --resume --refit --out {here}, which trains on all rows")
