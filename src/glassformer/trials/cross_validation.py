"""Cross-validation: a training run per fold, scored on the rows of that fold, and the metrics over all rows."""

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
from glassformer.config.model_section import ModelSettings
from glassformer.config.parts import remove
from glassformer.config.presets import OWN_TASKS, VERSION
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
"""File in each fold's folder with the predictions for the rows of the fold."""
SHARED_ROWS = "the folds share most of their training rows, so the interval is approximate"
CHOSE_WEIGHTS = "each fold also chose the weights that it scores, so scores are a little too good (training.keep last)"


@dataclass(frozen=True)
class Fold:
    """The training run of a fold."""

    fold: int
    """Number from 1, as in the name of its folder."""
    run: str
    """Its folder, relative to that of the folds."""
    metrics: dict[str, float]
    steps: int
    """Number of updates of the best weights."""
    total: int
    """Planned number of updates."""


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """Result of a cross-validation."""

    out: str
    task: str
    model: str
    primary: str = ""
    folds: list[Fold] = field(default_factory=list)
    mean: float = math.nan
    interval: Interval | None = None
    """Interval of the mean by Student's t over the folds; approximate, because folds share training rows."""
    pooled: dict[str, float] = field(default_factory=dict)
    """Metrics over all rows, each predicted by the model that was not trained on it."""
    chose: bool = False
    """Whether each fold was also the validation part that chose its weights, so that scores are a little too good."""
    reason: str = "finished"
    """Reason for the end: finished, or interrupted after some of the folds."""
    refit: Trained | None = field(default=None, repr=False)

    def __fspath__(self) -> str:
        return self.out

    @property
    def words(self) -> str:
        """The result as a sentence."""
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
        """Remark on the reliability of the scores."""
        return f"{SHARED_ROWS}; {CHOSE_WEIGHTS}" if self.chose else SHARED_ROWS

    def to_dict(self) -> dict[str, Any]:
        refit = {} if self.refit is None else {"refit": self.refit.to_dict()}
        return json_safe({**asdict(replace(self, refit=None)), "note": self.note, **refit})

    def __repr__(self) -> str:
        """Return the result and the score of each fold."""
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
    model: str | ModelSettings | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    keep_data: bool = True,
    listen: Listener = silent,
    command: str | None = None,
    log_to: str | Sequence[str] | None = None,
    **settings: Any,
) -> CrossValidated:
    """Train once per fold, on all other folds; with `refit`, train again on all rows.

    The runs are `out`/fold-1 …. The same call, or `resume` without settings, continues after the folds that are done.
    `settings`, `data`, `keep_data` and `log_to`: as in `train`.
    """
    if Processes.from_environment().world > 1:
        raise SettingError("folds are trained in one process, one after the other: start it without torchrun")
    if isinstance(model, nn.Module):
        raise SettingError(
            "each fold needs new weights: model=… must be a name, or a function that makes the nn.Module"
        )
    request = TrainRequest(
        data=data,
        out=out,
        config=config,
        model=model,
        resume=resume,
        overwrite=overwrite,
        listen=listen,
        command=command,
        log_to=log_to,
        settings=settings,
    )
    requested = _read_flags(request, folds)
    folder = _choose_folder(request, requested)
    with listening(as_notes(listen)), Run.locked(folder, "cross-validation"):
        return _train_folds(folder, requested, request, refit=refit)


def _train_folds(folder: Path, requested: dict[str, Any], request: TrainRequest, *, refit: bool) -> CrossValidated:
    """Train the folds in a folder that only this process writes to."""
    before = _open_folder(folder, requested, request)
    if before is None:
        if (validation := requested.get("data.validation")) is not None:
            raise SettingError(f"--folds divides the data itself: remove --validation {validation}")
        check_data({**requested, "data.fold": 0})  # errors of the first fold, before anything is made
        started = {"glassformer": VERSION, "status": "training", "command": request.command, "settings": requested}
        write_json(folder / FOLDS, started)
    requested = before or requested
    count = int(requested["data.folds"])
    if (folder / CARD).exists():
        if request.resume or Run.open(folder).card().get("status") not in DONE:
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
    """Return the folder of a fold; `data.fold` counts from 0, folders from 1."""
    return folder / f"fold-{number + 1}"


def _read_flags(request: TrainRequest, folds: int | None) -> dict[str, Any]:
    """Return all settings that were given, by dotted key."""
    requested = read_settings(request)
    for key in ("data.fold", "data.refit"):
        if key in requested:
            raise SettingError(f"{key} is set by the folds themselves: remove it")
    if folds is not None:
        requested["data.folds"] = count_of("folds", folds, least=2)
    return requested


def _choose_folder(request: TrainRequest, requested: Mapping[str, Any]) -> Path:
    """Return the folder of the folds; raise an error if folds can neither start nor continue there."""
    out = request.out
    if out is None and request.resume:
        raise Misuse("--resume continues folds that are in --out: name it")
    if out is None:
        data, task = requested.get("data.path") or requested.get("data.source_file") or "data", requested.get("task")
        encoder = requested.get("model.encoder", task if task in OWN_TASKS else ModelSettings.encoder)
        out = Run.next_name(data, f"{encoder}-folds")
    folder = Path(out)
    refuse_out(requested, folder)
    if (folder / FOLDS).exists():
        return folder
    if request.resume and "data.folds" not in requested:
        raise NotARun(f"{folder} holds no folds to continue: there is no {FOLDS} in it")
    Run.check_free(folder, overwrite=request.overwrite)
    if requested.get("data.folds") is None:
        raise SettingError("how many folds? give folds=… (--folds 5)")
    return folder


def _open_folder(folder: Path, requested: Mapping[str, Any], request: TrainRequest) -> dict[str, Any] | None:
    """Return the settings of the folds in the folder, which must be the same; None if there are no folds."""
    if request.overwrite:  # the files that name the owner of the folder are removed last
        for path in sorted(contents(folder), key=lambda path: path.name in (FOLDS, CARD)):
            remove(path)
    if not (folder / FOLDS).exists():
        return None
    if not isinstance(before := read_json(folder / FOLDS).get("settings"), dict):
        raise RunError(f"{folder / FOLDS} is damaged: it has no settings; replace the folds with --overwrite")
    now = {**before, **requested} if request.resume else requested
    if other := sorted(key for key in {*now, *before} if now.get(key) != before.get(key)):
        raise Misuse(
            f"{folder} holds folds with another {other[0]}: replace them with --overwrite, or name another --out"
        )
    return before


def _train_fold(folder: Path, number: int, requested: Mapping[str, Any], request: TrainRequest) -> bool:
    """Train a fold if it is not done; return whether it is done."""
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
    """Return the result of the folds that are done."""
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
