"""What a cell does: train and judge a model, count a floor, fit a reference, judge a run that is given."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.resolve import Config
from glassformer.config.say import silent
from glassformer.families.base import Loaded
from glassformer.families.card import learned_of
from glassformer.families.infer import infer_config
from glassformer.families.load import load
from glassformer.families.prepare import prepare, split_data
from glassformer.pipeline.refit import DONE
from glassformer.runs.checkpoints import list_checkpoints
from glassformer.runs.run import CARD, Run
from glassformer.tasks.base import Evaluation
from glassformer.training.events import Ended, Event, Started, Stepped, Validated
from glassformer.trials.baselines.judge import judge_floor, judge_reference
from glassformer.trials.baselines.language import left_out
from glassformer.trials.baselines.names import NGRAM
from glassformer.trials.outcome import FLOOR, GIVEN, REFERENCE, TRAINED, Cell, Outcome
from glassformer.trials.running.ablate import MASK, UNMASKED
from glassformer.trials.running.judged import in_use, judged
from glassformer.trials.running.peak import Peak
from glassformer.trials.running.scores import example_scores
from glassformer.trials.running.seen import seen
from glassformer.verbs.train import train

RUN = "run"
OFTEN = 0.25
"""Seconds between two words on how far a training is."""


class Tell(Protocol):
    """Who hears what happens."""

    def __call__(self, **event: Any) -> None: ...


def work(cell: Cell, folder: Path, part: str, tell: Tell) -> Outcome | None:
    """None: it was asked to stop on the way."""
    return WORK[cell.kind](cell, folder, part, tell)


# --- a model that is trained ---


def _trained(cell: Cell, folder: Path, part: str, tell: Tell) -> Outcome | None:
    run, hears = Run(folder / RUN), _Hears(tell)
    before = _before(run)
    if before == "":
        shutil.rmtree(run.path, ignore_errors=True)
        reason = train(None, out=run.path, draft=True, listen=hears, **cell.settings).reason
    elif before not in DONE:
        reason = train(out=run.path, resume=True, draft=True, listen=hears).reason
    else:
        reason = before
    if reason == "interrupted":
        return None
    tell(event="judging")
    loaded = load(run, cell.settings.get("training.device", "auto"))
    card = run.card()
    examples = split_data(loaded.config).parts[part]
    evaluation = judged(loaded, examples)
    return _outcome(
        cell,
        part,
        evaluation,
        loaded.config,
        parameters=int(card["parameters"]),
        learned=learned_of(card),
        steps=int(card["steps"]),
        seconds=float(card["seconds"]),
        memory=hears.memory(4 * int(card["parameters"])),
        per_example=in_use(loaded, examples),
        tokenizer=_tokens(loaded),
        run=str(Path(folder.parent.name) / folder.name / RUN),
        curve=_curve(run, evaluation.primary),
        note=UNMASKED if cell.varied.get(MASK) is False else "",
    )


def _before(run: Run) -> str:
    """How far a run is: finished, stopped early, on the way; nothing, where it has to begin anew."""
    if not (run.path / CARD).is_file():
        return ""
    try:
        status = str(Run.open(run.path).card().get("status"))
    except GlassformerError:
        return ""
    if status in DONE and run.weights_path.is_file():
        return status
    return status if status != "failed" and list_checkpoints(run.checkpoints_path) else ""


class _Hears:
    """Passes on what a training says of itself, not too often, and measures its memory."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.told = 0.0
        self.peak: Peak | None = None
        self.most: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.peak = Peak()
            self.tell(event="started", step=event.step, steps=event.steps, minutes=event.minutes)
        elif isinstance(event, Stepped) and time.monotonic() - self.told > OFTEN:
            self.told = time.monotonic()
            self.tell(event="stepped", step=event.step, done=event.done)
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            score = evaluation.metrics[evaluation.primary]
            self.tell(event="validated", step=event.step, name=evaluation.primary, score=score, best=event.best)
        elif isinstance(event, Ended) and self.peak is not None:
            self.most = self.peak.bytes()

    def memory(self, weights: int) -> int | None:
        """None where nothing was left to train. `weights`: their bytes, which a CPU holds before the first update."""
        if self.peak is None or self.most is None:
            return None
        return self.most if self.peak.cuda else self.most + weights


def _curve(run: Run, primary: str) -> list[tuple[int, float, float]]:
    """Validations on the way: updates, seconds of training until then, the primary metric."""
    seconds, curve = 0.0, []
    for line in run.read_metrics():
        if line.get("event") == "step":
            seconds = float(line["seconds"])
        elif line.get("event") == "validation" and primary in line:
            curve.append((int(line["step"]), seconds, float(line[primary])))
    return curve


def _tokens(loaded: Loaded) -> str | None:
    return None if loaded.tokenizer is None else loaded.tokenizer.hash


# --- what is not trained by us ---


def _floor(cell: Cell, folder: Path, part: str, tell: Tell) -> Outcome:
    config, prepared = _prepared(cell)
    tell(event="judging")
    began = time.perf_counter()
    if cell.kind == FLOOR:
        evaluation, parameters = judge_floor(cell.name, config, prepared, part)
        seconds = time.perf_counter() - began
    else:
        evaluation, parameters, seconds = judge_reference(cell.name, config, prepared, part)
    tokenizer = None if prepared.tokenizer is None or cell.kind == REFERENCE else prepared.tokenizer.hash
    note = left_out(prepared.task) if cell.name == NGRAM else ""
    return _outcome(
        cell, part, evaluation, config, parameters=parameters, seconds=seconds, tokenizer=tokenizer, note=note
    )


def _prepared(cell: Cell) -> tuple[Config, Any]:
    config, table = infer_config({}, cell.settings, silent)
    return config, prepare(config, silent, rows=table)


def _given(cell: Cell, folder: Path, part: str, tell: Tell) -> Outcome:
    settings = dict(cell.settings)
    run = Run.open(settings.pop("run"))
    loaded = load(run)
    config, table = infer_config({}, settings, silent)
    if loaded.config.task != config.task or loaded.config.data.kind != config.data.kind:
        own, here = (f"{one.task} ({one.data.kind})" for one in (loaded.config, config))
        raise Misuse(f"{run.path} is a run of {own}, and {here} is compared here: leave it out of --runs")
    corpus = split_data(config, table)
    tell(event="judging")
    card = run.card()
    evaluation = judged(loaded, corpus.parts[part])
    note, known = seen(run, loaded.config, config, corpus, part)
    return _outcome(
        cell,
        part,
        evaluation,
        config,
        parameters=loaded.parameters,
        steps=int(card.get("steps", 0)),
        seconds=float(card.get("seconds", 0.0)),
        per_example=in_use(loaded, corpus.parts[part]),
        tokenizer=_tokens(loaded),
        run=str(run.path.resolve()),
        curve=_curve(run, evaluation.primary),
        note=note,
        seen=known,
    )


def _outcome(cell: Cell, part: str, evaluation: Evaluation, config: Config, **more: Any) -> Outcome:
    scores, weights, digest = example_scores(evaluation, config.task)
    return Outcome(
        cell=cell,
        part=part,
        metrics=dict(evaluation.metrics),
        primary=evaluation.primary,
        lower_is_better=evaluation.lower_is_better,
        scores=[float(score) for score in scores],
        weights=None if weights is None else [float(weight) for weight in weights],
        examples=digest,
        **more,
    )


WORK: dict[str, Callable[[Cell, Path, str, Tell], Outcome | None]] = {
    TRAINED: _trained,
    FLOOR: _floor,
    REFERENCE: _floor,
    GIVEN: _given,
}
