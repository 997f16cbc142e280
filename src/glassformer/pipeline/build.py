"""Second stage of a training run: its data as a task, and its model with the first weights."""

import contextlib
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from glassformer.config.errors import RunError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import listening
from glassformer.config.plugins import parts_of
from glassformer.config.resolve import Config, flatten
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.build import build_model, learn_from_data, prepare, say_size, try_out
from glassformer.families.resume import same_settings, snapshot_to_resume
from glassformer.finetuning.sources import refuse_out
from glassformer.models.weights import shapes_alone
from glassformer.pipeline import continuing
from glassformer.pipeline.resolve import Resolved, Session
from glassformer.planning.capacity import available_memory, choose_sharding
from glassformer.runs.run import Run
from glassformer.training.checkpointer import Snapshot
from glassformer.training.optimiser import freeze


@dataclass
class BuiltRun:
    """A training run before its first step."""

    config: Config
    device: torch.device
    run: Run
    prepared: Prepared
    resumes: bool
    snapshot: Snapshot | None = None
    """The checkpoint that the run resumes from."""
    unchanged: bool = True
    """Whether a resumed run has its earlier settings."""
    model: nn.Module = field(init=False)
    """Set by `build_run`; the last evaluation loads the kept weights into it."""
    sharded: bool = False
    """Whether training uses FSDP."""
    source: JsonObject | None = None
    """The card's entry about the run whose weights were taken."""
    old_text: continuing.OldText | None = None
    """Validation text of the run that this one continues."""

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.task]

    @property
    def new_parts(self) -> tuple[str, ...]:
        """Parts of a fine-tuned model that were not taken from the earlier run."""
        return () if self.source is None else tuple(self.source["new"])


def prepare_run(session: Session, resolved: Resolved) -> BuiltRun:
    """Read and prepare the data; lock a folder named after it if the request names none; read the checkpoint."""
    config, processes = resolved.config, session.processes
    if (run := resolved.resumed) is not None:
        prepared = prepare(config, run)
        unchanged = same_settings(run.config(), config)
        snapshot = snapshot_to_resume(run, config, prepared, same=unchanged)
        step = -1 if snapshot is None else snapshot.progress.step
        if processes.minimum(step) != -processes.minimum(-step):
            line = "the processes do not all see the same checkpoint: is it on a shared disk?"
            raise RunError(f"{run.path}: {line}")
        return BuiltRun(config, resolved.device, run, prepared, True, snapshot, unchanged)
    run = resolved.run or _new_run(session, config)
    if session.request.before_refit is None:
        refuse_out({f"model.{key}": getattr(config.model, key) for key in ("from_run", "decoder_from")}, run.path)
    return BuiltRun(config, resolved.device, run, prepare(config, rows=resolved.rows), False)


def _new_run(session: Session, config: Config) -> Run:
    """Make and lock a folder under runs/, named after the data and the model."""
    data, processes = config.data.path or config.data.source_file or "data", session.processes
    model = FAMILIES[config.task].model_name(config)
    path = session.resources.enter_context(Run.new_name(data, model)) if processes.first else ""
    run = Run(Path(processes.broadcast(str(path))))
    if processes.first:
        session.resources.enter_context(Run.locked(run.path, "training"))
    return run


def build_run(session: Session, built: BuiltRun) -> None:
    """Build the model with its first weights, which may be those of another run."""
    config, processes, own = built.config, session.processes, session.request.own_model
    parts = parts_of(config)
    sharded = config.training.parallel == "fsdp"
    if own is None and not parts:
        room = available_memory(built.device)
        room = replace(room, bytes=int(processes.minimum(room.bytes)))  # all processes must make the same decision
        sharded = choose_sharding(config, partial(build_model, processor=built.prepared), room, processes.world)
    built.sharded = sharded and config.training.last_blocks != 0  # a head alone is not worth sharding
    # With FSDP, the first process sends the others their rows of new weights; all read the weights of other runs.
    is_new = own is None and not parts and not config.is_finetuned
    receives = built.sharded and is_new and not processes.first
    with shapes_alone() if receives else contextlib.nullcontext():
        built.model = build_model(config, built.prepared, own)
    if own is not None or parts:
        try_out(built.model, built.prepared, " and ".join(map(str, parts)) or "model=…")
    if built.resumes:
        built.source = built.run.card().get("from")
    if built.snapshot is None:
        built.source = learn_from_data(built.model, built.prepared, config)
    freeze(built.model, config.training.last_blocks, built.new_parts)
    say_size(built.model)
    if (continued := continuing.continued_run(config, built.source)) is not None:
        _compare_texts(session, built, continued)


def _compare_texts(session: Session, built: BuiltRun, continued: Run) -> None:
    """Evaluate a model that continues its own task on the new text and on the old validation text.

    A resumed run keeps its learning rate, and the loss before its first update.
    """
    request, name = session.request, continued.path.name
    if built.sharded:
        session.remark("the loss on the new and the old text is not compared before training with FSDP")
        return
    built.model.to(built.device)
    loss = None if built.resumes else continuing.start_loss(built.model, built.prepared)
    with listening(session.remark):
        if loss is not None:
            loss = session.processes.from_first(loss)  # all processes must choose the same rate
            if flatten(request.all_settings()).get("training.lr") is None:
                built.config = continuing.with_chosen_rate(built.config, built.prepared, name, loss)
            continuing.warn_of_misfit(built.prepared, name, loss)
        source = built.source or {}
        if not session.processes.first or request.draft or (built.snapshot and "forgetting" not in source):
            return
        built.old_text = continuing.OldText.of(continued, built.prepared, built.config)
    if built.old_text is not None and built.snapshot is None:
        built.source = {**source, "forgetting": built.old_text.before(built.model)}
