"""What a job does: train and judge a model, count a floor, fit a reference, judge a run that was there before."""

import contextlib
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.messages import listening
from glassformer.families.base import FAMILIES, Loaded
from glassformer.families.build import prepare, split_data
from glassformer.families.card import learned_of
from glassformer.families.load import load
from glassformer.families.recognition import infer_config
from glassformer.families.requests import EvaluateOptions
from glassformer.runs.checkpoints import list_checkpoints
from glassformer.runs.run import DONE, Run
from glassformer.tasks.prediction import AVERAGE_PRECISION
from glassformer.training.events import Ended, Event, Started, Stepped, Validated
from glassformer.trials.baselines.registry import evaluate_baseline
from glassformer.trials.jobs import FLOOR, GIVEN, REFERENCE, TRAINED, CurvePoint, Job, Outcome
from glassformer.trials.running.candidates import MASK, UNMASKED
from glassformer.trials.running.cpu_budget import row_updates
from glassformer.trials.running.folder import OUTCOME
from glassformer.trials.running.scoring import leakage, outcome_of, seconds_per_example, undertraining
from glassformer.verbs.train import train

RUN = "run"
OFTEN = 1.0
"""Seconds between two words on how far a training is."""
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Tell = Callable[..., None]
"""Who hears what happens, by keyword."""


def run_job(job: Job, folder: Path, part: str, tell: Tell) -> Outcome | None:
    """What a job comes to on a part of the data; None: it was asked to stop on the way."""
    return BY_KIND[job.kind](job, folder, part, tell)


# --- a model that is trained ---


def _run_training(job: Job, folder: Path, part: str, tell: Tell) -> Outcome | None:
    run, progress = Run(folder / RUN), _Progress(tell)
    status = _status(run)
    if status == "":
        shutil.rmtree(run.path, ignore_errors=True)
        budget: dict[str, Any] = {}
        if job.cpu_seconds is not None:
            updates = row_updates(job.cpu_seconds, job.settings, folder)
            if updates is None:
                return None
            budget = {"training.steps": updates}
        status = train(None, out=run.path, draft=True, listen=progress, **job.settings, **budget).reason
    elif status not in DONE:
        status = train(out=run.path, resume=True, draft=True, listen=progress).reason
    if status == "interrupted":
        return None
    tell(event="judging")
    loaded = load(run, job.settings.get("training.device", "auto"))
    card, examples = run.card(), split_data(loaded.config).parts[part]
    return _run_outcome(
        job,
        part,
        loaded,
        examples,
        parameters=int(card["parameters"]),
        learned=learned_of(card),
        memory=progress.memory(4 * int(card["parameters"])),
        threads=int(card["environment"]["threads"]),
        run=str(Path(folder.parent.name) / folder.name / RUN),
        note=UNMASKED if job.varied.get(MASK) is False else "",
    )


def _status(run: Run) -> str:
    """How far a run is: finished, stopped early, on the way; nothing, where it has to begin anew."""
    try:
        status = str(Run.open(run.path).card().get("status"))
    except GlassformerError:
        return ""
    if status in DONE and run.weights_path.is_file():
        return status
    return status if status != "failed" and list_checkpoints(run.checkpoints_path) else ""


@dataclass
class _Progress:
    """Passes on what a training says of itself, not too often, and measures its memory."""

    tell: Tell
    last: float = 0.0
    peak: "PeakMemory | None" = None
    most: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.peak = PeakMemory()
            self.tell(event="started", step=event.step, steps=event.steps, minutes=event.minutes)
        elif isinstance(event, Stepped) and time.monotonic() - self.last > OFTEN:
            self.last = time.monotonic()
            self.tell(event="stepped", step=event.step, done=event.done)
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            primary, score = evaluation.primary, evaluation.metrics[evaluation.primary]
            self.tell(event="validated", step=event.step, name=primary, score=score, best=event.best)
        elif isinstance(event, Ended) and self.peak is not None:
            self.most = self.peak.bytes()

    def memory(self, weights: int) -> int | None:
        """None where nothing was left to train. `weights`: their bytes, which a CPU holds before the first update."""
        if self.peak is None or self.most is None:
            return None
        return self.most if self.peak.cuda else self.most + weights


class PeakMemory:
    """The most that this process held since the start of a training, beyond what it held then; on a GPU, CUDA's."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        with contextlib.suppress(OSError):  # the peak so far may be that of reading the data
            RESET.write_text("5")
        self.before = _process_bytes("VmRSS")

    def bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.cuda else max(0, _process_bytes("VmHWM") - self.before)


def _process_bytes(name: str) -> int:
    """Return the bytes of this process: now (VmRSS), or at the most (VmHWM)."""
    if STATUS.is_file():
        status = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(status[name].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# --- what is not trained here ---


def _run_baseline(job: Job, folder: Path, part: str, tell: Tell) -> Outcome:
    config, rows = infer_config({}, job.settings)
    prepared = prepare(config, rows=rows)
    tell(event="judging")
    began = time.perf_counter()
    result = evaluate_baseline(job.kind, job.name, config, prepared, part, _slowest_training(folder.parent))
    took = time.perf_counter() - began
    return outcome_of(
        job,
        part,
        result.evaluation,
        FAMILIES[config.task],
        parameters=result.parameters,
        seconds=took if result.seconds is None else result.seconds,
        tokenizer=None if prepared.tokenizer is None or job.kind == REFERENCE else prepared.tokenizer.hash,
        note=result.note,
    )


def _slowest_training(jobs: Path) -> float | None:
    """Return the seconds of the slowest training run that has ended in this comparison; None if none has."""
    seconds = []
    for path in jobs.glob(f"*/{OUTCOME}"):
        with contextlib.suppress(GlassformerError):  # a damaged file is reported where the table is made
            outcome = Outcome.read(path)
            seconds += [outcome.seconds] if outcome.job.kind == TRAINED and outcome.error is None else []
    return max(seconds, default=None)


def _judge_run(job: Job, folder: Path, part: str, tell: Tell) -> Outcome:
    settings = dict(job.settings)
    run = Run.open(settings.pop("run"))
    loaded = load(run)
    config, rows = infer_config({}, settings)
    if loaded.family is not FAMILIES[config.task] or loaded.config.data.kind != config.data.kind:
        own, here = (f"{side.task} ({side.data.kind})" for side in (loaded.config, config))
        raise Misuse(f"{run.path} is a run of {own}, and {here} is compared here: leave it out of --runs")
    primary, _ = loaded.family.selection(config)
    if primary == AVERAGE_PRECISION and primary != loaded.family.selection(loaded.config)[0]:
        raise Misuse(f"{run.path} was not trained with --training.choose_by {primary}: remove it from --runs")
    training = replace(loaded.config.training, choose_by=config.training.choose_by)
    loaded = replace(loaded, config=replace(loaded.config, training=training))
    corpus = split_data(config, rows)
    tell(event="judging")
    note, seen = leakage(run, loaded.config, config, corpus, part)
    return _run_outcome(
        job,
        part,
        loaded,
        corpus.parts[part],
        parameters=loaded.parameters,
        run=str(run.path.resolve()),
        note=note,
        seen=seen,
    )


# --- outcomes ---


def _run_outcome(job: Job, part: str, loaded: Loaded, examples: Any, *, note: str, **more: Any) -> Outcome:
    """What a run comes to on a part of its own data, or of other data of the same kind."""
    notes = [note] if note else []
    with torch.inference_mode():
        evaluation = loaded.family.evaluate_part(loaded, examples, EvaluateOptions()).evaluation
    with listening(notes.append):
        card, log = loaded.run.card(), list(loaded.run.read_metrics())
    return outcome_of(
        job,
        part,
        evaluation,
        loaded.family,
        steps=int(card.get("steps", 0)),
        seconds=float(card.get("seconds", 0.0)),
        per_example=seconds_per_example(loaded, examples),
        tokenizer=None if loaded.tokenizer is None else loaded.tokenizer.hash,
        curve=_curve(log, evaluation.primary),
        undertrained=undertraining(card, log),
        note="; ".join(notes),
        **more,
    )


def _curve(log: Iterable[Mapping[str, Any]], primary: str) -> list[CurvePoint]:
    """Return the validations on the way, with the seconds of training until then."""
    seconds, curve = 0.0, []
    for line in log:
        if line.get("event") == "step":
            seconds = float(line["seconds"])
        elif line.get("event") == "validation" and primary in line:
            curve.append(CurvePoint(int(line["step"]), seconds, float(line[primary])))
    return curve


BY_KIND: dict[str, Callable[[Job, Path, str, Tell], Outcome | None]] = {
    TRAINED: _run_training,
    FLOOR: _run_baseline,
    REFERENCE: _run_baseline,
    GIVEN: _judge_run,
}
