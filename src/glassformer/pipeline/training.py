"""One training, from what a person asked for to a finished run: resolve, prepare, build, fit, report."""

import contextlib
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import GlassformerError, Misuse, RunError, SettingError, TrainingFailed
from glassformer.config.loggers import logger_names
from glassformer.config.messages import listening, say, silent
from glassformer.config.plugins import parts_of
from glassformer.config.resolve import Config, cpu_defaults, flatten
from glassformer.config.setting import value_text
from glassformer.diagnosis.advice import Advice
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.build import build_model, learn_from_data, prepare, say_size, try_out
from glassformer.families.card import forgetting_line, run_card
from glassformer.families.recognition import infer_config, with_vectors
from glassformer.families.resume import resumed_config, same_settings, snapshot_to_resume
from glassformer.finetuning.sources import copy_extras, refuse_out
from glassformer.models.weights import shapes_alone
from glassformer.pipeline import continuing
from glassformer.pipeline.loggers import Loggers, asked_loggers
from glassformer.pipeline.recorder import Recorder
from glassformer.pipeline.request import Trained, TrainRequest
from glassformer.planning.capacity import available_memory, choose_sharding
from glassformer.reporting.papers import PAPERS, first_files, leave_papers, rewind
from glassformer.runs.checkpoints import list_checkpoints
from glassformer.runs.folders import check_writable, fill, is_unfinished
from glassformer.runs.run import CARD, DONE, ENDED_FIELDS, RUNS, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.intervals import with_interval
from glassformer.training.budget import REPORT_SECONDS, Budget
from glassformer.training.checkpointer import RunCheckpointer, Snapshot
from glassformer.training.context import TrainerOptions
from glassformer.training.device import choose_device
from glassformer.training.distributed.processes import Processes, allowed_restarts, check_device, is_peer_lost
from glassformer.training.events import Ended, Failed, Noted, as_notes
from glassformer.training.loop import Trainer
from glassformer.training.optimiser import freeze
from glassformer.training.schedule import total_steps


class Training:
    """One training. Each step leaves what the next ones need."""

    config: Config
    run: Run
    prepared: Prepared
    model: nn.Module
    trainer: Trainer
    recorder: Recorder
    loggers: Loggers
    ended: Ended

    def __init__(self, request: TrainRequest) -> None:
        self.processes = Processes.from_environment()
        self.request = _after_restart(request)
        self.listen = request.listen if self.processes.first else silent
        self.rows: Any = None
        self.remarks: list[str] = []
        """Lines about the data, and about how the model of a run that this one continues suits the new text."""
        self.snapshot: Snapshot | None = None
        self.resumes = False
        self.same = True
        """Where it resumes: no setting has changed."""
        self.finetuned_from: dict[str, Any] | None = None
        """What the card says of the run whose weights were taken."""
        self.old_text: continuing.OldText | None = None
        """Validation text of the run that this one continues."""
        self.evaluations: dict[str, Evaluation] = {}
        self.judged: Prepared | None = None
        """What these are of, where they are of a sample."""
        self.held = contextlib.ExitStack()
        """What ends with this training: its lock, and the company of other processes."""

    def __call__(self) -> Trained:
        with listening(as_notes(self.listen)), self.held:
            self.resolve()
            if self.resumes and self._has_ended():
                card = self.run.card()
                say(f"{self.run.path} is {card['status']}: {card['steps']:,} updates, nothing is left to do")
                return Trained.from_card(self.run, card)
            try:
                if self.processes.join(self.device, alone=self.config.training.parallel == "fsdp"):
                    self.held.callback(self.processes.leave)
                self.prepare()
                self.remarks += self.prepared.corpus.remarks
                self.build()
                self.fit()
                return self.report()
            except RuntimeError as error:
                if self.processes.world == 1 or not is_peer_lost(error):
                    raise
                raise TrainingFailed("another process of this training is gone") from error

    def remark(self, text: str) -> None:
        """Report a line, and keep it for the result."""
        self.remarks.append(text)
        self.listen(Noted(text))

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.task]

    @property
    def new_parts(self) -> tuple[str, ...]:
        """What a fine-tuned model has beside what was taken."""
        return () if self.finetuned_from is None else tuple(self.finetuned_from["new"])

    # --- resolve ---

    def resolve(self) -> None:
        """The whole configuration, and the device. What is asked for by name is locked before any data is read."""
        request = self.request
        flags, file = request.flags(), request.file
        logger_names(request.log_to)  # refused before anything is made
        if (folder := request.folder) is None:
            check_writable(RUNS)
        else:
            self._take(folder)
        if self.resumes:
            self.config = resumed_config(self.run, {**file, **flags}, may_change=not request.names_data)
            for line in self.run.changed_parts():
                say(line)
        else:
            with listening(self.remark):
                self.config, self.rows = infer_config(file, with_vectors({**file, **flags}, flags))
        if request.expects_refit:
            refuse_refit(self.config)
        if self.config.model.encoder == OWN and request.own_model is None:
            raise SettingError("a model of one's own is given from Python: gf.train(…, model=…)")
        self.device = choose_device(self.config.training.device, self.processes.local_rank)
        check_device(self.config.training, self.processes, self.device)
        if self.device.type == "cpu" and not self.resumes:
            chosen = cpu_defaults(self.config.get("task"), {**file, **flags})
            used = [f"--{key} {value_text(value)}" for key, value in chosen.items() if self.config.get(key) == value]
            if used:
                say(f"defaults on a CPU: {' '.join(used)}")

    def _take(self, path: Path) -> None:
        """The run's folder for this training alone, locked by the first of its processes. Another one at work there, or
        a disk that cannot be written, is told here.
        """
        self.run = Run(path)
        if self.processes.first:
            if not is_unfinished(path):
                self._check_folder()
            self.held.enter_context(Run.locked(path, "training"))
        while is_unfinished(path):
            time.sleep(0.05)  # what a killed one had left is moved up, by the first process
        self._check_folder()
        self.resumes = self.request.resume and (path / CARD).exists()

    def _check_folder(self) -> None:
        path, request = self.run.path, self.request
        if request.before_refit is None:
            refuse_out(request.all_settings(), path)
        if request.resume and ((path / CARD).exists() or not request.names_data):
            Run.open(path)
        elif request.before_refit is None:
            Run.check_free(path, overwrite=request.overwrite)

    def _has_ended(self) -> bool:
        """Whether there is nothing left to do: no more was asked for, and the papers are there."""
        card = self.run.card()
        whole = all(card.get(key) is not None for key in ENDED_FIELDS) and self.run.weights_path.is_file()
        if not whole or card.get("status") not in DONE or card["config"] != self.config.to_dict():
            return False
        papers = self.request.draft or all((self.run.path / name).exists() for name in PAPERS)
        return papers or not list_checkpoints(self.run.checkpoints_path)

    # --- prepare ---

    def prepare(self) -> None:
        """The data as a task, and where a run that goes on stands."""
        if self.resumes:
            self.prepared = prepare(self.config, self.run)
            self.same = same_settings(self.run.config(), self.config)
            self.snapshot = snapshot_to_resume(self.run, self.config, self.prepared, same=self.same)
            step = -1 if self.snapshot is None else self.snapshot.progress.step
            if self.processes.minimum(step) != -self.processes.minimum(-step):
                line = "the processes do not all see the same checkpoint: is it on a shared disk?"
                raise RunError(f"{self.run.path}: {line}")
            return
        data, model = self.config.data, self.config.model
        if self.request.out is None:
            name = data.path or data.source_file or "data"
            own = self.family.model_name(self.config)
            path = self.held.enter_context(Run.new_name(name, own)) if self.processes.first else ""
            self.run = Run(Path(self.processes.broadcast(str(path))))
            if self.processes.first:
                self.held.enter_context(Run.locked(self.run.path, "training"))
        if self.request.before_refit is None:
            refuse_out({f"model.{key}": getattr(model, key) for key in ("from_run", "decoder_from")}, self.run.path)
        self.prepared = prepare(self.config, rows=self.rows)

    # --- build ---

    def build(self) -> None:
        """The model with its first weights, those of a run that it starts from among them."""
        own, parts = self.request.own_model, parts_of(self.config)
        self.sharded = self.config.training.parallel == "fsdp"
        if own is None and not parts:
            room = available_memory(self.device)
            room = replace(room, bytes=int(self.processes.minimum(room.bytes)))  # all must decide alike
            build = partial(build_model, processor=self.prepared)
            self.sharded = choose_sharding(self.config, build, room, self.processes.world)
        self.sharded &= self.config.training.last_blocks != 0  # of a head alone there is nothing to share
        # with FSDP, the first process sends the others their rows of new weights; weights of other runs are read by all
        starts_anew = own is None and not parts and not self.config.is_finetuned
        receives = self.sharded and starts_anew and not self.processes.first
        with shapes_alone() if receives else contextlib.nullcontext():
            self.model = build_model(self.config, self.prepared, own)
        if own is not None or parts:
            try_out(self.model, self.prepared, " and ".join(map(str, parts)) or "model=…")
        if self.resumes:
            self.finetuned_from = self.run.card().get("from")
        if self.snapshot is None:
            self.finetuned_from = learn_from_data(self.model, self.prepared, self.config)
        freeze(self.model, self.config.training.last_blocks, self.new_parts)
        say_size(self.model)
        if (continued := continuing.continued_run(self.config, self.finetuned_from)) is not None:
            self._compare_texts(continued)

    def _compare_texts(self, continued: Run) -> None:
        """Evaluate a model that continues its own task on the new text and on the old validation text.

        A resumed run keeps its learning rate, and the loss before its first update.
        """
        if self.sharded:
            self.remark("the loss on the new and the old text is not compared before training with FSDP")
            return
        self.model.to(self.device)
        loss = None if self.resumes else continuing.start_loss(self.model, self.prepared)
        if loss is not None:
            loss = self.processes.from_first(loss)  # all processes must choose the same rate
            if flatten(self.request.all_settings()).get("training.lr") is None:
                with listening(self.remark):
                    self.config = continuing.with_chosen_rate(self.config, self.prepared, continued.path.name, loss)
            with listening(self.remark):
                continuing.warn_of_misfit(self.prepared, continued.path.name, loss)
        source = self.finetuned_from or {}
        if not self.processes.first or self.request.draft or (self.snapshot and "forgetting" not in source):
            return
        with listening(self.remark):
            self.old_text = continuing.OldText.of(continued, self.prepared, self.config)
        if self.old_text is not None and self.snapshot is None:
            self.finetuned_from = {**source, "forgetting": self.old_text.before(self.model)}

    # --- fit ---

    def fit(self) -> None:
        """The loop, with a recorder and a doctor who listen."""
        self.processes.barrier()  # so that nobody still looks whether the folder is free
        prepared, training = self.prepared, self.config.training
        chosen = training.patience is not None or self.request.flags().get("training.keep") == "best"
        if chosen and not prepared.task.validates:
            say("nothing is held out for validation: training.patience and training.keep best have no effect")
        total = total_steps(training, prepared.task)
        card = self._card(total)
        names = asked_loggers(self.request.log_to, self.run if self.resumes else None) if self.processes.first else ()
        listen = self.listen  # not this object: what it holds open goes when the last who knows it goes
        self.loggers = Loggers(self.run, names, lambda text: listen(Failed(text)))
        self.recorder = recorder = Recorder(self.run, self.model, prepared, self.config, self.listen, self.loggers)
        self.trainer = Trainer(
            self.model,
            self.family.training_task(prepared.task, self.model, self.config),
            replace(training, parallel="fsdp" if self.sharded else "ddp"),
            TrainerOptions(
                self.device,
                checkpointer=RunCheckpointer(self.run, keep=training.checkpoints, flush_log=recorder.flush, card=card),
                listen=recorder if self.processes.first else silent,
                processes=self.processes,
                resume=self.snapshot,
                describe=lambda batch, row: batch.describe(row, prepared.tokenizer),
                usual_rate=Advice(self.config, self.new_parts).usual,
                new_parts=self.new_parts,
                clock=self.request.clock,
                budget=self._budget(),
            ),
        )
        self.processes.first_does(lambda: self._first_files(card, total))  # now that nothing can be refused any more
        if self.processes.first:
            recorder.begin_diagnosis()
            self.held.callback(self.loggers.end)
            self.loggers.begin(card, self.snapshot.progress.step if self.snapshot else 0, same=self.same)
        self.processes.barrier()
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
        return Budget(60 * minutes, len(parts), held_out, report=0.0 if self.request.draft else REPORT_SECONDS)

    @property
    def _last_parts(self) -> list[str]:
        """What is judged at the end."""
        has_test = "test" in self.prepared.tokens and not self.request.draft
        return ["validation"] * self.prepared.task.validates + ["test"] * has_test

    def _card(self, total: int | None) -> dict[str, Any]:
        card = run_card(self.config, self.prepared, self.model, self.request.command, self.finetuned_from)
        if self.resumes:  # the best weights are still those, whoever goes on
            kept = ("best", "command", "before_refit", "specials")
            card |= {key: value for key, value in self.run.card().items() if key in kept}
        if self.request.before_refit is not None:
            card["before_refit"] = dict(self.request.before_refit)
        return {**card, "total_steps": total}

    def _first_files(self, card: dict[str, Any], total: int | None) -> None:
        if self.resumes:
            rewind(self.run, card, self.snapshot, total, keep=self.config.training.checkpoints)
            return
        with fill(self.run.path, CARD, instead=self.request.overwrite) as place:
            first_files(Run(place), card, self.prepared)
            copy_extras(self.config, Run(place))

    # --- report ---

    def report(self) -> Trained:
        """The best weights judged, and what a person finds in the folder."""
        draft, interrupted = self.request.draft, self.ended.reason == "interrupted"
        if not interrupted:
            self._evaluate()
        status = {"patience": "stopped early"}.get(self.ended.reason, self.ended.reason)
        progress = self.trainer.context.progress
        changes = {
            "status": status,
            "steps": self.ended.step,
            "seconds": self.ended.seconds,
            "environment": {
                **self.run.card()["environment"],
                "device": str(self.device),
                "matrix products": self.trainer.context.precision.name,
                "threads": str(progress.threads),
                "processes": str(self.processes.world),
            },
            "words": {name: evaluation.summary for name, evaluation in self.evaluations.items()},
            **{name: evaluation.metrics for name, evaluation in self.evaluations.items()},
        }
        if self.old_text is not None and self.finetuned_from is not None and not interrupted:
            source = continuing.with_loss_after(self.finetuned_from, self.old_text.loss(self.model))
            self.remark(str(forgetting_line(source)))
            changes["from"] = source
        card = {**self.run.card(), **changes}
        if self.processes.first:
            if not interrupted:
                validation = self.evaluations.get("validation")
                self.recorder.conclude_diagnosis(None if draft or not self._has_time() else self.model, validation)
            if not draft:
                judged = self.judged or self.prepared
                leave_papers(self.run, card, self.config, judged, self.model, self.evaluations)
            self.loggers.end(status, {name: entry.metrics for name, entry in self.evaluations.items()})
            # the last word: killed before it, a run goes on from here, and writes all of this again
            self.run.update_card(**changes, weights=None if interrupted else self.run.weights_digest())
        trained = Trained.from_card(self.run, card, self.evaluations, tuple(self.remarks))
        return replace(trained, signal=self.ended.signal)

    def _evaluate(self) -> None:
        trainer, parts = self.trainer, self._last_parts
        self.processes.barrier()  # until the first has written what all read
        self.model = trainer.context.parallel.empty_model()
        self.run.load_weights(self.model)
        self.model.eval()
        task = trainer.validator.last_task(parts, trainer.elapsed(), whole=self.request.draft)
        with torch.inference_mode():
            self.evaluations = {part: with_interval(task, task.evaluate(self.model, part)) for part in parts}
        self.judged = replace(self.prepared, task=self.prepared.task.sample(task.share))

    def _has_time(self) -> bool:
        """Whether the minutes allow the doctor to look at the model; if not, `glassformer doctor` still can."""
        budget = self.trainer.context.budget
        if budget is None or budget.allows_doctor(self.trainer.context.progress, self.trainer.elapsed()):
            return True
        say(f"for want of time the doctor looks at the model later: glassformer doctor {self.run.path}")
        return False


def _after_restart(request: TrainRequest) -> TrainRequest:
    """Under torchrun with restarts, a training that is started again goes on: as with `resume`, from the first time."""
    if not allowed_restarts():
        return request
    if request.overwrite:
        raise Misuse("torchrun --max-restarts may start this training again, and --overwrite would delete it: give one")
    if request.out is None and not request.resume:
        raise Misuse("torchrun --max-restarts may start this training again: name its folder with --out")
    return replace(request, resume=True)


def refuse_refit(config: Config) -> None:
    """Before a training is spent: what its refit would refuse after it."""
    data, why = config.data, "holds nothing out, and --refit has to know how long to train"
    if data.refit:
        raise SettingError(f"data.refit {why}: give --refit alone")
    if data.validation_fraction == 0 and data.validation is None and data.folds is None:
        raise SettingError(f"data.validation_fraction 0 {why}: give one of them")
    FAMILIES[config.task].check_refit(replace(config.data, refit=True))
