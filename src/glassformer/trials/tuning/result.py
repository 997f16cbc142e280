"""What a search came to: the best settings, what it tried, and which settings mattered."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.rendering.panels import Line, Lines, Panel, Points, Table, Words
from glassformer.rendering.view import View
from glassformer.runs.files import write_json
from glassformer.trials.results.metrics import titled
from glassformer.trials.tuning.space import Dimension
from glassformer.trials.tuning.tried import Tried, said

Rows = list[list[str | float | int | None]]

SHOWN = 40
"""Trials in the table of a page."""
DRAWN = 8
"""Settings whose values are drawn, the most important first."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Tuned:
    """A search that has ended."""

    out: str
    task: str
    model: str
    """The best one."""
    primary: str
    lower_is_better: bool
    trials: list[Tried]
    best: Tried
    start: Tried | None
    """The best of those with nothing searched."""
    settings: dict[str, Any]
    """Of the best trial, given and searched, by dotted key: what `train` takes."""
    space: list[Dimension] = field(repr=False)
    """Of the best model."""
    mattered: dict[str, float]
    recipe: str
    seeds: int = 1
    folds: int | None = None
    run: str | None = None
    """The best, trained once more as a whole run."""
    validation: dict[str, float] | None = None
    """Of that run."""
    test: dict[str, float] | None = None
    looks: int = 0
    """How often this search has looked at the test part."""

    def _rank(self, one: Tried) -> float:
        assert one.value is not None
        return one.value if self.lower_is_better else -one.value

    def _order(self, one: Tried) -> tuple[bool, bool, float]:
        """The best first, then those that are not whole."""
        return one.state != "complete", one.value is None, 0.0 if one.value is None else self._rank(one)

    @property
    def words(self) -> str:
        """In a few sentences."""
        whole = sum(one.state == "complete" for one in self.trials)
        early = sum(one.state == "pruned" for one in self.trials)
        failed = len(self.trials) - whole - early
        count = f"{len(self.trials)} trial{'s' * (len(self.trials) != 1)}" + (
            f", {early} of them stopped early" if early else ""
        )
        count += f", {failed} failed" if failed else ""
        over = f"{self.folds} folds" if self.folds else f"{self.seeds} seeds" if self.seeds > 1 else ""
        mean = f" (mean over {over})" if over else ""
        out = (
            f"{count}. Best on validation: {titled(self.primary)} {self.best.value:.4f}{mean}, trial {self.best.number}"
        )
        if self.start is not None and self.start.number != self.best.number:
            out += f"; with settings as they start {self.start.value:.4f}"
        return f"{out}. {self.optimism}".rstrip()

    @property
    def optimism(self) -> str:
        """What the best of many scores is worth."""
        again = "" if self.looks <= 1 else f" (look {self.looks} at it)"
        test = "" if self.test is None else f"Test{again}: {titled(self.primary)} {self.test[self.primary]:.4f}."
        count = sum(one.state == "complete" for one in self.trials)
        if count < 2:  # nothing was chosen
            return test
        out = f"The best of {count} validation scores is optimistic: it was chosen by that number"
        if test:
            return f"{out}. {test}"
        if self.run is None:
            return f"{out}."
        return f"{out}, and there is no test part to say how much (--test FILE or --data.test_fraction 0.1)."

    def to_dict(self) -> dict[str, Any]:
        out = {key: value for key, value in asdict(self).items() if key != "space"}
        return {**out, "words": self.words, "space": {one.name: one.to_plain() for one in self.space}}

    def save(self, folder: str | Path) -> None:
        """tune.html and tune.json."""
        folder = Path(folder)
        self.view().save(folder / "tune.html")
        write_json(folder / "tune.json", self.to_dict())

    def __repr__(self) -> str:
        """What it says, which settings mattered, and the best ones."""
        lines = [f"  {share:4.0%}  {name}" for name, share in list(self.mattered.items())[:5]]
        best = {key: value for key, value in self.best.settings.items() if key != "model"}
        lines += [f"  {key}: {said(value)}" for key, value in {"model": self.model, **best}.items()]
        return "\n".join([self.words, *lines, self.recipe])

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    # --- as a page ---

    def view(self) -> View:
        panels: list[Panel] = [self._best(), self._importance(), self._progress(), *self._by_model()]
        panels += [*self._by_setting(), self._trials()]
        command = f"glassformer train {self.settings.get('data.path', '')} --config {self.recipe}".replace("  ", " ")
        panels.append(Words(title="Train it again", text=command, code=True))
        return View(f"Settings for {self.model}", panels, self.words, about=Path(self.out).name)

    def _best(self) -> Table:
        searched = self.best.settings
        rows: Rows = [
            [key, said(value), "searched" if key in searched else "given"] for key, value in self.settings.items()
        ]
        return Table(title="The best settings", columns=["setting", "value", ""], rows=rows)

    def _importance(self) -> Panel:
        title = "Which settings mattered"
        if not self.mattered:
            return Words(title=title, text="Too few trials were trained to the end to say.")
        rows: Rows = [[name, share] for name, share in self.mattered.items()]
        note = (
            f"How far the values of the best quarter of {self.model}'s trials stand from those of all of them, as a "
            "share (PED-ANOVA). Settings that only some trials have are left out; with few trials, small shares are "
            "chance."
        )
        return Table(title=title, columns=["setting", "share"], rows=rows, bars=["share"], note=note)

    def _progress(self) -> Lines:
        whole = [one for one in self.trials if one.state == "complete" and one.value is not None]
        values = [one.value for one in whole if one.value is not None]
        best = np.minimum.accumulate(values) if self.lower_is_better else np.maximum.accumulate(values)
        numbers = [float(one.number) for one in whole]
        return Lines(
            title="Score by trial",
            series=[
                Line(name="best so far", x=numbers, y=[float(value) for value in best]),
                Line(name="each trial", x=numbers, y=values, dots=True, faint=True),
            ],
            x_name="trial",
            y_name=f"validation {titled(self.primary)}",
        )

    def _by_model(self) -> Iterator[Table]:
        whole = [one for one in self.trials if one.state == "complete"]
        models = Dimension("model", values=tuple(dict.fromkeys(one.settings["model"] for one in whole)))
        if len(models.values) > 1:
            yield self._by_choice(models, whole)

    def _by_setting(self) -> Iterator[Panel]:
        """Score against each setting of the best model: points for numbers, a table for names."""
        names = {dimension.name: dimension for dimension in self.space}
        ordered = [*(name for name in self.mattered if name in names), *names]
        for name in list(dict.fromkeys(ordered))[:DRAWN]:
            dimension = names[name]
            shown = [
                one
                for one in self.trials
                if one.state == "complete" and dimension.key in one.settings and one.settings.get("model") == self.model
                and dimension.applies({**self.settings, **one.settings})
            ]  # fmt: skip
            if len({str(one.settings[dimension.key]) for one in shown}) > 1:
                yield self._by_choice(dimension, shown) if dimension.values else self._by_number(dimension, shown)

    def _by_number(self, dimension: Dimension, shown: Sequence[Tried]) -> Points:
        x = [float(one.settings[dimension.key]) for one in shown]
        y = [one.value if one.value is not None else math.nan for one in shown]
        return Points(
            title=dimension.name,
            points=np.array([x, y], float).T,
            labels=[f"trial {one.number}" if one.number == self.best.number else "" for one in shown],
            groups=["best" if one.number == self.best.number else "others" for one in shown],
            x_name=dimension.key,
            log_x=dimension.log,
            y_name=f"validation {titled(self.primary)}",
        )

    def _by_choice(self, dimension: Dimension, shown: Sequence[Tried]) -> Table:
        rows: Rows = []
        for value in dimension.values:
            scores = [one.value for one in shown if one.settings[dimension.key] == value and one.value is not None]
            if scores:
                best = min(scores) if self.lower_is_better else max(scores)
                rows.append([said(value), len(scores), best, float(np.median(scores))])
        return Table(
            title=dimension.name, columns=["value", "trials", f"best {titled(self.primary)}", "median"], rows=rows
        )

    def _trials(self) -> Table:
        ended = sorted(self.trials, key=self._order)
        rows: Rows = [
            [
                str(one.number),
                one.value,
                one.words,
                "" if one.state == "complete" and not one.why else f"{one.state}: {one.why}",
            ]
            for one in ended[:SHOWN]
        ]
        note = "" if len(ended) <= SHOWN else f"The best {SHOWN} of {len(ended)}; all are in tune.json."
        return Table(title="Trials", columns=["trial", titled(self.primary), "what it tried", ""], rows=rows, note=note)
