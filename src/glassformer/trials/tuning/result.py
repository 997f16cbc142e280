"""Result of a search: the best settings, all trials, the importance of settings, a recipe and a complete run."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from glassformer.config.errors import RunError
from glassformer.config.messages import say
from glassformer.config.resolve import SECTIONS, flatten
from glassformer.config.sentences import sentence as read_sentence
from glassformer.data.wording import counted
from glassformer.rendering.panels import Cell, Line, Lines, Panel, Points, Rows, Table
from glassformer.rendering.view import View
from glassformer.runs.files import read_json, write_json, write_text
from glassformer.runs.run import Run
from glassformer.training.events import Listener
from glassformer.trials.results.metrics import titled
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.space import Dimension
from glassformer.trials.tuning.storage import START, optuna, trials_that_count, under_way
from glassformer.trials.tuning.trial import OUTCOME, TrialRecord, best_of, format_value, importance, record_of
from glassformer.verbs.train import train

sentence = partial(read_sentence, __name__)

MAX_ROWS = 40
"""Trials in the table of a page."""
MAX_PANELS = 8
"""Settings whose values are drawn, the most important first."""
COUNTED_STATES = {"pruned": "of them stopped early", "failed": "failed"}
EVALUATIONS = "looks"
"""Attribute of the study: number of evaluations on the test part."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TuneResult:
    """A search that has ended."""

    out: str
    search: Search = field(repr=False)
    model: str
    """The best model."""
    primary: str
    trials: list[TrialRecord]
    best: TrialRecord
    start: TrialRecord | None
    """The best of the trials with the defaults."""
    settings: dict[str, Any]
    """The best trial's settings, fixed and searched, by dotted key, as `train` takes them."""
    importance: dict[str, float]
    """The importance of each setting, as a share."""
    recipe: str
    run: str | None = None
    """The complete run that was trained with the best settings."""
    validation: dict[str, float] | None = None
    """That run's metrics."""
    test: dict[str, float] | None = None
    looks: int = 0
    """Number of evaluations of this search on the test part."""

    @property
    def complete(self) -> list[TrialRecord]:
        """The trials that were trained to the end."""
        return [trial for trial in self.trials if trial.state == "complete"]

    @property
    def summary(self) -> str:
        """The number of trials, the best score, and how far to trust it."""
        states = Counter(trial.state for trial in self.trials)
        counts = [counted(len(self.trials), "trial")]
        counts += [f"{states[state]} {what}" for state, what in COUNTED_STATES.items() if states[state]]
        folds, repeats = self.search.folds, len(self.search.repeats)
        mean = f" (mean over {repeats} {'folds' if folds else 'seeds'})" if repeats > 1 else ""
        metric = titled(self.primary)
        parts = [sentence("summary", counts=", ".join(counts), metric=metric, best=self.best, mean=mean)]
        if self.start is not None and self.start.number != self.best.number:
            parts.append(sentence("start", start=self.start))
        if states["complete"] > 1:
            parts.append(sentence("chosen", count=states["complete"]))
        if self.test is not None:
            parts.append(sentence("test", looks=self.looks, metric=metric, value=self.test[self.primary]))
        elif self.run is not None:
            parts.append(sentence("no test part"))
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return every field and the summary, for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "search"}
        return {**fields, "summary": self.summary, "search": self.search.to_dict()}

    def save(self, folder: str | Path) -> None:
        """Write tune.html and tune.json."""
        self.view().save(Path(folder) / "tune.html")
        write_json(Path(folder) / "tune.json", self.to_dict())

    def __repr__(self) -> str:
        """Return the summary, the importance of settings, and the best settings."""
        lines = [f"  {share:4.0%}  {name}" for name, share in list(self.importance.items())[:5]]
        lines += [f"  {key}: {format_value(value)}" for key, value in self.best.settings.items()]
        return "\n".join([self.summary, *lines, self.recipe])

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    # --- as a page ---

    def view(self) -> View:
        settings: Rows = [
            [key, format_value(value), "searched" if key in self.best.settings else "fixed"]
            for key, value in self.settings.items()
        ]
        models = Dimension("model", values=tuple(dict.fromkeys(trial.settings["model"] for trial in self.complete)))
        panels: list[Panel] = [
            Table(title="The best settings", columns=["setting", "value", ""], rows=settings),
            Table(
                title="Which settings mattered",
                columns=["setting", "share"],
                rows=[[name, share] for name, share in self.importance.items()],
                bars=["share"],
                note=sentence("importance", model=self.model) if self.importance else sentence("too few"),
            ),
            self._progress(),
            *([self._by_choice(models, self.complete)] if len(models.values) > 1 else []),
            *self._by_setting(),
            self._trials(),
        ]
        return View(f"Settings for {self.model}", panels, self.summary, about=Path(self.out).name)

    def _progress(self) -> Lines:
        numbers, values = [float(trial.number) for trial in self.complete], _values(self.complete)
        best = np.minimum.accumulate(values) if self.search.lower_is_better else np.maximum.accumulate(values)
        return Lines(
            title="Score by trial",
            series=[
                Line(name="best so far", x=numbers, y=[float(value) for value in best]),
                Line(name="each trial", x=numbers, y=values, dots=True, faint=True),
            ],
            x_name="trial",
            y_name=f"validation {titled(self.primary)}",
        )

    def _by_setting(self) -> Iterator[Panel]:
        """Yield the score against each setting of the best model, the most important first: points or a table."""
        for dimension in sorted(self.search.spaces[self.model], key=lambda one: -self.importance.get(one.name, 0.0))[
            :MAX_PANELS
        ]:
            trials = [
                trial
                for trial in self.complete
                if trial.settings.get("model") == self.model
                and dimension.key in trial.settings
                and dimension.applies({**self.settings, **trial.settings})
            ]
            if len({str(trial.settings[dimension.key]) for trial in trials}) > 1:
                yield self._by_choice(dimension, trials) if dimension.values else self._by_number(dimension, trials)

    def _by_number(self, dimension: Dimension, trials: Sequence[TrialRecord]) -> Points:
        return Points(
            title=dimension.name,
            points=np.array([[trial.settings[dimension.key], trial.value] for trial in trials], float),
            labels=[f"trial {trial.number}" if trial.number == self.best.number else "" for trial in trials],
            groups=["best" if trial.number == self.best.number else "others" for trial in trials],
            x_name=dimension.key,
            log_x=dimension.log,
            y_name=f"validation {titled(self.primary)}",
        )

    def _by_choice(self, dimension: Dimension, trials: Sequence[TrialRecord]) -> Table:
        best, rows = min if self.search.lower_is_better else max, list[list[Cell]]()
        for value in dimension.values:
            if scores := _values([trial for trial in trials if trial.settings[dimension.key] == value]):
                rows.append([format_value(value), len(scores), best(scores), float(np.median(scores))])
        columns = ["value", "trials", f"best {titled(self.primary)}", "median"]
        return Table(title=dimension.name, columns=columns, rows=rows)

    def _trials(self) -> Table:
        """Return a table of the trials, the best first, then those without a score."""
        sign = 1 if self.search.lower_is_better else -1
        trials = sorted(self.trials, key=lambda trial: math.inf if trial.value is None else sign * trial.value)
        trials.sort(key=lambda trial: trial.state != "complete")
        rows: Rows = [
            [str(trial.number), trial.value, trial.summary, ": ".join(filter(None, (_ending(trial), trial.why)))]
            for trial in trials[:MAX_ROWS]
        ]
        note = sentence("best trials", shown=MAX_ROWS, count=len(trials)) if len(trials) > MAX_ROWS else ""
        return Table(title="Trials", columns=["trial", titled(self.primary), "what it tried", ""], rows=rows, note=note)


def _ending(trial: TrialRecord) -> str:
    return "" if trial.state == "complete" else trial.state


def _values(trials: Sequence[TrialRecord]) -> list[float]:
    """Return the scores of complete trials."""
    return [trial.value for trial in trials if trial.value is not None]


# --- finishing a search ---


def finish(study: "optuna.Study", search: Search, folder: Path, *, final: bool, listen: Listener) -> TuneResult:
    """Save the result of a search in its folder; `final`: train the best settings again as a complete run."""
    done = [trial for trial in trials_that_count(study) if trial.state.is_finished()]
    best = best_of(done, search)
    if best is None:
        why = f": {done[-1].user_attrs[OUTCOME]['why']}" if done else ""
        raise RunError(f"no trial has a score{why}")
    if running := under_way(study):
        say(f"{len(running)} trials still run elsewhere: the same command shows them when they have ended")
        final = False
    record, primary = record_of(best, search), best.user_attrs[OUTCOME]["primary"]
    settings = {**search.settings, **record.settings}
    among = f"the best of {len(done)} trials (so it is optimistic)" if len(done) > 1 else "the only trial"
    recipe = folder / "recipe.yaml"
    write_recipe(recipe, settings, f"{titled(primary)} {best.value:.4f} on validation, {among}")
    run = _train_best(study, folder, settings, listen) if final else None
    card = {} if run is None else run.card()
    start = best_of([trial for trial in done if START in trial.user_attrs], search)
    result = TuneResult(
        out=str(folder),
        search=search,
        model=record.settings["model"],
        primary=primary,
        trials=[record_of(trial, search) for trial in done],
        best=record,
        start=None if start is None else record_of(start, search),
        settings=settings,
        importance=importance(study, search),
        recipe=str(recipe),
        run=None if run is None else str(run.path),
        validation=card.get("validation"),
        test=card.get("test"),
        looks=int(study.user_attrs.get(EVALUATIONS, 0)),
    )
    result.save(folder)
    return result


def write_recipe(path: Path, settings: dict[str, Any], score: str) -> None:
    """Write the settings of the best trial by section, for `train --config`."""
    flat = flatten(settings)
    sections = {
        section: {key.split(".")[1]: value for key, value in flat.items() if key.startswith(f"{section}.")}
        for section in SECTIONS
    }
    recipe = {"task": flat["task"], **{section: part for section, part in sections.items() if part}}
    data = f"{Path(settings['data.path']).name} " if "data.path" in settings else ""
    head = f"# {score}\n# glassformer train {data}--config {path.name}\n"
    write_text(path, head + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))


def _train_best(study: "optuna.Study", folder: Path, settings: dict[str, Any], listen: Listener) -> Run:
    """Train the best settings as a complete run, the only one that is scored on the test part."""
    path, mark = folder / "best", folder / ".best.json"
    if (path / "glassformer.json").is_file() and mark.is_file() and read_json(mark) == settings:
        return Run.open(path)
    say(f"training the best settings as a complete run: {path}")
    mark.unlink(missing_ok=True)
    trained = train(out=path, overwrite=True, listen=listen, **settings)
    if trained.reason == "interrupted":
        raise KeyboardInterrupt
    if trained.test is not None:
        study.set_user_attr(EVALUATIONS, int(study.user_attrs.get(EVALUATIONS, 0)) + 1)
    write_json(mark, settings)
    return Run.open(path)
