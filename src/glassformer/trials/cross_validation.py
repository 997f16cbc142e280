"""Cross-validation: as many trainings as folds, each judged on the rows that it did not see, and what they come to
together.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import GlassformerError, Misuse, NotARun, RunError, SettingError
from glassformer.config.messages import listening, silent
from glassformer.config.parts import remove
from glassformer.config.presets import OWN_TASKS, VERSION
from glassformer.config.sections import ModelSettings
from glassformer.families.base import FAMILIES, OwnModel
from glassformer.families.memory_data import takes_memory
from glassformer.finetuning.sources import refuse_out
from glassformer.notebook.html import table
from glassformer.pipeline.loggers import asked_loggers
from glassformer.pipeline.refit import refitted
from glassformer.pipeline.request import Trained, TrainRequest
from glassformer.runs.files import read_json, write_json, write_text
from glassformer.runs.folders import contents
from glassformer.runs.run import CARD, DONE, Run
from glassformer.statistics.intervals import Interval, mean_interval
from glassformer.training.distributed.processes import Processes
from glassformer.training.events import Listener, Noted, as_notes
from glassformer.trials.jobs import json_safe
from glassformer.trials.results.metrics import titled, within
from glassformer.trials.running.scoring import fold_metric, pooled_metrics
from glassformer.trials.settings import check_data, count_of, read_settings
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train

FOLDS = "folds.json"
RECORDS = "held-out.jsonl"
"""The file in each fold's folder that holds what its model said of the rows that it did not see."""
SHARED = "the folds share most of their training rows, so that the interval is approximate"
CHOSE = "each fold also chose the weights that it judges, so that scores are a little too good (training.keep last)"


@dataclass(frozen=True)
class Fold:
    """One of the trainings."""

    fold: int
    """Counted from 1, as its folder is."""
    run: str
    """Its folder, as seen from that of all."""
    metrics: dict[str, float]
    steps: int
    """Updates after which it was best."""
    total: int
    """Updates that it set out to make."""


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """What the folds came to."""

    out: str
    task: str
    model: str
    primary: str = ""
    folds: list[Fold] = field(default_factory=list)
    mean: float = math.nan
    interval: Interval | None = None
    """The mean's interval, by Student's t over the folds. They share training rows, so that it is approximate."""
    pooled: dict[str, float] = field(default_factory=dict)
    """Metrics over all rows together, each predicted once by the model that had not seen it."""
    chose: bool = False
    """Each fold was also the validation part that chose its weights, so that scores are a little too good."""
    reason: str = "finished"
    """Why it ended: finished, or interrupted; then the folds are those that were done."""
    refit: Trained | None = field(default=None, repr=False)

    def __fspath__(self) -> str:
        return self.out

    @property
    def words(self) -> str:
        """What it came to, in a sentence."""
        if not self.folds:
            return "no fold was trained to its end"
        interval = self.interval
        between = "" if interval is None else f" (95 %: {interval.low:.4f} to {interval.high:.4f})"
        metrics = {name: value for name, value in self.pooled.items() if isinstance(value, float)}
        whole = ", ".join(f"{titled(name)} {value:.4f}" for name, value in metrics.items())
        score = f"{titled(self.primary)} {self.mean:.4f}{between}"
        return f"{score} over {len(self.folds)} folds; all rows together: {whole}"

    @property
    def note(self) -> str:
        """How far to trust it."""
        return f"{SHARED}; {CHOSE}" if self.chose else SHARED

    def to_dict(self) -> dict[str, Any]:
        refit = {} if self.refit is None else {"refit": self.refit.to_dict()}
        return json_safe({**asdict(replace(self, refit=None)), "note": self.note, **refit})

    def __repr__(self) -> str:
        """What it says, and each fold's score."""
        lines = [f"fold {fold.fold}  {fold.metrics[self.primary]:.4f}  {self.out}/{fold.run}" for fold in self.folds]
        return "\n".join([self.words, *lines, self.note])

    def _repr_html_(self) -> str:
        rows = [[f"fold {fold.fold}", fold.metrics[self.primary], fold.steps] for fold in self.folds]
        return table(("", titled(self.primary), "best after updates"), rows, f"{self.words}; {self.note}")


@takes_memory
@check_arguments
def cross_validate(
    data: Any = None,
    *,
    folds: int | None = None,
    out: "str | Path | None" = None,
    refit: bool = False,
    config: "str | Path | None" = None,
    model: str | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    keep_data: bool = True,
    listen: Listener = silent,
    command: str | None = None,
    log_to: str | Sequence[str] | None = None,
    **settings: Any,
) -> CrossValidated:
    """Train on all folds but one, for each of them; with `refit`, then once on all rows.

    The runs are `out`/fold-1 …; asked again with the same settings (or `resume`, which needs none), what is done is not
    done again. `settings`, `data`, `keep_data` and `log_to`: as of `train`.
    """
    if Processes.from_environment().world > 1:
        raise SettingError("folds are trained in one process, one after the other: leave torchrun away")
    if isinstance(model, nn.Module):
        raise SettingError(
            "each fold needs new weights: model=… must be a name, or a function that makes the nn.Module"
        )
    request = TrainRequest(
        data=data, config=config, model=model, listen=listen, command=command, log_to=log_to, settings=settings
    )
    requested = _read_flags(request, folds)
    folder = _choose_folder(out, requested, resume=resume, overwrite=overwrite)
    with listening(as_notes(listen)), Run.locked(folder, "cross-validation"):
        return _cross_validate(folder, requested, request, refit=refit, resume=resume, overwrite=overwrite)


def _cross_validate(
    folder: Path, requested: dict[str, Any], request: TrainRequest, *, refit: bool, resume: bool, overwrite: bool
) -> CrossValidated:
    """Train the folds in a folder that only this process writes to."""
    before = _open_folder(folder, requested, resume=resume, overwrite=overwrite)
    if before is None:
        if (validation := requested.get("data.validation")) is not None:
            raise SettingError(f"--folds divides the data itself: remove --validation {validation}")
        check_data({**requested, "data.fold": 0})  # what the first fold would refuse, before anything is made
        started = {"glassformer": VERSION, "status": "training", "command": request.command, "settings": requested}
        write_json(folder / FOLDS, started)
    requested = before or requested
    count = int(requested["data.folds"])
    if (folder / CARD).exists():
        if resume or Run.open(folder).card().get("status") not in DONE:
            last = train(out=folder, resume=True, model=request.own_model, listen=request.listen, log_to=request.log_to)
            return _summarise(folder, count, last.reason, last)
        raise Misuse(f"{folder} is refitted already: replace it with --overwrite, or name another --out")
    for number in range(count):
        try:
            done = _train_fold(_fold_folder(folder, number), number, requested, request)
        except GlassformerError:
            if before is None and not _fold_folder(folder, 0).exists():  # refused before anything was made
                remove(folder / FOLDS)
            raise
        if not done:
            return _summarise(folder, count, "interrupted")
    summary = _summarise(folder, count, "finished")
    write_json(folder / FOLDS, {**read_json(folder / FOLDS), **summary.to_dict(), "status": "finished"})
    if not refit:
        return summary
    steps, total = (round(sum(getattr(fold, name) for fold in summary.folds) / count) for name in ("steps", "total"))
    summaries = {
        "runs": [fold.run for fold in summary.folds],
        "steps": max(1, steps),
        "words": summary.words,
        "mean": {summary.primary: summary.mean},
        "pooled": summary.pooled,
    }
    last = refitted(Run(_fold_folder(folder, 0)), request, total=total, before=summaries)
    return _summarise(folder, count, last.reason, last)


def _fold_folder(folder: Path, number: int) -> Path:
    """The folder of a fold, which `data.fold` counts from 0: people count from 1."""
    return folder / f"fold-{number + 1}"


def _read_flags(request: TrainRequest, folds: int | None) -> dict[str, Any]:
    """Every setting that a person gave, by dotted key."""
    requested = read_settings(request)
    for key in ("data.fold", "data.refit"):
        if key in requested:
            raise SettingError(f"{key} is set by the folds themselves: leave it away")
    if folds is not None:
        requested["data.folds"] = count_of("folds", folds, least=2)
    return requested


def _choose_folder(out: "str | Path | None", requested: Mapping[str, Any], *, resume: bool, overwrite: bool) -> Path:
    """Return the folder of the folds; raise an error if none can be made or continued there."""
    if out is None and resume:
        raise Misuse("--resume goes on with folds that are in --out: name it")
    if out is None:
        data, task = requested.get("data.path") or requested.get("data.source_file") or "data", requested.get("task")
        encoder = requested.get("model.encoder", task if task in OWN_TASKS else ModelSettings.encoder)
        out = Run.next_name(data, f"{encoder}-folds")
    folder = Path(out)
    refuse_out(requested, folder)
    if (folder / FOLDS).exists():
        return folder
    if resume and "data.folds" not in requested:
        raise NotARun(f"{folder} holds no folds to go on with: there is no {FOLDS} in it")
    Run.check_free(folder, overwrite=overwrite)
    if requested.get("data.folds") is None:
        raise SettingError("how many folds? give folds=… (--folds 5)")
    return folder


def _open_folder(folder: Path, requested: Mapping[str, Any], *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
    """The settings of what was begun in the folder, if they are the same; None where nothing was."""
    if overwrite:  # the files that name the owner of the folder are removed last
        for path in sorted(contents(folder), key=lambda path: path.name in (FOLDS, CARD)):
            remove(path)
    if not (folder / FOLDS).exists():
        return None
    if not isinstance(before := read_json(folder / FOLDS).get("settings"), dict):
        raise RunError(f"{folder / FOLDS} is damaged: it has no settings; replace the folds with --overwrite")
    now = {**before, **requested} if resume else requested
    if other := sorted(key for key in {*now, *before} if now.get(key) != before.get(key)):
        raise Misuse(
            f"{folder} holds folds with another {other[0]}: replace them with --overwrite, or name another --out"
        )
    return before


def _train_fold(folder: Path, number: int, requested: Mapping[str, Any], request: TrainRequest) -> bool:
    """Train one, if it is not done; gives whether it is now."""
    which = f"fold {number + 1} of {requested['data.folds']}"
    run, own = Run(folder), request.own_model
    begun = (folder / CARD).exists()
    if begun and run.card().get("status") in DONE:
        request.listen(Noted(f"{which}: done before"))
    else:
        request.listen(Noted(which))
        settings = {} if begun else {**requested, "data.fold": number}
        if own is not None:
            settings.pop("model.encoder", None)
        log_to = asked_loggers(request.log_to, Run(_fold_folder(folder.parent, 0)))
        trained = train(
            out=folder, resume=True, draft=True, model=own, listen=request.listen, log_to=log_to, **settings
        )
        if trained.reason == "interrupted":
            return False
        _write_records(folder, trained.evaluations["validation"].records)
    if not (folder / RECORDS).exists():
        beam = 1 if FAMILIES[run.config().task].has_decoder else None
        _write_records(folder, evaluate(folder, part="validation", beam=beam, say=silent).records)
    return True


def _write_records(folder: Path, records: list[dict[str, Any]]) -> None:
    write_text(folder / RECORDS, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _summarise(folder: Path, count: int, reason: str, refit: Trained | None = None) -> CrossValidated:
    """What the folds that are done came to."""
    runs = [Run(_fold_folder(folder, number)) for number in range(count)]
    runs = [run for run in runs if (run.path / CARD).exists() and (run.path / RECORDS).exists()]
    if not runs:
        return CrossValidated(out=str(folder), task="", model="", reason=reason, refit=refit)
    records: list[dict[str, Any]] = []
    folds: list[Fold] = []
    for run in runs:
        lines = (run.path / RECORDS).read_text(encoding="utf-8").split("\n")  # texts may hold other line ends
        records += [json.loads(line) for line in lines if line]
        card, number = run.card(), int(run.path.name.rpartition("-")[2])
        steps = card["best"]["step"]
        total = max(steps, card.get("total_steps") or card["steps"])
        folds.append(Fold(number, run.path.name, card["validation"], steps=steps, total=total))
    family, config = FAMILIES[card["task"]], card["config"]
    primary, _ = fold_metric(family, run.config())
    values = [fold.metrics[primary] for fold in folds]
    return CrossValidated(
        out=str(folder),
        task=card["task"],
        model=config["model"]["encoder"],
        primary=primary,
        folds=folds,
        mean=sum(values) / len(values),
        interval=within(mean_interval(values), primary),
        pooled=pooled_metrics(family, records, [fold.metrics for fold in folds]),
        chose=config["training"]["keep"] == "best",
        reason=reason,
        refit=refit,
    )
