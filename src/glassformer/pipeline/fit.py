"""Third stage of a training run: the loop, with a recorder, loggers and the doctor as listeners."""

import contextlib
from dataclasses import dataclass, replace

from glassformer.config.errors import GlassformerError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say, silent
from glassformer.diagnosis.advice import Advice
from glassformer.families.card import run_card
from glassformer.finetuning.sources import copy_extras
from glassformer.pipeline.build import BuiltRun
from glassformer.pipeline.loggers import Loggers, asked_loggers
from glassformer.pipeline.recorder import Recorder
from glassformer.pipeline.resolve import Session
from glassformer.reporting.papers import first_files, rewind
from glassformer.runs.folders import fill
from glassformer.runs.run import CARD, Run
from glassformer.training.budget import REPORT_SECONDS, Budget
from glassformer.training.checkpointer import RunCheckpointer
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Ended, Failed
from glassformer.training.loop import Trainer
from glassformer.training.schedule import total_steps


@dataclass(frozen=True, eq=False)
class FittedRun:
    """A training run after its last step."""

    trainer: Trainer
    recorder: Recorder
    loggers: Loggers
    ended: Ended


def fit(session: Session, built: BuiltRun) -> FittedRun:
    """Write the first files of the run and train its model."""
    session.processes.barrier()  # all processes have checked the folder
    request, processes, listen = session.request, session.processes, session.listen
    config, run, prepared, training = built.config, built.run, built.prepared, built.config.training
    chosen = training.patience is not None or request.flags().get("training.keep") == "best"
    if chosen and not prepared.task.validates:
        say("nothing is held out for validation: training.patience and training.keep best have no effect")
    total = total_steps(training, prepared.task)
    card = _first_card(session, built, total)
    names = asked_loggers(request.log_to, run if built.resumes else None) if processes.first else ()
    loggers = Loggers(run, names, lambda text: listen(Failed(text)))
    recorder = Recorder(run, built.model, prepared, config, listen, loggers)
    trainer = Trainer(
        built.model,
        built.family.training_task(prepared.task, built.model, config),
        replace(training, parallel="fsdp" if built.sharded else "ddp"),
        TrainerOptions(
            built.device,
            checkpointer=RunCheckpointer(run, keep=training.checkpoints, flush_log=recorder.flush, card=card),
            listen=recorder if processes.first else silent,
            processes=processes,
            resume=built.snapshot,
            describe=lambda batch, row: batch.describe(row, prepared.tokenizer),
            usual_rate=Advice(config, built.new_parts).usual,
            new_parts=built.new_parts,
            clock=request.clock,
            budget=_budget(session, built),
        ),
    )
    processes.first_does(lambda: _write_first_files(session, built, card))  # all checks of the request have passed
    if processes.first:
        recorder.begin_diagnosis()
        session.resources.callback(loggers.end)
        loggers.begin(card, built.snapshot.progress.step if built.snapshot else 0, same=built.unchanged)
    processes.barrier()
    try:
        ended = trainer.run()
    except GlassformerError:
        if processes.first:
            with contextlib.suppress(GlassformerError):  # a full disk refuses this too; the first error is reported
                run.update_card(status="failed")
        raise
    return FittedRun(trainer, recorder, loggers, ended)


def last_parts(session: Session, built: BuiltRun) -> list[str]:
    """Return the parts of the data that the last evaluation uses."""
    has_test = "test" in built.prepared.tokens and not session.request.draft
    return ["validation"] * built.prepared.task.validates + ["test"] * has_test


def _budget(session: Session, built: BuiltRun) -> Budget | None:
    """Return the budget of `training.minutes`, with the evaluation and the reports after the loop."""
    minutes, tokens = built.config.training.minutes, built.prepared.tokens
    if minutes is None:
        return None
    parts = last_parts(session, built)
    held_out = sum(tokens[part] for part in parts) / max(1, tokens.get("validation", 0))
    return Budget(60 * minutes, len(parts), held_out, report=0.0 if session.request.draft else REPORT_SECONDS)


def _first_card(session: Session, built: BuiltRun, total: int | None) -> JsonObject:
    card = run_card(built.config, built.prepared, built.model, session.request.command, built.source)
    if built.resumes:  # the best weights so far stay in place
        kept = ("best", "command", "before_refit", "specials")
        card |= {key: value for key, value in built.run.card().items() if key in kept}
    if session.request.before_refit is not None:
        card["before_refit"] = dict(session.request.before_refit)
    return {**card, "total_steps": total}


def _write_first_files(session: Session, built: BuiltRun, card: JsonObject) -> None:
    """Write the folder of a new run, or rewind that of a resumed one to its checkpoint."""
    if built.resumes:
        rewind(built.run, card, built.snapshot, card["total_steps"], keep=built.config.training.checkpoints)
        return
    with fill(built.run.path, CARD, instead=session.request.overwrite) as folder:
        first_files(Run(folder), card, built.prepared)
        copy_extras(built.config, Run(folder))
