"""A comparison: outcomes of many trainings put together, as a table, in words, as pictures, as files."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config.units import duration
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.takeaways import leaders, listed
from glassformer.rendering.view import View
from glassformer.runs.files import write_json, write_text
from glassformer.runs.folders import writing
from glassformer.statistics.significance import Difference
from glassformer.text.escaping import markdown, spreadsheet_cell
from glassformer.trials.outcome import Outcome, json_safe
from glassformer.trials.results.metrics import MEANS, QUALITY, amount, from_to, memory, rounded, titled
from glassformer.trials.results.modes import in_order, parts_left_out, verdict_of, with_all_data
from glassformer.trials.results.panels import (
    NO_MODEL,
    against_cost,
    each_seed,
    learning_curves,
    panels_of_mode,
    row_colours,
)
from glassformer.trials.results.remarks import BEST, FALLING, USE, marks_of, notes_of
from glassformer.trials.results.rows import Row, compare_rows, rows_of
from glassformer.trials.running.candidates import MASK
from glassformer.trials.running.question import ABLATION, LADDER

FILE = "comparison"
TEXT_COLUMNS = ("model", "remarks")
"""Columns that hold no numbers."""
HEADLINES = {
    "best": "{names} {score} best{among}: {metric} {value}",
    "undertrained": " among the rows trained to the end",
    "seen": " among the rows that did not learn from these examples",
    "unmasked": " among the rows that cannot read the answer",
    "several reasons": " among the ranked rows",
    "no whole model": "The whole model was not trained to the end",
}
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
    behind: Sequence[Difference | None]
    """How much better than each row the best is, or with parts left out the whole; None: not to be told."""
    words: Sequence[str]
    """What it says, a sentence or two each."""
    notes: Sequence[str]
    """How the numbers came about."""

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
        rows = [
            {**row.to_dict(), "behind": None if behind is None else asdict(behind)}
            for row, behind in zip(self.rows, self.behind, strict=True)
        ]
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
                "leader": self._leader(),
                "words": list(self.words),
                "notes": list(self.notes),
                "rows": rows,
            }
        )

    def _leader(self) -> dict[str, Any] | None:
        """The best of the trained models, against every other row: by how much it is better."""
        leader = min(
            (row for row in self.done if row.is_trained and row.is_judged), key=lambda row: row.rank, default=None
        )
        if leader is None:
            return None
        others = [row for row in self.done if row is not leader and not row.undertrained]
        leads = {row.label: compare_rows(leader, row) for row in others}
        against = {label: None if lead is None else asdict(lead) for label, lead in leads.items()}
        return {"model": leader.label, "against": against}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The table as it is read: its columns, without those that are empty in every row, and its rows."""
        first = next(iter(self.done), None)
        names = [
            "model",
            titled(first.metric) if first else "score",
            f"{titled(first.outcomes[0].primary)} of all" if first else "",
            f"behind the {'whole' if self.mode == ABLATION else 'best'}",
            "remarks",
            "parameters",
            "training",
            "one example",
            "memory",
            "updates",
        ]
        rows = [_cells(row, behind) for row, behind in zip(self.rows, self.behind, strict=True)]
        filled = [place for place in range(len(names)) if any(row[place] for row in rows)]
        return [names[place] for place in filled], [[row[place] for place in filled] for row in rows]

    def csv(self) -> str:
        """A line for each row, plain numbers."""
        keys = list(dict.fromkeys(key for row in self.rows for key in row.varied))
        there = {name for row in self.rows for name in row.metrics}
        rows = [
            {
                "name": row.name,
                "kind": row.kind,
                **{key: row.varied.get(key) for key in keys},
                "score": row.score if row.outcomes else None,
                "low": row.interval.low if row.interval else None,
                "high": row.interval.high if row.interval else None,
                "seeds": len(row.outcomes),
                "failed": 0 if row.skipped else len(row.errors),
                "behind": behind.value if behind else None,
                "behind_low": behind.low if behind else None,
                "behind_high": behind.high if behind else None,
                "p": behind.p if behind else None,
                "parameters": row.parameters if row.outcomes else None,
                "learned": row.learned,
                "seconds": row.seconds if row.outcomes else None,
                "seconds_per_example": row.per_example,
                "memory": row.memory,
                "updates": row.updates[1] if row.outcomes else None,
                **{f"mean_{name}": row.metrics.get(name) for name in QUALITY if name in there},
                "remarks": "; ".join(row.marks),
            }
            for row, behind in zip(self.rows, self.behind, strict=True)
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows(map(spreadsheet_cell, row) for row in (rows[0], *(row.values() for row in rows)))
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
            *each_seed(self.done, colours),
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
    """Name the row with the best score among the ranked rows of the table, and say which rows are not ranked."""
    unmasked = [row for row in rows if row.varied.get(MASK) is False]
    judged = [row for row in rows if row.is_judged and row not in unmasked and math.isfinite(row.score)]
    if mode == ABLATION and parts_left_out(rows)[0] is None:
        return HEADLINES["no whole model"]
    if not any(row.is_trained for row in judged):
        return NO_MODEL
    unranked = {
        "undertrained": any(row.undertrained for row in rows),
        "seen": any(row.seen for row in rows),
        "unmasked": bool(unmasked),
    }
    reasons = [HEADLINES[reason] for reason, there in unranked.items() if there]
    best = [judged[at] for at in leaders([-row.score if row.lower else row.score for row in judged])]
    return HEADLINES["best"].format(
        names=listed([row.label for row in best]),
        score="scores" if len(best) == 1 else "score",
        among="".join(reasons) if len(reasons) < 2 else HEADLINES["several reasons"],
        metric=titled(best[0].metric),
        value=rounded(best[0].score, best[0].decimals),
    )


def _cells(row: Row, behind: Difference | None) -> list[str]:
    """A row's numbers as far as they are known."""
    remarks = ", ".join(row.marks)
    if not row.outcomes:
        return [row.label, "", "", "", remarks, *[""] * 5]
    few, many = row.updates
    primary = row.outcomes[0].primary
    return [
        f"{row.label} {FALLING}" if row.undertrained else row.label,
        row.score_with_interval,
        # of the whole part, where rows are ranked by a mean of its examples instead
        rounded(row.metrics[primary], row.decimals) if row.metric == MEANS.get(primary) else "",
        "" if behind is None else from_to(behind.value, behind.low, behind.high),
        remarks,
        amount(row.parameters) if row.parameters else "",
        duration(row.seconds) if row.seconds else "",
        duration(row.per_example),
        memory(row.memory),
        "" if not many else f"{many:,}" if few == many else f"{few:,}–{many:,}",
    ]


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
    behind = [
        None if reference is None or row is reference or not row.is_judged else compare_rows(reference, row)
        for row in rows
    ]
    marked = [
        replace(
            row, marks=marks_of(row, lead, row is verdict.best and mode != ABLATION, row is verdict.recommended, mode)
        )
        for row, lead in zip(rows, behind, strict=True)
    ]
    return Comparison(
        title=title[:1].upper() + title[1:],
        budget=budget,
        mode=mode,
        rows=marked,
        behind=behind,
        words=verdict.words,
        notes=[*notes_of(rows, behind, mode), *notes],
    )
