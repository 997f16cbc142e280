"""Train a model on a text: from settings to a finished run."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import GlassformerError, SettingError
from glassformer.config.resolve import Config, flatten
from glassformer.config.say import Say, silent
from glassformer.diagnosis.advice import usual_rate
from glassformer.diagnosis.example import example_of
from glassformer.families.base import OwnModel, Prepared
from glassformer.families.build import build_model, learn_from_data, say_size, try_out
from glassformer.families.card import run_card
from glassformer.families.infer import infer_config
from glassformer.families.prepare import check_same_data, prepare, tokenizers_of
from glassformer.families.resume import resumed_config, where_it_stands
from glassformer.families.settings import read_config, whole_path, with_vectors
from glassformer.finetuning.along import bring_along, refuse_same
from glassformer.models.build import learned_count, parameter_count
from glassformer.models.reader import Reader
from glassformer.pipeline.doctor import conclude, consult
from glassformer.pipeline.recorder import Recorder
from glassformer.pipeline.refit import Before, refuse_refit, train_and_refit, waits_for_refit
from glassformer.pipeline.result import Trained as Trained
from glassformer.reporting.papers import first_files, leave_papers
from glassformer.runs.run import Run
from glassformer.tasks.base import Task
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.on_features import OnFeatures, head_learns_alone
from glassformer.training.device import choose_device
from glassformer.training.events import Listener, Noted
from glassformer.training.frozen import freeze
from glassformer.training.keeper import RunKeeper
from glassformer.training.loop import Trainer
from glassformer.training.processes import Processes
from glassformer.training.schedule import total_steps
from glassformer.training.snapshot import Snapshot


def train(
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    model: str | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    draft: bool = False,
    refit: bool = False,
    listen: Listener = silent,
    command: str | None = None,
    **settings: Any,
) -> Trained:
    """Train a model and leave a run.

    `settings` are the short names of the command line (`steps=500`), dotted keys (`**{"model.layers": 2}`) or whole
    sections (`training={"lr": 0.001}`). `model` is a name (`lstm`, `bag:counts`), an nn.Module of one's own that maps
    B×T tokens and their mask to a score for each class (or one number), or a function that makes it from the size of
    the vocabulary and the number of scores. With `from_run`, the body and the tokens of that run are taken. A `draft`
    is one of many: its test part is not looked at, and it leaves no pictures and no report. With `refit`, a last
    training follows on all rows but those of the test, for as long as the best weights took; the run that it leaves
    tells the scores of the one before, which is kept in `held-out`.
    """
    if refit or waits_for_refit(out, resume):
        more: dict[str, Any] = {"config": config, "model": model, "listen": listen, "command": command, **settings}
        if draft:
            raise SettingError("a draft is one of many: it has no refit")
        return train_and_refit(train_once, data, out=out, resume=resume, overwrite=overwrite, **more)
    return train_once(
        data,
        out=out,
        config=config,
        model=model,
        resume=resume,
        overwrite=overwrite,
        draft=draft,
        listen=listen,
        command=command,
        **settings,
    )


def train_once(
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    model: str | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    draft: bool = False,
    refit: bool = False,
    before: Before | None = None,
    listen: Listener = silent,
    command: str | None = None,
    **settings: Any,
) -> Trained:
    """One training. `refit`: one is to follow. `before`: what a refit comes after; its run goes beside that, into the
    same folder.
    """
    own = None
    if data is not None and not isinstance(data, str | os.PathLike):
        raise SettingError(f"data is a path or the name of a data set, not a {type(data).__name__}: write it to a file")
    if isinstance(model, str | dict):
        settings["model"] = model
    elif model is not None:
        own, settings["model"] = model, OWN
    flags = {**flatten(settings), **({} if data is None else {"data.path": str(data)})}
    flags = {key: whole_path(key, value) for key, value in flags.items()}
    from_file = {key: whole_path(key, value) for key, value in flatten(read_config(config) if config else {}).items()}
    processes = Processes.from_environment()
    listen = listen if processes.first else silent
    say = _teller(listen)
    run = Run.open(out or "last") if resume else None
    table = None
    if run is not None:
        resolved = resumed_config(run, {**from_file, **flags})
    else:
        resolved, table = infer_config(from_file, with_vectors({**from_file, **flags}, flags), say)
    if refit:
        refuse_refit(resolved)
    if resolved.model.encoder == OWN and own is None:
        raise SettingError("a model of one's own is given from Python: gf.train(…, model=…)")
    device = choose_device(resolved.training.device, processes.local_rank)
    joined = processes.join(device)
    try:
        if run is not None:
            prepared = prepare(resolved, say, tokenizers_of(run))
            check_same_data(run, prepared)
            snapshot = where_it_stands(run, resolved, prepared, say)
        else:
            where = resolved.data.path or resolved.data.source_file or "data"
            name = str(out or Run.next_name(where, resolved.model.encoder))
            path = Path(processes.word_of_first(name))
            if before is None:
                refuse_same(resolved.model.from_run, resolved.model.decoder_from, path)
                Run.check_free(path, overwrite=overwrite)
            prepared = prepare(resolved, say, rows=table)
            snapshot = None
        built = build_model(resolved, prepared, own)
        if own is not None:
            try_out(built, prepared)
        begun = None if run is None else run.card().get("from")
        if snapshot is None:
            begun = learn_from_data(built, prepared, resolved, say)
        new = () if begun is None else tuple(begun.get("new", ()))
        freeze(built, resolved.training.last_blocks, new)
        say_size(built, say)
        processes.wait()  # so that nobody still looks whether the folder is free
        card = run_card(resolved, prepared, built, command, begun)
        if run is not None:  # the best weights are still those, whoever goes on
            card |= {key: value for key, value in run.card().items() if key in ("best", "command", "before_refit")}
        if before is not None:
            card["before_refit"] = dict(before)
        total = card["total_steps"] = total_steps(resolved.training, prepared.task)

        def begin() -> None:
            made = run or (Run.create(path, overwrite=overwrite) if before is None else Run(path))
            first_files(made, card, prepared, snapshot, total)
            if snapshot is None:
                bring_along(resolved, made)

        made = run or Run(path)
        return _train(made, begin, resolved, prepared, built, device, processes, snapshot, listen, draft, new)
    finally:
        if joined:
            processes.leave()


def _train(
    run: Run,
    begin: Callable[[], None],
    config: Config,
    prepared: Prepared,
    model: nn.Module,
    device: torch.device,
    processes: Processes,
    snapshot: Snapshot | None,
    listen: Listener,
    draft: bool,
    new: Sequence[str],
) -> Trained:
    recorder = Recorder(run, model, prepared, config, listen)
    task: Task = prepared.task
    if isinstance(task, Labelling) and isinstance(model, Reader) and config.begun and head_learns_alone(model):
        task = OnFeatures(task, model)
    trainer = Trainer(
        model,
        task,
        config.training,
        device=device,
        keeper=RunKeeper(run, keep=config.training.checkpoints, first=recorder.flush),
        listen=recorder if processes.first else silent,
        processes=processes,
        resume=snapshot,
        shown=lambda batch, row: example_of(batch, row, prepared.tokenizer),
        usual=usual_rate(config, new),
        new=new,
    )
    if processes.first:  # only now, when nothing can be refused any more
        begin()
        consult(recorder, run, config, prepared, learned_count(model))
    processes.wait()
    try:
        ended = trainer.run()
    except GlassformerError:
        if processes.first:
            with contextlib.suppress(GlassformerError):  # on a full disk this fails too; what was first is what to say
                run.update_card(status="failed")
        raise
    validation = test = None
    if ended.reason != "interrupted":
        run.load_weights(model)
        model.eval()
        with torch.inference_mode():
            validation = task.evaluate(model, "validation") if task.validates else None
            test = task.evaluate(model, "test") if "test" in prepared.tokens and not draft else None
    evaluations = {name: part for name, part in (("validation", validation), ("test", test)) if part is not None}
    measured = {name: part.metrics for name, part in evaluations.items()}
    words = validation.words if validation is not None else ""
    if processes.first:
        status = {"interrupted": "interrupted", "patience": "stopped early"}.get(ended.reason, "finished")
        run.update_card(
            status=status,
            steps=ended.step,
            seconds=ended.seconds,
            words={name: part.words for name, part in evaluations.items()},
            **measured,
        )
        if ended.reason != "interrupted":
            conclude(recorder, prepared, None if draft else model, validation)
    if processes.first and not draft:
        machine = {
            "device": str(device),
            "matrix products": trainer.precision.name,
            "threads": str(trainer.progress.threads),
            "processes": str(processes.world),
        }
        leave_papers(run, config, prepared, model, evaluations, machine, _teller(listen))
    return Trained(
        run=str(run.path),
        task=config.task,
        model=config.model.encoder,
        parameters=parameter_count(model),
        learned=learned_count(model),
        steps=ended.step,
        seconds=round(ended.seconds, 2),
        reason=ended.reason,
        validation=measured.get("validation", {}),
        words=words,
        best=run.card().get("best", {}),
        test=measured.get("test"),
        before_refit=run.card().get("before_refit"),
        evaluations=evaluations,
    )


def _teller(listen: Listener) -> Say:
    return lambda text: listen(Noted(text))
