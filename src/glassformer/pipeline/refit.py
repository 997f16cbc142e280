"""Refits: a last training run on all rows, after a run with held-out rows has determined the number of updates."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import listening
from glassformer.data.wording import counted
from glassformer.families.card import BEFORE
from glassformer.families.resume import resumed_config
from glassformer.pipeline.loggers import asked_loggers
from glassformer.pipeline.request import BeforeRefit, Trained, TrainRequest
from glassformer.pipeline.resolve import refuse_refit
from glassformer.pipeline.training import train_run
from glassformer.reporting.papers import README
from glassformer.runs.files import write_text
from glassformer.runs.folders import contents, writing
from glassformer.runs.run import CARD, DONE, Run
from glassformer.training.distributed.processes import Processes
from glassformer.training.events import Noted, as_notes

HELD_OUT = "held-out"
"""Folder inside a run with the run before its refit."""


def waits_for_refit(out: "str | Path | None") -> bool:
    """Return whether a training run was stopped before its refit."""
    return out is not None and not Path(out, CARD).exists() and Path(out, HELD_OUT, CARD).exists()


def train_and_refit(request: TrainRequest) -> Trained:
    """Train with held-out rows, move that run into `held-out`, and train on all rows in its place."""
    if Processes.from_environment().world > 1:
        raise SettingError("a refit runs in one process: train without --refit in several")
    out = request.folder
    if out is None or not out.is_dir():
        return _train_and_refit(request)
    with listening(as_notes(request.listen)), Run.locked(out, "training"):
        return _train_and_refit(replace(request, out=out))


def _train_and_refit(request: TrainRequest) -> Trained:
    out, resume = request.out, request.resume
    if waits_for_refit(out):
        if not resume:
            raise Misuse(f"{out} holds a training that waits for its refit: go on with --resume, or name another --out")
        run = Run.open(Path(str(out), HELD_OUT))
    else:
        known = Run.open(out) if resume and out is not None and Path(out, CARD).exists() else None
        if known is not None and known.config().data.refit:
            if request.names_data:  # one command for both runs: compare its settings with those of the first
                resumed_config(Run.open(known.path / HELD_OUT), request.all_settings(), may_change=False)
                request = replace(request, data=None, config=None, model=request.own_model, settings={})
            return train_run(replace(request, out=known.path))
        if known is not None:
            refuse_refit(known.config())
        if known is not None and known.card().get("status") in DONE:
            resumed_config(known, request.all_settings(), may_change=not request.names_data)
            run = _moved(known.path)
        else:
            first = train_run(replace(request, expects_refit=True))
            if first.reason == "interrupted":
                return first
            with listening(as_notes(request.listen)), Run.locked(Path(first.run), "training"):
                return _refit(_moved(Path(first.run)), request)
    return _refit(run, request)


def _refit(run: Run, request: TrainRequest) -> Trained:
    """Train on all rows after the run with held-out rows."""
    card = run.card()
    steps = int(card["best"]["step"])
    scores: JsonObject = {part: card[part] for part in ("validation", "test") if part in card}
    before: BeforeRefit = {"runs": [HELD_OUT], "steps": steps, "words": held_words(card), **scores}
    return refitted(run, request, total=int(card.get("total_steps") or card["steps"]), before=before)


def _moved(path: Path) -> Run:
    """Move a run into `held-out`, its card last, so that an interrupted move can be repeated."""
    inside = path / HELD_OUT
    with writing(path):
        inside.mkdir(exist_ok=True)
        for entry in sorted(contents(path), key=lambda entry: entry.name == CARD):
            if entry.name == README:  # it contains the path of the run
                write_text(inside / README, entry.read_text(encoding="utf-8").replace(str(path), str(inside)))
                entry.unlink()
            elif entry != inside:
                entry.rename(inside / entry.name)
    return Run(inside)


def refitted(like: Run, request: TrainRequest, *, total: int, before: BeforeRefit) -> Trained:
    """Train on all rows with the settings of the run `like`, in the folder that contains it.

    `before` states the number of updates; `total`: planned updates of `like`, which determine the learning rates. The
    model, the listener and the loggers are those of `request`.
    """
    steps = int(before["steps"])
    request.listen(Noted(f"refit: {counted(steps, 'update')} on all rows but the test; {BEFORE}: {before['words']}"))
    settings = {
        "data.refit": True,
        "training.steps": steps,
        "training.schedule_steps": max(steps, total),
        "training.keep": "last",
        "training.patience": None,
    }
    again = TrainRequest(
        config=like.path / CARD,
        out=like.path.parent,
        model=request.own_model,
        listen=request.listen,
        command=request.command,
        log_to=asked_loggers(request.log_to, like),
        settings=settings,
        before_refit=before,
    )
    return train_run(again)


def held_words(card: Mapping[str, Any]) -> str:
    """Return the scores of a run on its held-out parts as text."""
    known = card.get("words", {})
    parts = [name for name in ("validation", "test") if name in card]
    listed = {part: ", ".join(f"{name} {value:.4g}" for name, value in card[part].items()) for part in parts}
    return "; ".join(f"{part} {known.get(part) or listed[part]}" for part in parts)
