"""Last stage of a training run: the evaluation of the kept weights, the doctor, the reports and the card."""

from dataclasses import replace

import torch

from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.families.base import Prepared
from glassformer.families.card import forgetting_line
from glassformer.pipeline import continuing
from glassformer.pipeline.build import BuiltRun
from glassformer.pipeline.fit import FittedRun, last_parts
from glassformer.pipeline.request import Trained
from glassformer.pipeline.resolve import Session
from glassformer.reporting.papers import leave_papers
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.intervals import with_interval
from glassformer.training.loop import Trainer


def finish(session: Session, built: BuiltRun, fitted: FittedRun) -> Trained:
    """Evaluate the kept weights, and complete the folder of the run."""
    run, request, ended = built.run, session.request, fitted.ended
    evaluations: dict[str, Evaluation] = {}
    evaluated = built.prepared
    interrupted = ended.reason == "interrupted"
    if not interrupted:
        evaluations, evaluated = _evaluate(session, built, fitted.trainer)
    status = {"patience": "stopped early"}.get(ended.reason, ended.reason)
    context = fitted.trainer.context
    changes: JsonObject = {
        "status": status,
        "steps": ended.step,
        "seconds": ended.seconds,
        "environment": {
            **run.card()["environment"],
            "device": str(built.device),
            "matrix products": context.precision.name,
            "threads": str(context.progress.threads),
            "processes": str(session.processes.world),
        },
        "words": {name: evaluation.summary for name, evaluation in evaluations.items()},
        **{name: evaluation.metrics for name, evaluation in evaluations.items()},
    }
    if built.old_text is not None and built.source is not None and not interrupted:
        changes["from"] = continuing.with_loss_after(built.source, built.old_text.loss(built.model))
        session.remark(str(forgetting_line(changes["from"])))
    card = {**run.card(), **changes}
    if session.processes.first:
        if not interrupted:
            examined = None if request.draft or not _has_time(fitted.trainer, run) else built.model
            fitted.recorder.conclude_diagnosis(examined, evaluations.get("validation"))
        if not request.draft:
            leave_papers(run, card, built.config, evaluated, built.model, evaluations)
        fitted.loggers.end(status, {name: evaluation.metrics for name, evaluation in evaluations.items()})
        # The card is written last: a run killed before this resumes here and writes everything again.
        run.update_card(**changes, weights=None if interrupted else run.weights_digest())
    trained = Trained.from_card(run, card, evaluations, tuple(session.remarks))
    return replace(trained, signal=ended.signal)


def _evaluate(session: Session, built: BuiltRun, trainer: Trainer) -> tuple[dict[str, Evaluation], Prepared]:
    """Load the kept weights and evaluate them; return the evaluations by part, and the data that they used."""
    session.processes.barrier()  # the first process has written the weights
    built.model = trainer.context.parallel.empty_model()
    built.run.load_weights(built.model)
    built.model.eval()
    parts = last_parts(session, built)
    task = trainer.validator.last_task(parts, trainer.elapsed(), whole=session.request.draft)
    with torch.inference_mode():
        evaluations = {part: with_interval(task, task.evaluate(built.model, part)) for part in parts}
    return evaluations, replace(built.prepared, task=built.prepared.task.sample(task.share))


def _has_time(trainer: Trainer, run: Run) -> bool:
    """Return whether the minutes allow the doctor to check the model; `glassformer doctor` can do that later too."""
    budget = trainer.context.budget
    if budget is None or budget.allows_doctor(trainer.context.progress, trainer.elapsed()):
        return True
    say(f"for want of time the doctor looks at the model later: glassformer doctor {run.path}")
    return False
