"""First stage of a training run: its complete configuration, its device and its locked folder."""

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from glassformer.config.encoders import OWN
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.loggers import logger_names
from glassformer.config.messages import listening, say, silent
from glassformer.config.resolve import Config, cpu_defaults
from glassformer.config.setting import value_text
from glassformer.families.base import FAMILIES
from glassformer.families.recognition import infer_config, with_vectors
from glassformer.families.resume import resumed_config
from glassformer.finetuning.sources import refuse_out
from glassformer.pipeline.request import TrainRequest
from glassformer.reporting.papers import PAPERS
from glassformer.runs.checkpoints import list_checkpoints
from glassformer.runs.folders import check_writable, is_unfinished
from glassformer.runs.run import CARD, DONE, ENDED_FIELDS, RUNS, Run
from glassformer.training.device import choose_device
from glassformer.training.distributed.processes import Processes, allowed_restarts, check_device
from glassformer.training.events import Listener, Noted


@dataclass(frozen=True, eq=False)
class Session:
    """The surroundings of a training run."""

    request: TrainRequest
    processes: Processes
    listen: Listener
    """Receives events on the first process; ignores them on the others."""
    remarks: list[str] = field(default_factory=list)
    """Lines about the data and the text of a continued run, which the result keeps."""
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Resources released at the end: the lock of the run, the loggers and the process group."""

    @staticmethod
    def of(request: TrainRequest) -> "Session":
        processes = Processes.from_environment()
        return Session(_resume_after_restart(request), processes, request.listen if processes.first else silent)

    def remark(self, text: str) -> None:
        """Report a line, and keep it for the result."""
        self.remarks.append(text)
        self.listen(Noted(text))


@dataclass(frozen=True)
class Resolved:
    """A training run before its data is prepared."""

    config: Config
    device: torch.device
    run: Run | None
    """None if its folder is named after the data."""
    rows: object
    """Rows that recognising the task has read."""
    resumed: Run | None
    """The run if it is resumed."""


def resolve_request(session: Session) -> Resolved:
    """Lock the folder that the request names, before any data is read; return the configuration and the device."""
    request, processes = session.request, session.processes
    flags, file = request.flags(), request.file
    logger_names(request.log_to)  # unknown loggers are refused before anything is made
    run: Run | None = None
    resumed: Run | None = None
    rows: object = None
    if (folder := request.folder) is None:
        check_writable(RUNS)
    else:
        run = _lock_folder(folder, session)
        resumed = run if request.resume and (folder / CARD).exists() else None
    if resumed is not None:
        config = resumed_config(resumed, {**file, **flags}, may_change=not request.names_data)
        for line in resumed.changed_parts():
            say(line)
    else:
        with listening(session.remark):
            config, rows = infer_config(file, with_vectors({**file, **flags}, flags))
    if request.expects_refit:
        refuse_refit(config)
    if config.model.encoder == OWN and request.own_model is None:
        raise SettingError("a model of one's own is given from Python: gf.train(…, model=…)")
    device = choose_device(config.training.device, processes.local_rank)
    check_device(config.training, processes, device)
    if device.type == "cpu" and resumed is None:
        defaults = cpu_defaults(config.get("task"), {**file, **flags})
        used = [f"--{key} {value_text(value)}" for key, value in defaults.items() if config.get(key) == value]
        if used:
            say(f"defaults on a CPU: {' '.join(used)}")
    return Resolved(config, device, run, rows, resumed)


def _lock_folder(path: Path, session: Session) -> Run:
    """Lock the folder of a run on the first process; raise an error if the run cannot be written there."""
    if session.processes.first:
        if not is_unfinished(path):
            _check_folder(path, session.request)
        session.resources.enter_context(Run.locked(path, "training"))
    while is_unfinished(path):
        time.sleep(0.05)  # the first process completes files that a killed process left
    _check_folder(path, session.request)
    return Run(path)


def _check_folder(path: Path, request: TrainRequest) -> None:
    if request.before_refit is None:
        refuse_out(request.all_settings(), path)
    if request.resume and ((path / CARD).exists() or not request.names_data):
        Run.open(path)
    elif request.before_refit is None:
        Run.check_free(path, overwrite=request.overwrite)


def has_ended(run: Run, config: Config, *, draft: bool) -> bool:
    """Return whether nothing is left to do: the run has finished with these settings, and its reports exist."""
    card = run.card()
    complete = all(card.get(key) is not None for key in ENDED_FIELDS) and run.weights_path.is_file()
    if not complete or card.get("status") not in DONE or card["config"] != config.to_dict():
        return False
    has_reports = draft or all((run.path / name).exists() for name in PAPERS)
    return has_reports or not list_checkpoints(run.checkpoints_path)


def refuse_refit(config: Config) -> None:
    """Refuse settings before the first training run that its refit would refuse after it."""
    data, why = config.data, "holds nothing out, and --refit has to know how long to train"
    if data.refit:
        raise SettingError(f"data.refit {why}: give --refit alone")
    if data.validation_fraction == 0 and data.validation is None and data.folds is None:
        raise SettingError(f"data.validation_fraction 0 {why}: give one of them")
    FAMILIES[config.task].check_refit(replace(config.data, refit=True))


def _resume_after_restart(request: TrainRequest) -> TrainRequest:
    """Return the request with `resume` if torchrun may restart the run."""
    if not allowed_restarts():
        return request
    if request.overwrite:
        raise Misuse("torchrun --max-restarts may start this training again, and --overwrite would delete it: give one")
    if request.out is None and not request.resume:
        raise Misuse("torchrun --max-restarts may start this training again: name its folder with --out")
    return replace(request, resume=True)
