"""Cross-validation: as many trainings as folds, each judged on the rows that it did not see."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.encoders import OWN, model_name
from glassformer.config.errors import GlassformerError, Misuse, NotARun, SettingError
from glassformer.config.presets import PACKED, REGRESSION, TRANSLATION
from glassformer.config.say import silent
from glassformer.config.version import VERSION
from glassformer.families.base import OwnModel
from glassformer.families.infer import infer_config
from glassformer.families.settings import with_vectors
from glassformer.finetuning.sources import refuse_same
from glassformer.pipeline.refit import DONE, refitted
from glassformer.pipeline.result import Trained
from glassformer.pipeline.training import TrainRequest
from glassformer.runs.files import read_json, write_json, write_text, writing
from glassformer.runs.run import CARD, Run
from glassformer.statistics.intervals import mean_interval
from glassformer.training.events import Listener, Noted
from glassformer.training.processes import Processes
from glassformer.trials.crossed import PRIMARY, CrossValidated, Fold
from glassformer.trials.divided import divided
from glassformer.trials.given import count_of, given_settings
from glassformer.trials.pooled import pooled
from glassformer.trials.results.metrics import within
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train

FOLDS = "folds.json"
RECORDS = "held-out.jsonl"
"""In each fold's folder: what its model said of the rows that it did not see."""


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
    said = _said(data, folds, config, model, settings)
    place = _place(out, said, model, resume=resume)
    begun = _begun(place, said, resume=resume, overwrite=overwrite)
    said = begun["settings"] if begun is not None else said
    count = int(said["data.folds"])
    if begun is None:
        _refuse(said, model)
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
        write_json(place / FOLDS, {"glassformer": VERSION, "status": "training", "command": command, "settings": said})
    if (place / CARD).exists():
        if Run.open(place).card().get("status") not in DONE:
            return _summary(place, count, refit=train(out=place, resume=True, model=_own(model), listen=listen))
        raise Misuse(f"{place} is refitted already: replace it with --overwrite, or name another --out")
    for number in range(count):
        try:
            done = _fold(_folder(place, number), number, said, model, listen)
        except GlassformerError:
            if begun is None and not _folder(place, 0).exists():  # refused before anything was made
                shutil.rmtree(place, ignore_errors=True)
            raise
        if not done:
            return _summary(place, count, reason="interrupted")
    summary = _summary(place, count)
    write_json(place / FOLDS, {**read_json(place / FOLDS), **summary.to_dict(), "status": "finished"})
    if not refit:
        return summary
    steps, total = (
        round(sum(values) / count) for values in zip(*((f.steps, f.total) for f in summary.folds), strict=True)
    )
    before = {
        "runs": [one.run for one in summary.folds],
        "steps": max(1, steps),
        "words": summary.words,
        "mean": {summary.primary: summary.mean},
        "pooled": summary.pooled,
    }
    request = TrainRequest(model=_own(model), listen=listen, command=command)
    last = refitted(Run(_folder(place, 0)), request, total=total, before=before)  # fmt: skip
    return _summary(place, count, refit=last)


def _folder(place: Path, number: int) -> Path:
    """Of a fold, which `data.fold` counts from 0: people count from 1."""
    return place / f"fold-{number + 1}"


def _refuse(said: Mapping[str, Any], model: str | OwnModel | None) -> None:
    """What the first fold would refuse, before anything is made."""
    if said.get("data.validation") is not None:
        raise SettingError(f"--folds divides the data itself: leave --validation {said['data.validation']} away")
    named = {} if _own(model) is None else {"model.encoder": OWN}
    flags = {**said, "data.fold": 0, **named}
    divided(*infer_config({}, with_vectors(flags, flags), silent))


def _own(model: str | OwnModel | None) -> OwnModel | None:
    return None if model is None or isinstance(model, str) else model


def _said(
    data: "str | Path | None",
    folds: int | None,
    config: "str | Path | None",
    model: str | OwnModel | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Every setting that was given, by dotted key."""
    named = {} if model is None else {"model": model if isinstance(model, str | dict) else OWN}
    said = given_settings(data, config, {**settings, **named})
    for key in ("data.fold", "data.refit"):
        if key in said:
            raise SettingError(f"{key} is set by the folds themselves: leave it away")
    if folds is not None:
        said["data.folds"] = count_of("folds", folds, least=2)
    return said


def _place(out: "str | Path | None", said: Mapping[str, Any], model: str | OwnModel | None, *, resume: bool) -> Path:
    if out is not None:
        return Path(out)
    if resume:
        raise Misuse("--resume goes on with folds that are in --out: name it")
    name = model_name(said.get("model.encoder", "transformer"))[0] if _own(model) is None else OWN
    return Run.next_name(said.get("data.path") or said.get("data.source_file") or "data", f"{name}-folds")


def _begun(place: Path, said: Mapping[str, Any], *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
    """What was begun here, if it is the same; None where nothing was."""
    refuse_same(said.get("model.from_run"), said.get("model.decoder_from"), place)
    if not (place / FOLDS).exists():
        if resume:
            raise NotARun(f"{place} holds no folds to go on with: there is no {FOLDS} in it")
        Run.check_free(place, overwrite=overwrite)
        if "data.folds" not in said or said["data.folds"] is None:
            raise SettingError("how many folds? give folds=… (--folds 5)")
    if place.is_dir() and overwrite:
        with writing(place):
            shutil.rmtree(place)
    if not (place / FOLDS).exists():
        return None
    before = read_json(place / FOLDS)
    now = {**before["settings"], **said} if resume else dict(said)
    if now != before["settings"]:
        other = sorted(key for key in {*now, *before["settings"]} if now.get(key) != before["settings"].get(key))
        raise Misuse(
            f"{place} holds folds with another {other[0]}: replace them with --overwrite, or name another --out"
        )
    return before


def _fold(place: Path, number: int, said: Mapping[str, Any], model: str | OwnModel | None, listen: Listener) -> bool:
    """Train one, if it is not done; gives whether it is now."""
    count = said["data.folds"]
    run = Run(place)
    begun = (place / CARD).exists()
    if begun and run.card().get("status") in DONE:
        listen(Noted(f"fold {number + 1} of {count}: done before"))
    else:
        listen(Noted(f"fold {number + 1} of {count}"))
        own: dict[str, Any] = {} if _own(model) is None else {"model": model}
        settings = {} if begun else {**said, "data.fold": number}
        settings = {key: value for key, value in settings.items() if key != "model.encoder" or not own}
        trained = train(out=place, resume=begun, draft=True, listen=listen, **settings, **own)
        if trained.reason == "interrupted":
            return False
        _write_records(place, trained.evaluations["validation"].records)
    if not (place / RECORDS).exists():
        beam = 1 if run.config().task == TRANSLATION else None
        _write_records(place, evaluate(place, part="validation", beam=beam).records)
    return True


def _write_records(place: Path, records: list[dict[str, Any]]) -> None:
    write_text(place / RECORDS, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _summary(place: Path, count: int, *, reason: str = "finished", refit: Trained | None = None) -> CrossValidated:
    """Of the folds that are done."""
    folds, held = [], []
    task, model, chose = "", "", False
    for number in range(count):
        run = Run(_folder(place, number))
        if not (run.path / CARD).exists() or not (run.path / RECORDS).exists():
            continue
        card = run.card()
        lines = (run.path / RECORDS).read_text(encoding="utf-8").split("\n")  # texts may hold other line ends
        task, model = card["task"], card["config"]["model"]["encoder"]
        chose = card["config"]["training"]["keep"] == "best"
        steps = card["best"]["step"]
        total = max(steps, card.get("total_steps") or card["steps"])
        folds.append(Fold(number + 1, run.path.name, card["validation"], steps, total))
        held.append({"records": [json.loads(line) for line in lines if line], "metrics": card["validation"]})
    primary = PRIMARY.get(task, "")
    values = [fold.metrics[primary] for fold in folds]
    return CrossValidated(
        out=str(place),
        task=task,
        model=model,
        primary=primary,
        lower_is_better=task in (REGRESSION, *PACKED),
        folds=folds,
        mean=sum(values) / len(values) if values else float("nan"),
        interval=within(mean_interval(values), primary) if values else None,
        pooled=pooled(task, held) if held else {},
        chose=chose,
        reason=refit.reason if refit is not None else reason,
        refit=refit,
    )
