"""Cross-validation: as many trainings as folds, each judged on the rows that it did not see."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.encoders import OWN, model_name
from glassformer.config.errors import GlassformerError, Misuse, NotARun, SettingError
from glassformer.config.resolve import with_new_names
from glassformer.config.say import silent
from glassformer.config.version import VERSION
from glassformer.families.base import FAMILIES, OwnModel
from glassformer.families.infer import infer_config
from glassformer.families.settings import with_vectors
from glassformer.finetuning.sources import refuse_same
from glassformer.pipeline.refit import refitted
from glassformer.pipeline.result import Trained
from glassformer.pipeline.training import TrainRequest
from glassformer.runs.files import read_json, write_json, write_text, writing
from glassformer.runs.run import CARD, DONE, Run
from glassformer.statistics.intervals import mean_interval
from glassformer.training.events import Listener, Noted
from glassformer.training.processes import Processes
from glassformer.trials.cross_validation.result import CrossValidated, Fold, fold_metric, pooled_metrics
from glassformer.trials.results.metrics import within
from glassformer.trials.settings import check_split, count_of, read_settings
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train

FOLDS = "folds.json"
RECORDS = "held-out.jsonl"
"""The file in each fold's folder that holds what its model said of the rows that it did not see."""


def cross_validate(
    data: "str | Path | None" = None,
    *,
    folds: int | None = None,
    out: "str | Path | None" = None,
    refit: bool = False,
    config: "str | Path | None" = None,
    model: str | OwnModel | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listen: Listener = silent,
    command: str | None = None,
    **settings: Any,
) -> CrossValidated:
    """Train on all folds but one, for each of them; with `refit`, then once on all rows.

    The runs are `out`/fold-1 …; asked again with the same settings (or `resume`, which needs none), what is done is not
    done again. `settings`: as of `train`.
    """
    if Processes.from_environment().world > 1:
        raise SettingError("folds are trained in one process, one after the other: leave torchrun away")
    if isinstance(model, nn.Module):
        raise SettingError(
            "each fold needs new weights: model=… must be a name, or a function that makes the nn.Module"
        )
    requested = _read_flags(data, folds, config, model, settings)
    folder = _choose_folder(out, requested, model, resume=resume)
    before = _open_folder(folder, requested, resume=resume, overwrite=overwrite)
    requested = before["settings"] if before is not None else requested
    count = int(requested["data.folds"])
    if before is None:
        _refuse(requested, model)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(
            folder / FOLDS, {"glassformer": VERSION, "status": "training", "command": command, "settings": requested}
        )
    if (folder / CARD).exists():
        if Run.open(folder).card().get("status") not in DONE:
            return _summarise(folder, count, refit=train(out=folder, resume=True, model=_own(model), listen=listen))
        raise Misuse(f"{folder} is refitted already: replace it with --overwrite, or name another --out")
    for number in range(count):
        try:
            done = _train_fold(_fold_folder(folder, number), number, requested, model, listen)
        except GlassformerError:
            if before is None and not _fold_folder(folder, 0).exists():  # refused before anything was made
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if not done:
            return _summarise(folder, count, reason="interrupted")
    summary = _summarise(folder, count)
    write_json(folder / FOLDS, {**read_json(folder / FOLDS), **summary.to_dict(), "status": "finished"})
    if not refit:
        return summary
    steps, total = (
        round(sum(values) / count) for values in zip(*((f.steps, f.total) for f in summary.folds), strict=True)
    )
    summaries = {
        "runs": [one.run for one in summary.folds],
        "steps": max(1, steps),
        "words": summary.words,
        "mean": {summary.primary: summary.mean},
        "pooled": summary.pooled,
    }
    request = TrainRequest(model=_own(model), listen=listen, command=command)
    last = refitted(Run(_fold_folder(folder, 0)), request, total=total, before=summaries)
    return _summarise(folder, count, refit=last)


def _fold_folder(folder: Path, number: int) -> Path:
    """The folder of a fold, which `data.fold` counts from 0: people count from 1."""
    return folder / f"fold-{number + 1}"


def _refuse(requested: Mapping[str, Any], model: str | OwnModel | None) -> None:
    """What the first fold would refuse, before anything is made."""
    if requested.get("data.validation") is not None:
        raise SettingError(f"--folds divides the data itself: leave --validation {requested['data.validation']} away")
    named = {} if _own(model) is None else {"model.encoder": OWN}
    flags = {**requested, "data.fold": 0, **named}
    check_split(*infer_config({}, with_vectors(flags, flags), silent))


def _own(model: str | OwnModel | None) -> OwnModel | None:
    return None if model is None or isinstance(model, str) else model


def _read_flags(
    data: "str | Path | None",
    folds: int | None,
    config: "str | Path | None",
    model: str | OwnModel | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Every setting that a person gave, by dotted key."""
    named = {} if model is None else {"model": model if isinstance(model, str | dict) else OWN}
    requested = read_settings(data, config, {**settings, **named})
    for key in ("data.fold", "data.refit"):
        if key in requested:
            raise SettingError(f"{key} is set by the folds themselves: leave it away")
    if folds is not None:
        requested["data.folds"] = count_of("folds", folds, least=2)
    return requested


def _choose_folder(
    out: "str | Path | None", requested: Mapping[str, Any], model: str | OwnModel | None, *, resume: bool
) -> Path:
    if out is not None:
        return Path(out)
    if resume:
        raise Misuse("--resume goes on with folds that are in --out: name it")
    name = model_name(requested.get("model.encoder", "transformer"))[0] if _own(model) is None else OWN
    return Run.next_name(requested.get("data.path") or requested.get("data.source_file") or "data", f"{name}-folds")


def _open_folder(folder: Path, requested: Mapping[str, Any], *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
    """The folder's own account of what was begun in it, if it is the same; None where nothing was."""
    refuse_same(requested.get("model.from_run"), requested.get("model.decoder_from"), folder)
    if not (folder / FOLDS).exists():
        if resume:
            raise NotARun(f"{folder} holds no folds to go on with: there is no {FOLDS} in it")
        Run.check_free(folder, overwrite=overwrite)
        if "data.folds" not in requested or requested["data.folds"] is None:
            raise SettingError("how many folds? give folds=… (--folds 5)")
    if folder.is_dir() and overwrite:
        with writing(folder):
            shutil.rmtree(folder)
    if not (folder / FOLDS).exists():
        return None
    stored = read_json(folder / FOLDS)
    before = {**stored, "settings": with_new_names(stored["settings"])}
    now = {**before["settings"], **requested} if resume else dict(requested)
    if now != before["settings"]:
        other = sorted(key for key in {*now, *before["settings"]} if now.get(key) != before["settings"].get(key))
        raise Misuse(
            f"{folder} holds folds with another {other[0]}: replace them with --overwrite, or name another --out"
        )
    return before


def _train_fold(
    folder: Path, number: int, requested: Mapping[str, Any], model: str | OwnModel | None, listen: Listener
) -> bool:
    """Train one, if it is not done; gives whether it is now."""
    count = requested["data.folds"]
    run = Run(folder)
    begun = (folder / CARD).exists()
    if begun and run.card().get("status") in DONE:
        listen(Noted(f"fold {number + 1} of {count}: done before"))
    else:
        listen(Noted(f"fold {number + 1} of {count}"))
        own: dict[str, Any] = {} if _own(model) is None else {"model": model}
        settings = {} if begun else {**requested, "data.fold": number}
        settings = {key: value for key, value in settings.items() if key != "model.encoder" or not own}
        trained = train(out=folder, resume=begun, draft=True, listen=listen, **settings, **own)
        if trained.reason == "interrupted":
            return False
        _write_records(folder, trained.evaluations["validation"].records)
    if not (folder / RECORDS).exists():
        beam = 1 if FAMILIES[run.config().task].has_decoder else None
        _write_records(folder, evaluate(folder, part="validation", beam=beam).records)
    return True


def _write_records(folder: Path, records: list[dict[str, Any]]) -> None:
    write_text(folder / RECORDS, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _summarise(folder: Path, count: int, *, reason: str = "finished", refit: Trained | None = None) -> CrossValidated:
    """What the folds that are done came to."""
    folds: list[Fold] = []
    records: list[dict[str, Any]] = []
    task, model, chose = "", "", False
    for number in range(count):
        run = Run(_fold_folder(folder, number))
        if not (run.path / CARD).exists() or not (run.path / RECORDS).exists():
            continue
        card = run.card()
        lines = (run.path / RECORDS).read_text(encoding="utf-8").split("\n")  # texts may hold other line ends
        records += [json.loads(line) for line in lines if line]
        task, model = card["task"], card["config"]["model"]["encoder"]
        chose = card["config"]["training"]["keep"] == "best"
        steps = card["best"]["step"]
        total = max(steps, card.get("total_steps") or card["steps"])
        folds.append(Fold(number + 1, run.path.name, card["validation"], steps, total))
    about: dict[str, Any] = {}
    if folds:
        family = FAMILIES[task]
        primary = fold_metric(family)
        values = [fold.metrics[primary] for fold in folds]
        about = {
            "primary": primary,
            "lower_is_better": family.lower_is_better,
            "mean": sum(values) / len(values),
            "interval": within(mean_interval(values), primary),
            "pooled": pooled_metrics(family, records, [fold.metrics for fold in folds]),
        }
    return CrossValidated(
        out=str(folder),
        task=task,
        model=model,
        folds=folds,
        chose=chose,
        reason=refit.reason if refit is not None else reason,
        refit=refit,
        **about,
    )
