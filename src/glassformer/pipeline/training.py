"""One training, from what a person asked for to a finished run: resolve, prepare, build, fit, report."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import GlassformerError, SettingError, silent
from glassformer.config.resolve import Config, renamed_lines
from glassformer.diagnosis.advice import Advice
from glassformer.families.base import FAMILIES, Family, OwnModel, Prepared, tokenizers_of
from glassformer.families.load import (
    build_model,
    check_same_data,
    learn_from_data,
    prepare,
    resumed_config,
    run_card,
    say_size,
    snapshot_to_resume,
    try_out,
)
from glassformer.families.recognition import file_settings, flag_settings, infer_config, with_vectors
from glassformer.finetuning.sources import copy_extras, refuse_same
from glassformer.models.build import learned_count, parameter_count
from glassformer.pipeline.recorder import Recorder, TrainingDoctor
from glassformer.planning.available_memory import available_memory
from glassformer.planning.model_size import refuse_too_large
from glassformer.reporting.papers import first_files, leave_papers
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.intervals import with_interval
from glassformer.training.budget import PAPERS, Budget, Clock, Stopwatch
from glassformer.training.checkpointer import RunCheckpointer, Snapshot
from glassformer.training.device import choose_device
from glassformer.training.events import Ended, Listener, Noted
from glassformer.training.frozen import freeze
from glassformer.training.loop import Trainer
from glassformer.training.processes import Processes
from glassformer.training.schedule import total_steps


@dataclass(frozen=True)
class Trained:
    """What a training came to."""

    run: str
    task: str
    model: str
    parameters: int
    learned: int
    """How many of the parameters were trained."""
    steps: int
    seconds: float
    """The time spent in updates, validations left out."""
    reason: str
    """Why it ended: finished, patience, or interrupted."""
    validation: dict[str, float]
    """The best weights on the whole validation part."""
    summary: str
    """These scores for a person to read; `words` in `to_dict`."""
    best: dict[str, float]
    """The best validation on the way, and its step."""
    test: dict[str, float] | None = None
    before_refit: dict[str, Any] | None = None
    """How good the training before a refit, which has seen all rows, was on rows held out."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False, compare=False)
    """The same parts with a record for each example; they are not part of `to_dict`."""

    @property
    def words(self) -> str:
        """The summary, by its old name."""
        return self.summary

    def __fspath__(self) -> str:
        return self.run

    def to_dict(self) -> dict[str, Any]:
        names = [
            "words" if field.name == "summary" else field.name for field in fields(self) if field.name != "evaluations"
        ]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _repr_html_(self) -> str:
        rows = {
            name: str(getattr(self, name)) for name in ("run", "model", "parameters", "learned", "steps", "seconds")
        }
        rows |= {name: f"{value:.6g}" for name, value in self.validation.items()}
        return (
            "<table>"
            + "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
            + "</table>"
        )


BeforeRefit = Mapping[str, Any]
"""What a refit comes after: `words`, and `runs` in the same folder; `steps` that it makes; scores."""


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """What a person asked to train."""

    data: str | Path | None = None
    out: str | Path | None = None
    config: str | Path | None = None
    """A file of settings."""
    model: str | OwnModel | None = None
    resume: bool = False
    overwrite: bool = False
    draft: bool = False
    """One of many: its test part is not looked at, and it leaves no pictures and no report."""
    listen: Listener = field(default=silent, repr=False)
    command: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=Stopwatch, repr=False)
    """Seconds since the command began: what its minutes are counted by."""
    expects_refit: bool = False
    """A refit is to follow."""
    before_refit: BeforeRefit | None = None
    """What this refit comes after; its run goes beside that, into the same folder."""

    @property
    def own_model(self) -> OwnModel | None:
        return None if self.model is None or isinstance(self.model, str | dict) else self.model

    def flags(self) -> dict[str, Any]:
        """The settings by dotted key, with paths that lead from anywhere."""
        settings = dict(self.settings)
        if self.model is not None:
            settings["model"] = self.model if self.own_model is None else OWN
        return flag_settings(self.data, settings)


class Training:
    """One training. Each step leaves what the next ones need."""

    config: Config
    run: Run
    prepared: Prepared
    model: nn.Module
    trainer: Trainer
    doctor: TrainingDoctor
    ended: Ended

    def __init__(self, request: TrainRequest) -> None:
        self.request = request
        self.processes = Processes.from_environment()
        self.listen = request.listen if self.processes.first else silent
        self.rows: Any = None
        self.snapshot: Snapshot | None = None
        self.finetuned_from: dict[str, Any] | None = None
        """What the card says of the run whose weights were taken."""
        self.evaluations: dict[str, Evaluation] = {}
        self.judged: Prepared | None = None
        """What these are of, where they are of a sample."""

    def __call__(self) -> Trained:
        self.resolve()
        joined = self.processes.join(self.device)
        try:
            self.prepare()
            self.build()
            self.fit()
            return self.report()
        finally:
            if joined:
                self.processes.leave()

    def say(self, text: str) -> None:
        self.listen(Noted(text))

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.task]

    @property
    def new_parts(self) -> tuple[str, ...]:
        """What a fine-tuned model has beside what was taken."""
        return () if self.finetuned_from is None else tuple(self.finetuned_from.get("new", ()))

    # --- resolve ---

    def resolve(self) -> None:
        """The whole configuration, and the device."""
        request = self.request
        flags, file = request.flags(), file_settings(request.config)
        for line in renamed_lines(request.settings):
            self.say(line)
        if request.resume:
            self.run = Run.open(request.out or "last")
            self.config = resumed_config(self.run, {**file, **flags})
        else:
            self.config, self.rows = infer_config(file, with_vectors({**file, **flags}, flags), self.say)
        if request.expects_refit:
            refuse_refit(self.config)
        if self.config.model.encoder == OWN and request.own_model is None:
            raise SettingError("a model of one's own is given from Python: gf.train(…, model=…)")
        self.device = choose_device(self.config.training.device, self.processes.local_rank)

    # --- prepare ---

    def prepare(self) -> None:
        """The data as a task, and where a run that goes on stands."""
        if self.request.resume:
            self.prepared = prepare(self.config, self.say, tokenizers_of(self.run))
            check_same_data(self.run, self.prepared)
            self.snapshot = snapshot_to_resume(self.run, self.config, self.prepared, self.say)
            return
        data, model = self.config.data, self.config.model
        name = str(self.request.out or Run.next_name(data.path or data.source_file or "data", model.encoder))
        self.run = Run(Path(self.processes.word_of_first(name)))
        if self.request.before_refit is None:
            refuse_same(model.from_run, model.decoder_from, self.run.path)
            Run.check_free(self.run.path, overwrite=self.request.overwrite)
        self.prepared = prepare(self.config, self.say, rows=self.rows)

    # --- build ---

    def build(self) -> None:
        """The model with its first weights, those of a run that it starts from among them."""
        own = self.request.own_model
        if own is None:
            room = available_memory(self.device)
            refuse_too_large(self.config, lambda config: build_model(config, self.prepared), room)
        self.model = build_model(self.config, self.prepared, own)
        if own is not None:
            try_out(self.model, self.prepared)
        if self.request.resume:
            self.finetuned_from = self.run.card().get("from")
        if self.snapshot is None:
            self.finetuned_from = learn_from_data(self.model, self.prepared, self.config, self.say)
        freeze(self.model, self.config.training.last_blocks, self.new_parts)
        say_size(self.model, self.say)

    # --- fit ---

    def fit(self) -> None:
        """The loop, with a recorder and a doctor who listen."""
        self.processes.wait()  # so that nobody still looks whether the folder is free
        prepared, training = self.prepared, self.config.training
        total = total_steps(training, prepared.task)
        card = self._card(total)
        recorder = Recorder(self.run, self.model, prepared, self.config, self.listen)
        self.trainer = Trainer(
            self.model,
            self.family.training_task(prepared.task, self.model, self.config),
            training,
            device=self.device,
            checkpointer=RunCheckpointer(self.run, keep=training.checkpoints, first=recorder.flush),
            listen=recorder if self.processes.first else silent,
            processes=self.processes,
            resume=self.snapshot,
            shown=lambda batch, row: batch.describe(row, prepared.tokenizer),
            usual=Advice(self.config, self.new_parts).usual,
            new=self.new_parts,
            clock=self.request.clock,
            budget=self._budget(),
        )
        if self.processes.first:  # only now, when nothing can be refused any more
            self._first_files(card, total)
            self.doctor = TrainingDoctor(recorder, self.config, prepared)
            self.doctor.begin(learned_count(self.model))
        self.processes.wait()
        try:
            self.ended = self.trainer.run()
        except GlassformerError:
            if self.processes.first:
                with contextlib.suppress(GlassformerError):  # on a full disk this fails too; the first error is said
                    self.run.update_card(status="failed")
            raise

    def _budget(self) -> Budget | None:
        """What the minutes are for, beside updates: what is held out is judged once more, and papers are left."""
        minutes, tokens = self.config.training.minutes, self.prepared.tokens
        if minutes is None:
            return None
        parts = self._last_parts
        held_out = sum(tokens[part] for part in parts) / max(1, tokens.get("validation", 0))
        return Budget(60 * minutes, len(parts), held_out, papers=0.0 if self.request.draft else PAPERS)

    @property
    def _last_parts(self) -> list[str]:
        """What is judged at the end."""
        has_test = "test" in self.prepared.tokens and not self.request.draft
        return ["validation"] * self.prepared.task.validates + ["test"] * has_test

    def _card(self, total: int | None) -> dict[str, Any]:
        card = run_card(self.config, self.prepared, self.model, self.request.command, self.finetuned_from)
        if self.request.resume:  # the best weights are still those, whoever goes on
            kept = ("best", "command", "before_refit")
            card |= {key: value for key, value in self.run.card().items() if key in kept}
        if self.request.before_refit is not None:
            card["before_refit"] = dict(self.request.before_refit)
        return {**card, "total_steps": total}

    def _first_files(self, card: dict[str, Any], total: int | None) -> None:
        if not self.request.resume and self.request.before_refit is None:
            Run.create(self.run.path, overwrite=self.request.overwrite)
        first_files(self.run, card, self.prepared, self.snapshot, total)
        if self.snapshot is None:
            copy_extras(self.config, self.run)

    # --- report ---

    def report(self) -> Trained:
        """The best weights judged, and what a person finds in the folder."""
        draft, interrupted = self.request.draft, self.ended.reason == "interrupted"
        if not interrupted:
            self._evaluate()
        validation = self.evaluations.get("validation")
        metrics = {name: evaluation.metrics for name, evaluation in self.evaluations.items()}
        if self.processes.first:
            status = {"interrupted": "interrupted", "patience": "stopped early"}.get(self.ended.reason, "finished")
            self.run.update_card(
                status=status,
                steps=self.ended.step,
                seconds=self.ended.seconds,
                weights=None if interrupted else self.run.weights_digest(),
                words={name: evaluation.summary for name, evaluation in self.evaluations.items()},
                **metrics,
            )
            if not interrupted:
                self.doctor.conclude(None if draft or not self._has_time() else self.model, validation)
            if not draft:
                self._leave_papers()
        card = self.run.card()
        return Trained(
            run=str(self.run.path),
            task=self.config.task,
            model=self.config.model.encoder,
            parameters=parameter_count(self.model),
            learned=learned_count(self.model),
            steps=self.ended.step,
            seconds=round(self.ended.seconds, 2),
            reason=self.ended.reason,
            validation=metrics.get("validation", {}),
            summary="" if validation is None else validation.summary,
            best=card.get("best", {}),
            test=metrics.get("test"),
            before_refit=card.get("before_refit"),
            evaluations=self.evaluations,
        )

    def _evaluate(self) -> None:
        trainer, parts = self.trainer, self._last_parts
        self.run.load_weights(self.model)
        self.model.eval()
        task = trainer.validator.last_task(parts, trainer.elapsed(), whole=self.request.draft)
        with torch.inference_mode():
            self.evaluations = {part: with_interval(task, task.evaluate(self.model, part)) for part in parts}
        self.judged = replace(self.prepared, task=self.prepared.task.sample(task.share))

    def _has_time(self) -> bool:
        """Whether the minutes allow the doctor to look at the model; if not, `glassformer doctor` still can."""
        trainer = self.trainer
        if trainer.budget is None or trainer.budget.allows_doctor(trainer.progress, trainer.elapsed()):
            return True
        self.say(f"for want of time the doctor looks at the model later: glassformer doctor {self.run.path}")
        return False

    def _leave_papers(self) -> None:
        machine = {
            "device": str(self.device),
            "matrix products": self.trainer.precision.name,
            "threads": str(self.trainer.progress.threads),
            "processes": str(self.processes.world),
        }
        leave_papers(
            self.run, self.config, self.judged or self.prepared, self.model, self.evaluations, machine, self.say
        )


def refuse_refit(config: Config) -> None:
    """Before a training is spent: what its refit would refuse after it."""
    if config.data.refit:
        raise SettingError(
            "data.refit holds nothing out, and --refit has to know how long to train: give --refit alone"
        )
    if config.data.validation_fraction == 0 and config.data.validation is None and config.data.folds is None:
        raise SettingError(
            "data.validation_fraction 0 holds nothing out, and --refit has to know how long to train: give one of them"
        )
    FAMILIES[config.task].check_refit(replace(config.data, refit=True))
