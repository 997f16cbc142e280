"""A comparison: outcomes of many training runs as a table, sentences, pictures and files."""

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
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.panels import against_cost, learning_curves, panels_of_mode, row_colours
from glassformer.trials.results.rows import Row, best_rows, compare_rows, rows_of
from glassformer.trials.results.verdict import (
    BEST,
    RECOMMENDED,
    UNDERTRAINED_SIGN,
    Ablation,
    in_order,
    notes_of,
    remarks_on,
    verdict_of,
    with_all_data,
)
from glassformer.trials.running.candidates import MASK
from glassformer.trials.running.question import ABLATION, LADDER

FILE = "comparison"
TEXT_COLUMNS = ("model", "remarks")
NO_BREAK_SPACE = "\u00a0"


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Models scored on the same examples: their scores, their cost, and the recommended model."""

    title: str
    budget: str
    """Budget of each training run, as a phrase."""
    mode: str
    rows: Sequence[Row]
    """The rows from best to worst, or along a number that is varied; failed rows last."""
    words: Sequence[str]
    """The verdict, one or two sentences each."""
    notes: Sequence[str]
    """Notes on how the numbers were computed."""

    @property
    def behind(self) -> list[Lead | None]:
        """Lead of the best row (in an ablation: of the whole model) over each row; None if not comparable."""
        return [row.behind for row in self.rows]

    @property
    def best(self) -> Row | None:
        return self._marked(BEST)

    @property
    def recommended(self) -> Row | None:
        """The best model, or a faster one that is not significantly worse; None if no model beats the baselines."""
        return self._marked(RECOMMENDED)

    def _marked(self, mark: str) -> Row | None:
        return next((row for row in self.rows if mark in row.marks), None)

    @property
    def _first(self) -> Row | None:
        """The first row with an outcome."""
        return next((row for row in self.rows if row.outcomes), None)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields for JSON; null for unknown numbers and for intervals without an end."""
        first, best, recommended = self._first, self.best, self.recommended
        return json_safe(
            {
                "title": self.title,
                "budget": self.budget,
                "mode": self.mode,
                "metric": first.metric if first else None,
                "lower_is_better": first.lower if first else None,
                "part": first.outcomes[0].part if first else None,
                "best": best.label if best else None,
                "recommended": recommended.label if recommended else None,
                "words": list(self.words),
                "notes": list(self.notes),
                "rows": [row.to_dict() for row in self.rows],
            }
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the names of the columns that are not empty in every row, and the texts of each row."""
        rows = [self._cells(row) for row in self.rows]
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        return names, [[row[name] for name in names] for row in rows]

    def _cells(self, row: Row) -> dict[str, str]:
        """Return the texts of a row by column; empty for unknown numbers."""
        first, reference = self._first or row, "whole" if self.mode == ABLATION else "best"
        primary, behind = first.outcomes[0].primary if first.outcomes else "", row.behind
        # the metric of the whole part, if rows are ranked by a mean over its examples instead
        is_mean = bool(row.outcomes) and row.metric == MEANS.get(primary)
        few, many = row.updates
        return {
            "model": f"{row.label} {UNDERTRAINED_SIGN}" if row.undertrained else row.label,
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
        """Return the numbers of `to_dict` as a table, one line per row; the values of a list share a cell."""
        rows = [_flat(row.to_dict()) for row in self.rows]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        out = io.StringIO()
        lines: list[list[Any]] = [columns, *([row.get(name) for name in columns] for row in rows)]
        csv.writer(out, lineterminator="\n").writerows(map(spreadsheet_cell, line) for line in lines)
        return out.getvalue()

    def markdown(self) -> str:
        """Return the table and the verdict for a report."""
        names, rows = self.table()
        lines = [f"## {markdown(self.title)}", ""]
        lines += [f"Trained for {self.budget}.", ""] if self.budget else []
        under = ["---" if name in TEXT_COLUMNS else "---:" for name in names]
        lines += [_line(cells) for cells in (names, under, *rows)]
        lines += ["", *(f"- {markdown(word)}" for word in self.words)]
        lines += ["", *(f"_{markdown(note)}_  " for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def view(self) -> View:
        """Return a page with everything."""
        names, rows = self.table()
        unbroken = [
            [
                cell if name in TEXT_COLUMNS else cell.replace(" ", NO_BREAK_SPACE).replace(f"{NO_BREAK_SPACE}(", " (")
                for name, cell in zip(names, row, strict=True)
            ]
            for row in rows
        ]
        competing = sorted(with_all_data(self.rows), key=lambda row: row.table_order)
        colours = row_colours(self.rows, competing)
        panels: list[Panel] = [
            Words(title="What it says", text="\n\n".join(self.words)),
            Table(
                title="Side by side",
                takeaway=_headline(self.rows, self.mode),
                columns=names,
                rows=unbroken,
                colours=[colours.get(row.label) for row in self.rows],
                note=" ".join(self.notes),
            ),
            *panels_of_mode(self.rows, self.mode, colours),
            *against_cost(competing, colours),
            *learning_curves(competing, colours),
        ]
        return View(self.title, panels, f"Trained for {self.budget}." if self.budget else "")

    def save(self, folder: str | Path) -> None:
        """Write comparison.json, .csv, .md and .html to a folder."""
        folder = Path(folder)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{FILE}.json", self.to_dict())
        write_text(folder / f"{FILE}.csv", self.csv())
        write_text(folder / f"{FILE}.md", self.markdown())
        self.view().save(folder / f"{FILE}.html")

    def __repr__(self) -> str:
        """Return the table and the verdict as text."""
        names, rows = self.table()
        columns = [
            [cell.ljust(width) if name in TEXT_COLUMNS else cell.rjust(width) for cell in (name, *column)]
            for name, *column in zip(names, *rows, strict=True)
            for width in [max(map(len, (name, *column)))]
        ]
        lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
        return "\n".join([self.title, "", *lines, "", *self.words])

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()


def _headline(rows: Sequence[Row], mode: str) -> str:
    """Name the row with the best score among the ranked rows of the table."""
    ranked = [row for row in rows if row.is_ranked and row.varied.get(MASK) is not False and math.isfinite(row.score)]
    if mode == ABLATION and Ablation.of(rows).whole is None:
        return sentence("no whole")
    if not any(row.is_trained for row in ranked):
        return sentence("takeaway no model")
    best = best_rows(ranked)
    return sentence(
        "takeaway best",
        names=listed([row.label for row in best]),
        score="scores" if len(best) == 1 else "score",
        among=sentence("among ranked") if any(row.outcomes and row not in ranked for row in rows) else "",
        metric=titled(best[0].metric),
        value=best[0].score_text,
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without nested values: `metrics` becomes metrics_accuracy and so on, a list becomes a text."""
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
    """Return the comparison of these outcomes.

    `budget`: budget of each training run, as a phrase; `mode`: what the comparison varies; `notes`: further notes.
    """
    ranked = rows_of(outcomes)
    verdict, rows = verdict_of(ranked, mode), in_order(ranked, mode)
    reference = Ablation.of(rows).whole if mode == ABLATION else verdict.best
    marked = []
    for row in rows:
        best, recommended = row is verdict.best and mode != ABLATION, row is verdict.recommended
        if reference is not None and row is not reference and row.is_ranked:
            row = replace(row, behind=compare_rows(reference, row))
        marked.append(replace(row, marks=remarks_on(row, best=best, recommended=recommended, mode=mode)))
    return Comparison(
        title=title[:1].upper() + title[1:],
        budget=budget,
        mode=mode,
        rows=marked,
        words=verdict.words,
        notes=[*notes_of(marked, mode), *notes],
    )
