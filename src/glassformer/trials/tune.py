"""Search for the best settings of a model, on development data: many short trainings, and one whole run at the end."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.config.encoders import model_name
from glassformer.config.errors import Misuse, RunError, SettingError
from glassformer.config.resolve import flatten
from glassformer.config.say import Say, silent
from glassformer.data.datasets.embedded import HUB
from glassformer.families.infer import infer_config
from glassformer.families.settings import with_vectors
from glassformer.runs.files import read_json, write_json
from glassformer.runs.run import RUNS, Run
from glassformer.training.events import Listener
from glassformer.trials.results.metrics import titled
from glassformer.trials.settings import check_split, count_of
from glassformer.verbs.train import train

if TYPE_CHECKING:
    import optuna

    from glassformer.trials.tuning.result import Tuned
    from glassformer.trials.tuning.search import Search

TRIALS = 30
"""Where neither their number nor a time is given."""
SEARCH = "search.json"
LOOKS = "looks"


def tune(
    data: str | Path | None = None,
    *,
    model: str | Sequence[str] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    trial_minutes: float | None = None,
    space: str | Path | Mapping[str, Any] | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    jobs: int = 1,
    seeds: int | None = None,
    folds: int | None = None,
    out: str | Path | None = None,
    config: str | Path | None = None,
    prune: bool = True,
    final: bool = True,
    say: Say = silent,
    listen: Listener = silent,
    **settings: Any,
) -> "Tuned":
    """The best settings that were found for a model, or for the best of several.

    `model` is a name, or several (`"bag,cnn"`); `settings` are those of `train`, and are not searched. `trials` counts
    all there are, those of earlier calls too: the same call again goes on. `minutes` is for all trials together,
    `trial_minutes` for each. `space` is a YAML file or a mapping (`{"model.width": [64, 128]}`) instead of what is
    searched by itself. `seeds`: a trial's score is the mean of so many trainings; `folds`: of so many
    with another part of the data held out each, which tells more where there is little. At the end the best is trained
    once more as a whole run, whose test part is looked at, unless not `final`.
    """
    from glassformer.trials.tuning.kept import open_study, say_network, where_kept
    from glassformer.trials.tuning.search import plan_search

    _check_times(minutes=minutes, trial_minutes=trial_minutes)
    trials = None if trials is None else count_of("trials", trials)
    jobs = count_of("jobs", jobs)
    if folds is not None and seeds is not None:
        raise Misuse("--seeds and --folds: each fold is trained once, give one of them")
    if trial_minutes is not None:
        settings["training.minutes"] = trial_minutes
    search = plan_search(
        data,
        _models(model),
        settings,
        config=config,
        space=space,
        seeds=1 if seeds is None else count_of("seeds", seeds),
        folds=None if folds is None else count_of("folds", folds, least=2),
        prune=prune,
        say=say,
    )
    folder = Path(out) if out is not None else _free_folder(search)
    where = where_kept(None if storage is None else str(storage), folder)
    name = study or _stem(search)
    trials = TRIALS if trials is None and minutes is None else trials
    if storage is not None:
        say_network(where, say)
    _check_folder(folder, search)
    _divided_once(search)
    with open_study(where, name, search) as opened:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / SEARCH, search.identity())
        _work(opened, search, folder, jobs=jobs, trials=trials, minutes=minutes, where=where, name=name, say=say)
        return _end(opened, search, folder, final=final, say=say, listen=listen)


def default_spaces(
    data: str | Path | None = None,
    *,
    model: str | Sequence[str] | None = None,
    config: str | Path | None = None,
    say: Say = silent,
    **settings: Any,
) -> dict[str, Any]:
    """What is searched where nobody says, as a person writes it: by setting, or for several models by model."""
    from glassformer.trials.tuning.search import plan_search
    from glassformer.trials.tuning.space import plain

    search = plan_search(data, _models(model), settings, config=config, space=None, seeds=1, prune=True, say=say)
    spaces = {name: plain(space) for name, space in search.spaces.items()}
    return spaces if len(spaces) > 1 else next(iter(spaces.values()))


def _check_times(**given: Any) -> None:
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise SettingError(f"{flag} wants a number, not {value!r}")
        if value is not None and not value > 0:
            raise SettingError(f"{flag} is {value:g}, but must be above 0")


def _divided_once(search: "Search") -> None:
    """What every trial would refuse of the data is refused before the first."""
    said = {**search.settings, **flatten({"model": search.models[0]}), **search.repeats[0]}
    check_split(*infer_config({}, with_vectors(said, said), silent))


def _models(model: str | Sequence[str] | None) -> list[str]:
    names = model.split(",") if isinstance(model, str) else list(model or ())
    names = [name.strip() for name in names if name.strip()]
    for name in names:
        model_name(name)  # says what is wrong with it
    if len(set(names)) < len(names):
        raise SettingError(f"--model {','.join(names)} names a model twice")
    return names


# --- where it goes ---


def _stem(search: "Search") -> str:
    """Of the data and the models."""
    where = search.settings.get("data.path") or search.settings.get("data.source_file") or "data"
    name = Path(where.removeprefix(HUB).split(":")[0]).name
    data = re.sub(r"[^A-Za-z0-9_.]+", "-", name.split(".")[0]).strip("-") or "data"
    return "-".join([data, *(name.replace(":", "-") for name in search.models)])


def _free_folder(search: "Search") -> Path:
    """runs/tune-<data>-<model>-N: that of the same search, to go on with it, or the first that is free."""
    number = 1
    while (path := RUNS / f"tune-{_stem(search)}-{number}").exists():
        if (path / SEARCH).is_file() and _other(path, search) is None:
            return path
        number += 1
    return path


def _other(folder: Path, search: "Search") -> str | None:
    """In what the search in a folder is another one; None: it is the same."""
    from glassformer.trials.tuning.search import differs

    return differs(json.loads(json.dumps(search.identity())), read_json(folder / SEARCH))


def _check_folder(folder: Path, search: "Search") -> None:
    if folder.is_file():
        raise Misuse(f"{folder} is a file: name a folder for the search with --out")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SEARCH).is_file():
        raise Misuse(f"{folder} is not empty and holds no search: name another --out")
    if (folder / SEARCH).is_file() and (what := _other(folder, search)) is not None:
        raise Misuse(f"{folder} holds another search: {what}; name another --out")


# --- the trials ---


def _work(
    study: "optuna.Study",
    search: "Search",
    folder: Path,
    *,
    jobs: int,
    trials: int | None,
    minutes: float | None,
    where: str,
    name: str,
    say: Say,
) -> None:
    from glassformer.trials.tuning.jobs import work_in_processes
    from glassformer.trials.tuning.work import counted, take_back_lost, work

    take_back_lost(study, say)
    done = len(counted(study))
    if done:
        say(f"going on with {folder}: {done} trial{'s' * (done != 1)} so far")
    until = None if minutes is None else time.time() + 60 * minutes
    if jobs == 1:
        work(study, search, trials=trials, until=until, folder=folder / "trials", say=say)
    elif trials is None or done < trials:
        orders = {"where": where, "name": name, "trials": trials, "until": until}
        work_in_processes(jobs, study, search, orders, folder / "trials", say)


def _end(study: "optuna.Study", search: "Search", folder: Path, *, final: bool, say: Say, listen: Listener) -> "Tuned":
    from glassformer.trials.tuning.kept import START
    from glassformer.trials.tuning.mattered import mattered
    from glassformer.trials.tuning.recipe import write_recipe
    from glassformer.trials.tuning.result import Tuned
    from glassformer.trials.tuning.tried import OUTCOME, best_among, best_of, tried
    from glassformer.trials.tuning.work import counted, under_way

    best = best_of(study, search)
    done = [trial for trial in counted(study) if trial.state.is_finished()]
    if best is None:
        why = f": {done[-1].user_attrs[OUTCOME]['why']}" if done else ""
        raise RunError(f"no trial came to a score{why}")
    if running := under_way(study):
        say(f"{len(running)} trials are still under way elsewhere: the same command shows them once they have ended")
        final = False
    chosen = tried(best, search)
    primary, model = best.user_attrs[OUTCOME]["primary"], chosen.settings["model"]
    among = f"the best of {len(done)} trials (so it is optimistic)" if len(done) > 1 else "the only trial"
    score = f"{titled(primary)} {best.value:.4f} on validation, {among}"
    recipe = folder / "recipe.yaml"
    write_recipe(recipe, search, chosen.settings, score)
    run = _final(study, search, folder, chosen.settings, say, listen) if final else None
    start = best_among([trial for trial in done if START in trial.user_attrs], search)
    card = {} if run is None else run.card()
    tuned = Tuned(
        out=str(folder),
        task=search.task,
        model=model,
        primary=primary,
        lower_is_better=search.lower_is_better,
        trials=[tried(trial, search) for trial in done],
        best=chosen,
        settings={**search.settings, **chosen.settings},
        space=search.spaces[model],
        mattered=mattered(study, search),
        recipe=str(recipe),
        seeds=search.seeds,
        folds=search.folds,
        run=None if run is None else str(run.path),
        validation=card.get("validation"),
        test=card.get("test"),
        looks=int(study.user_attrs.get(LOOKS, 0)),
        start=None if start is None else tried(start, search),
    )
    tuned.save(folder)
    return tuned


def _final(
    study: "optuna.Study", search: "Search", folder: Path, settings: dict[str, Any], say: Say, listen: Listener
) -> Run:
    """The best, trained once more: the only look at the test part."""
    path = folder / "best"
    told = {**search.settings, **settings}
    mark = folder / ".best.json"
    if (path / "glassformer.json").is_file() and mark.is_file() and read_json(mark) == json.loads(json.dumps(told)):
        return Run.open(path)
    say(f"training the best once more, as a whole run: {path}")
    mark.unlink(missing_ok=True)
    trained = train(out=path, overwrite=True, listen=listen, **told)
    if trained.reason == "interrupted":
        raise KeyboardInterrupt
    if trained.test is not None:
        study.set_user_attr(LOOKS, int(study.user_attrs.get(LOOKS, 0)) + 1)
    write_json(mark, told)
    return Run.open(path)
