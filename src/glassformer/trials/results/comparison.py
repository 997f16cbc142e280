"""A comparison: outcomes of many trainings put together, as a table, in words, as pictures, as files."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config.units import duration, size
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.takeaways import listed
from glassformer.rendering.view import View
from glassformer.runs.files import write_json, write_text
from glassformer.runs.folders import writing
from glassformer.text.escaping import markdown, spreadsheet_cell
from glassformer.trials.jobs import Outcome, json_safe
from glassformer.trials.results.metrics import MEANS, amount, from_to, rounded, sentence, titled
from glassformer.trials.results.modes import in_order, parts_left_out, verdict_of, with_all_data
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.panels import against_cost, learning_curves, panels_of_mode, row_colours
from glassformer.trials.results.remarks import BEST, FALLING, USE, marks_of, notes_of
from glassformer.trials.results.rows import Row, best_rows, compare_rows, rows_of
from glassformer.trials.running.candidates import MASK
from glassformer.trials.running.question import ABLATION, LADDER

FILE = "comparison"
TEXT_COLUMNS = ("model", "remarks")
"""Columns that hold no numbers."""
UNBROKEN = "\u00a0"
"""A space at which no line ends."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Which model is how good on the same examples, for what cost, and what follows from it; and how it is shown."""

    title: str
    budget: str
    """How long each was trained, in words."""
    mode: str
    rows: Sequence[Row]
    """The rows from best to worst, or along a number that is varied; what failed, last."""
    words: Sequence[str]
    """What it says, a sentence or two each."""
    notes: Sequence[str]
    """How the numbers came about."""

    @property
    def behind(self) -> list[Lead | None]:
        """How much better than each row the best is, or with parts left out the whole; None if not comparable."""
        return [row.behind for row in self.rows]

    @property
    def best(self) -> Row | None:
        return self._marked(BEST)

    @property
    def recommended(self) -> Row | None:
        """The best, or one within chance of it that trains much faster; None: nothing beats a floor."""
        return self._marked(USE)

    def _marked(self, mark: str) -> Row | None:
        return next((row for row in self.rows if mark in row.marks), None)

    @property
    def done(self) -> list[Row]:
        """The rows that came to something."""
        return [row for row in self.rows if row.outcomes]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for programs; null where a number is not known, or an interval has no end."""
        first = next(iter(self.done), None)
        return json_safe(
            {
                "title": self.title,
                "budget": self.budget,
                "mode": self.mode,
                "metric": first.metric if first else None,
                "lower_is_better": first.lower if first else None,
                "part": first.outcomes[0].part if first else None,
                "best": self.best.label if self.best else None,
                "recommended": self.recommended.label if self.recommended else None,
                "words": list(self.words),
                "notes": list(self.notes),
                "rows": [row.to_dict() for row in self.rows],
            }
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The table as it is read: its columns, without those that are empty in every row, and its rows."""
        rows = [self._cells(row) for row in self.rows]
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        return names, [[row[name] for name in names] for row in rows]

    def _cells(self, row: Row) -> dict[str, str]:
        """A row's numbers by the heading of their column, as far as they are known."""
        first, reference = next(iter(self.done), row), "whole" if self.mode == ABLATION else "best"
        primary, behind = first.outcomes[0].primary if first.outcomes else "", row.behind
        # of the whole part, where rows are ranked by a mean of its examples instead
        is_mean = bool(row.outcomes) and row.metric == MEANS.get(primary)
        few, many = row.updates
        return {
            "model": f"{row.label} {FALLING}" if row.undertrained else row.label,
            titled(first.metric) if first.outcomes else "score": row.score_with_interval if row.outcomes else "",
            f"{titled(primary)} of all": rounded(row.metrics[primary], row.decimals) if is_mean else "",
            f"behind the {reference}": "" if behind is None else from_to(behind.value, behind.low, behind.high),
            "remarks": ", ".join(row.marks),
            "parameters": amount(row.parameters) if row.parameters else "",
            "training": row.took if row.outcomes and row.seconds else "",
            "one example": duration(row.per_example),
            "memory": "" if row.memory is None else size(row.memory),
            "updates": "" if not many else f"{many:,}" if few == many else f"{few:,}–{many:,}",
        }

    def csv(self) -> str:
        """Return the numbers of `to_dict` as a table, a line for each row; the values of lists stand in one cell."""
        rows = [_flat(row.to_dict()) for row in self.rows]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        lines: list[list[Any]] = [columns, *([row.get(name) for name in columns] for row in rows)]
        writer.writerows(map(spreadsheet_cell, line) for line in lines)
        return out.getvalue()

    def markdown(self) -> str:
        """A table for a report, and what it says."""
        names, rows = self.table()
        lines = [f"## {markdown(self.title)}", ""]
        lines += [f"Trained for {self.budget}.", ""] if self.budget else []
        under = ["---" if name in TEXT_COLUMNS else "---:" for name in names]
        lines += [_line(cells) for cells in (names, under, *rows)]
        lines += ["", *(f"- {markdown(word)}" for word in self.words)]
        lines += ["", *(f"_{markdown(note)}_  " for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def view(self) -> View:
        """Everything on one page."""
        names, rows = self.table()
        whole = [
            [
                cell if name in TEXT_COLUMNS else cell.replace(" ", UNBROKEN).replace(f"{UNBROKEN}(", " (")
                for name, cell in zip(names, row, strict=True)
            ]
            for row in rows
        ]
        competing = sorted(with_all_data(self.rows), key=lambda row: row.table_order)
        colours = row_colours(self.rows, competing)
        spots = [colours.get(row.label) for row in self.rows]
        panels: list[Panel] = [
            Words(title="What it says", text="\n\n".join(self.words)),
            Table(
                title="Side by side",
                takeaway=_headline(self.rows, self.mode),
                columns=names,
                rows=whole,
                colours=spots,
                note=" ".join(self.notes),
            ),
            *panels_of_mode(self.rows, self.mode, colours),
            *against_cost(competing, colours),
            *learning_curves(competing, colours),
        ]
        return View(self.title, panels, f"Trained for {self.budget}." if self.budget else "")

    def save(self, folder: str | Path) -> None:
        """comparison.json, .csv, .md and .html in a folder."""
        folder = Path(folder)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{FILE}.json", self.to_dict())
        write_text(folder / f"{FILE}.csv", self.csv())
        write_text(folder / f"{FILE}.md", self.markdown())
        self.view().save(folder / f"{FILE}.html")

    def __repr__(self) -> str:
        """The table as text, and what it says."""
        names, rows = self.table()
        table = [names, *rows]
        wide = [max(len(row[place]) for row in table) for place in range(len(names))]
        lines = [
            "  ".join(
                cell.ljust(width) if name in TEXT_COLUMNS else cell.rjust(width)
                for name, cell, width in zip(names, row, wide, strict=True)
            ).rstrip()
            for row in table
        ]
        return "\n".join([self.title, "", *lines, "", *self.words])

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()


def _headline(rows: Sequence[Row], mode: str) -> str:
    """Name the row with the best score among the ranked rows of the table."""
    judged = [row for row in rows if row.is_judged and row.varied.get(MASK) is not False and math.isfinite(row.score)]
    if mode == ABLATION and parts_left_out(rows)[0] is None:
        return sentence("no whole")
    if not any(row.is_trained for row in judged):
        return sentence("takeaway no model")
    best = best_rows(judged)
    return sentence(
        "takeaway best",
        names=listed([row.label for row in best]),
        score="scores" if len(best) == 1 else "score",
        among=sentence("among ranked") if any(row.outcomes and row not in judged for row in rows) else "",
        metric=titled(best[0].metric),
        value=best[0].score_text,
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without nested values: `metrics` becomes metrics_accuracy and so on, a list a text."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{key}": inner for key, inner in value.items()}
        else:
            flat[name] = "; ".join(map(str, value)) if isinstance(value, list) else value
    return flat


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(markdown, cells)) + " |"


def summarise(
    outcomes: Sequence[Outcome], *, title: str, budget: str, mode: str = LADDER, notes: Sequence[str] = ()
) -> Comparison:
    """The comparison that outcomes make. `budget`: how long each was trained, in words; `mode`: what the comparison
    varies; `notes`: what else to know.
    """
    ranked = rows_of(outcomes)
    verdict, rows = verdict_of(ranked, mode), in_order(ranked, mode)
    reference = parts_left_out(rows)[0] if mode == ABLATION else verdict.best
    marked = []
    for row in rows:
        best, chosen = row is verdict.best and mode != ABLATION, row is verdict.recommended
        if reference is not None and row is not reference and row.is_judged:
            row = replace(row, behind=compare_rows(reference, row))
        marked.append(replace(row, marks=marks_of(row, best=best, chosen=chosen, mode=mode)))
    return Comparison(
        title=title[:1].upper() + title[1:],
        budget=budget,
        mode=mode,
        rows=marked,
        words=verdict.words,
        notes=[*notes_of(marked, mode), *notes],
    )
