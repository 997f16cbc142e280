"""A comparison: outcomes of many trainings put together, as a table, in words, as pictures, as files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.rendering.view import View
from glassformer.runs.files import write_json, write_text, writing
from glassformer.trials.outcome import Outcome
from glassformer.trials.results.modes import in_order, parts_left_out, verdict_of
from glassformer.trials.results.panels import view_of
from glassformer.trials.results.remarks import marks_of, notes_of
from glassformer.trials.results.rows import rows_of
from glassformer.trials.results.significance import compare_rows
from glassformer.trials.results.summary import Summary
from glassformer.trials.results.tables import as_csv, as_markdown, as_text
from glassformer.trials.running.question import ABLATION, LADDER

FILE = "comparison"


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Summary):
    """Which model is how good on the same examples, for what cost, and what follows from it; and how it is shown."""

    def csv(self) -> str:
        """A line for each row, plain numbers."""
        return as_csv(self)

    def markdown(self) -> str:
        """A table for a report, and what it says."""
        return as_markdown(self)

    def view(self) -> View:
        return view_of(self)

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
        return as_text(self)

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()


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
        None if reference is None or row is reference or row.seen else compare_rows(reference, row) for row in rows
    ]
    marked = [
        replace(
            row, marks=marks_of(row, one, row is verdict.best and mode != ABLATION, row is verdict.recommended, mode)
        )
        for row, one in zip(rows, behind, strict=True)
    ]
    all_notes = [*notes_of(rows, behind, mode), *notes]
    title = title[:1].upper() + title[1:]
    return Comparison(
        title=title, budget=budget, mode=mode, rows=marked, behind=behind, words=verdict.words, notes=all_notes
    )
