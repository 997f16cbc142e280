"""The end of a search: a recipe of the best settings, the best trained once more, and what it all came to."""

from pathlib import Path
from typing import Any

import yaml

from glassformer.config.errors import RunError, Say
from glassformer.config.resolve import SECTIONS, flatten
from glassformer.runs.files import read_json, write_json, write_text
from glassformer.runs.run import Run
from glassformer.training.events import Listener
from glassformer.trials.results.metrics import titled
from glassformer.trials.tuning.heartbeat import counted, under_way
from glassformer.trials.tuning.result import TuneResult
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.storage import START, optuna
from glassformer.trials.tuning.trial_record import OUTCOME, best_of, importance, record_of
from glassformer.verbs.train import train

LOOKS = "looks"
"""A study's mark: how often the test part was looked at."""


def finish(
    study: "optuna.Study", search: Search, folder: Path, *, final: bool, say: Say, listen: Listener
) -> TuneResult:
    """What a search came to, saved in its folder; the best is trained once more, unless not `final`."""
    done = [trial for trial in counted(study) if trial.state.is_finished()]
    best = best_of(done, search)
    if best is None:
        why = f": {done[-1].user_attrs[OUTCOME]['why']}" if done else ""
        raise RunError(f"no trial came to a score{why}")
    if running := under_way(study):
        say(f"{len(running)} trials are still under way elsewhere: the same command shows them once they have ended")
        final = False
    record, primary = record_of(best, search), best.user_attrs[OUTCOME]["primary"]
    settings, model = {**search.settings, **record.settings}, record.settings["model"]
    among = f"the best of {len(done)} trials (so it is optimistic)" if len(done) > 1 else "the only trial"
    recipe = folder / "recipe.yaml"
    write_recipe(recipe, settings, f"{titled(primary)} {best.value:.4f} on validation, {among}")
    run = _train_best(study, folder, settings, say, listen) if final else None
    card = {} if run is None else run.card()
    start = best_of([trial for trial in done if START in trial.user_attrs], search)
    result = TuneResult(
        out=str(folder),
        task=search.task,
        model=model,
        primary=primary,
        lower_is_better=search.lower_is_better,
        trials=[record_of(trial, search) for trial in done],
        best=record,
        start=None if start is None else record_of(start, search),
        settings=settings,
        space=search.spaces[model],
        importance=importance(study, search),
        recipe=str(recipe),
        seeds=search.seeds,
        folds=search.folds,
        run=None if run is None else str(run.path),
        validation=card.get("validation"),
        test=card.get("test"),
        looks=int(study.user_attrs.get(LOOKS, 0)),
    )
    result.save(folder)
    return result


def write_recipe(path: Path, settings: dict[str, Any], score: str) -> None:
    """The settings of the best trial by section, as `train --config` takes them."""
    flat = flatten(settings)
    sections = {
        section: {key.split(".")[1]: value for key, value in flat.items() if key.startswith(f"{section}.")}
        for section in SECTIONS
    }
    recipe = {"task": flat["task"], **{section: part for section, part in sections.items() if part}}
    data = f"{Path(settings['data.path']).name} " if "data.path" in settings else ""
    head = f"# {score}\n# glassformer train {data}--config {path.name}\n"
    write_text(path, head + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))


def _train_best(study: "optuna.Study", folder: Path, settings: dict[str, Any], say: Say, listen: Listener) -> Run:
    """The best, trained once more: the only look at the test part."""
    path, mark = folder / "best", folder / ".best.json"
    if (path / "glassformer.json").is_file() and mark.is_file() and read_json(mark) == settings:
        return Run.open(path)
    say(f"training the best once more, as a whole run: {path}")
    mark.unlink(missing_ok=True)
    trained = train(out=path, overwrite=True, listen=listen, **settings)
    if trained.reason == "interrupted":
        raise KeyboardInterrupt
    if trained.test is not None:
        study.set_user_attr(LOOKS, int(study.user_attrs.get(LOOKS, 0)) + 1)
    write_json(mark, settings)
    return Run.open(path)
