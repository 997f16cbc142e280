"""Run a job: train and score a model, evaluate a baseline, fit a reference, or score an existing run."""

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
from glassformer.trials.jobs import EXISTING, FLOOR, REFERENCE, TRAINED, CurvePoint, Job, Outcome
from glassformer.trials.running.candidates import MASK, UNMASKED
from glassformer.trials.running.cpu_budget import row_updates
from glassformer.trials.running.folder import OUTCOME
from glassformer.trials.running.scoring import leakage, scored, seconds_per_example, undertraining
from glassformer.verbs.train import train

RUN = "run"
EVENT_SECONDS = 1.0
"""Minimum time between two events about the progress of training."""
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Tell = Callable[..., None]
"""Receives events, as keyword arguments."""


def run_job(job: Job, folder: Path, part: str, tell: Tell) -> Outcome | None:
    """Return the outcome of a job, scored on a part of the data; None if it was asked to stop."""
    return BY_KIND[job.kind](job, folder, part, tell)


# --- training ---


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
    tell(event="scoring")
    loaded = load(run, job.settings.get("training.device", "auto"))
    card = run.card()
    outcome = Outcome(
        job=job,
        part=part,
        parameters=int(card["parameters"]),
        learned=learned_of(card),
        memory=progress.memory(4 * int(card["parameters"])),
        threads=int(card["environment"]["threads"]),
        run=str(Path(folder.parent.name) / folder.name / RUN),
        note=UNMASKED if job.varied.get(MASK) is False else "",
    )
    return _score_run(outcome, loaded, split_data(loaded.config).parts[part])


def _status(run: Run) -> str:
    """Return the status of a run; empty if it has to start again."""
    try:
        status = str(Run.open(run.path).card().get("status"))
    except GlassformerError:
        return ""
    if status in DONE and run.weights_path.is_file():
        return status
    return status if status != "failed" and list_checkpoints(run.checkpoints_path) else ""


@dataclass
class _Progress:
    """Listener that passes on events of training at intervals and measures its memory."""

    tell: Tell
    last: float = 0.0
    peak: "PeakMemory | None" = None
    peak_bytes: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.peak = PeakMemory()
            self.tell(event="started", step=event.step, steps=event.steps, minutes=event.minutes)
        elif isinstance(event, Stepped) and time.monotonic() - self.last > EVENT_SECONDS:
            self.last = time.monotonic()
            self.tell(event="stepped", step=event.step, done=event.done)
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            primary, score = evaluation.primary, evaluation.metrics[evaluation.primary]
            self.tell(event="validated", step=event.step, name=primary, score=score, best=event.best)
        elif isinstance(event, Ended) and self.peak is not None:
            self.peak_bytes = self.peak.bytes()

    def memory(self, weights: int) -> int | None:
        """Return the peak memory; None if nothing was left to train.

        `weights`: their bytes, which a CPU holds before the first update.
        """
        if self.peak is None or self.peak_bytes is None:
            return None
        return self.peak_bytes if self.peak.cuda else self.peak_bytes + weights


class PeakMemory:
    """Peak memory of this process beyond that at the start of training; on a GPU, CUDA's peak."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        with contextlib.suppress(OSError):  # reading the data may have needed more
            RESET.write_text("5")
        self.before = _process_bytes("VmRSS")

    def bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.cuda else max(0, _process_bytes("VmHWM") - self.before)


def _process_bytes(name: str) -> int:
    """Return the bytes of this process: now (VmRSS), or at its peak (VmHWM)."""
    if STATUS.is_file():
        status = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(status[name].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# --- baselines and existing runs ---


def _run_baseline(job: Job, folder: Path, part: str, tell: Tell) -> Outcome:
    config, rows = infer_config({}, job.settings)
    prepared = prepare(config, rows=rows)
    tell(event="scoring")
    began = time.perf_counter()
    result = evaluate_baseline(job.kind, job.name, config, prepared, part, _slowest_training(folder.parent))
    took = time.perf_counter() - began
    outcome = Outcome(
        job=job,
        part=part,
        parameters=result.parameters,
        seconds=took if result.seconds is None else result.seconds,
        tokenizer=None if prepared.tokenizer is None or job.kind == REFERENCE else prepared.tokenizer.hash,
        note=result.note,
    )
    return scored(outcome, result.evaluation, FAMILIES[config.task])


def _slowest_training(jobs: Path) -> float | None:
    """Return the seconds of the slowest training run that has ended in this comparison; None if none has."""
    seconds = []
    for path in jobs.glob(f"*/{OUTCOME}"):
        with contextlib.suppress(GlassformerError):  # `compare` reports damaged files
            outcome = Outcome.read(path)
            seconds += [outcome.seconds] if outcome.job.kind == TRAINED and outcome.error is None else []
    return max(seconds, default=None)


def _run_existing(job: Job, folder: Path, part: str, tell: Tell) -> Outcome:
    settings = dict(job.settings)
    run = Run.open(settings.pop("run"))
    loaded = load(run)
    config, rows = infer_config({}, settings)
    if loaded.family is not FAMILIES[config.task] or loaded.config.data.kind != config.data.kind:
        own, here = (f"{side.task} ({side.data.kind})" for side in (loaded.config, config))
        raise Misuse(f"{run.path} is a run of {own}, and {here} is compared here: remove it from --runs")
    primary, _ = loaded.family.selection(config)
    if primary == AVERAGE_PRECISION and primary != loaded.family.selection(loaded.config)[0]:
        raise Misuse(f"{run.path} was not trained with --training.choose_by {primary}: remove it from --runs")
    training = replace(loaded.config.training, choose_by=config.training.choose_by)
    loaded = replace(loaded, config=replace(loaded.config, training=training))
    corpus = split_data(config, rows)
    tell(event="scoring")
    overlap = leakage(run, loaded.config, config, corpus, part)
    outcome = Outcome(
        job=job,
        part=part,
        parameters=loaded.parameters,
        run=str(run.path.resolve()),
        note=overlap.note,
        seen=overlap.seen,
    )
    return _score_run(outcome, loaded, corpus.parts[part])


# --- outcomes of runs ---


def _score_run(outcome: Outcome, loaded: Loaded, examples: Any) -> Outcome:
    """Score a run on examples of its own data, or of other data of the same kind."""
    notes = [outcome.note] if outcome.note else []
    with torch.inference_mode():
        evaluation = loaded.family.evaluate_part(loaded, examples, EvaluateOptions()).evaluation
    with listening(notes.append):
        card, log = loaded.run.card(), list(loaded.run.read_metrics())
    outcome = replace(
        outcome,
        steps=int(card.get("steps", 0)),
        seconds=float(card.get("seconds", 0.0)),
        per_example=seconds_per_example(loaded, examples),
        tokenizer=None if loaded.tokenizer is None else loaded.tokenizer.hash,
        curve=_curve(log, evaluation.primary),
        undertrained=undertraining(card, log),
        note="; ".join(notes),
    )
    return scored(outcome, evaluation, loaded.family)


def _curve(log: Iterable[Mapping[str, Any]], primary: str) -> list[CurvePoint]:
    """Return the validations during training, with the seconds of training until then."""
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
    EXISTING: _run_existing,
}
