"""A comparison: outcomes of many trainings put together, as a table, in words, as pictures, as files."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from glassformer.rendering.view import View
from glassformer.runs.files import write_json, write_text, writing
from glassformer.statistics.paired import Difference
from glassformer.trials.outcome import FLOOR, KINDS, TRAINED, Outcome
from glassformer.trials.results.chance import beyond, compared
from glassformer.trials.results.metrics import titled, unit_of
from glassformer.trials.results.modes import in_order, parts_left_out, verdict_of
from glassformer.trials.results.rounding import amount, decimals_of, rounded
from glassformer.trials.results.rows import Row, rows_of
from glassformer.trials.results.shown import view_of
from glassformer.trials.results.written import as_csv, as_markdown, as_text
from glassformer.trials.running.question import ABLATION, LADDER
from glassformer.trials.strict import strict

STEPS = "training.steps"
BEST, LEVEL, USE = "best", "within chance", "recommended"
FILE = "comparison"
PLUS_MINUS = "±, or from and to where both sides differ"


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Which model is how good on the same examples, for what cost, and what follows from it."""

    title: str
    budget: str
    """How long each was trained, in words."""
    mode: str
    rows: Sequence[Row]
    """From best to worst, or along a number that is varied; what failed, last."""
    behind: Sequence[Difference | None]
    """Of each row: by how much the best is better, or with parts left out the whole; None: not to be told."""
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

    def to_dict(self) -> dict[str, Any]:
        """Everything, for programs; null where a number is not known, or an interval has no end."""
        rows = [
            {**row.to_dict(), "behind": None if found is None else asdict(found)}
            for row, found in zip(self.rows, self.behind, strict=True)
        ]
        first = next((row for row in self.rows if row.outcomes), None)
        return strict(
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
        done = [row for row in self.rows if row.outcomes]
        leader = min((row for row in done if row.is_trained), key=lambda row: row.rank, default=None)
        if leader is None:
            return None
        found = {row.label: compared(leader, row) for row in done if row is not leader}
        against = {label: None if one is None else asdict(one) for label, one in found.items()}
        return {"model": leader.label, "against": against}

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
    """`budget`: how long each was trained, in words; `mode`: what the comparison varies; `notes`: what else to know."""
    ranked = rows_of(outcomes)
    found, rows = verdict_of(ranked, mode), in_order(ranked, mode)
    reference = parts_left_out(rows)[0] if mode == ABLATION else found.best
    behind = [None if reference is None or row is reference or row.seen else compared(reference, row) for row in rows]
    marked = [
        replace(row, marks=_marks(row, one, row is found.best and mode != ABLATION, row is found.recommended, mode))
        for row, one in zip(rows, behind, strict=True)
    ]
    said = [*_notes(rows, behind, mode), *notes]
    title = title[:1].upper() + title[1:]
    return Comparison(title=title, budget=budget, mode=mode, rows=marked, behind=behind, words=found.words, notes=said)


def _marks(row: Row, behind: Difference | None, best: bool, chosen: bool, mode: str) -> list[str]:
    marks = [BEST] if best else []
    if behind is not None and not beyond(behind) and mode != ABLATION:
        marks.append(LEVEL)
    marks += [USE] if chosen else []
    marks += [KINDS[row.kind]] if row.kind != TRAINED else []
    if row.learned is not None and row.learned < row.parameters:
        marks.append(f"{amount(row.learned)} parameters learned")
    marks += [f"{len(row.outcomes)} {row.repeats} alike"] if row.alike else []
    few, many = row.updates
    asked = {outcome.cell.settings.get(STEPS) for outcome in row.outcomes}
    wanted = next(iter(asked)) if len(asked) == 1 else None
    if row.is_trained and isinstance(wanted, int) and few < wanted:
        marks.append(f"stopped after {few:,} of {wanted:,} updates")
    elif row.is_trained and few < many:
        marks.append(f"{few:,} to {many:,} updates")
    if row.errors and row.outcomes:
        marks.append(f"{len(row.errors)} of {len(row.errors) + len(row.outcomes)} {row.repeats} failed")
    elif row.errors:
        marks.append("failed")
    marks += dict.fromkeys(outcome.note for outcome in row.outcomes if outcome.note)
    return marks


def _notes(rows: Sequence[Row], behind: Sequence[Difference | None], mode: str) -> list[str]:
    done = [row for row in rows if row.outcomes]
    if not done:
        return []
    first = done[0]
    outcome = first.outcomes[0]
    better = "the lower, the better" if first.lower else "the higher, the better"
    sizes = sorted({len(one.scores) for row in done for one in row.outcomes})
    counted = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    what = "windows of text" if outcome.weights is not None else "examples"
    notes = [f"Score: {titled(first.metric)} on {counted} {what} of the {outcome.part} part; {better}."]
    notes += _uncertainty(done)
    if any(one is not None for one in behind):
        of, unit = "the whole model" if mode == ABLATION else "the best", unit_of(first.metric)
        notes.append(
            f"How far behind {of} ({unit}): on the same examples, each row for itself, with a 95 % interval"
            + (" over examples and seeds." if any(one and one.seeds for one in behind) else " over examples.")
        )
        notes += _power(rows, behind, f"{counted} {what}")
    tokenizers = {one.tokenizer for row in done for one in row.outcomes if one.tokenizer is not None}
    if len(tokenizers) == 1:
        notes.append("One tokenizer for all.")
    elif tokenizers:
        notes.append(
            f"{len(tokenizers)} different tokenizers"
            + (": the loss per token does not compare, bits per byte do." if first.metric == "bits_per_byte" else ".")
        )
    threads = {one.threads for row in done for one in row.outcomes if one.threads}
    if len(threads) > 1:
        notes.append("Trained with different numbers of threads: times do not compare.")
    return notes


def _uncertainty(done: Sequence[Row]) -> list[str]:
    """What ± means here."""
    seeds = max(len(row.outcomes) for row in done)
    if all(row.interval is None for row in done):
        return []
    if seeds > 1:
        what = next(row.repeats for row in done if len(row.outcomes) == seeds)
        folds = "; folds share what they learn from, so it is somewhat too narrow" if what == "folds" else ""
        return [
            f"{PLUS_MINUS}: a 95 % interval of the mean over {seeds} {what} (Student's t){folds}.",
            f"± is over {what} alone, how far behind is paired on the same examples too: the two need not agree.",
        ]
    return [f"{PLUS_MINUS}: a 95 % interval over the examples; one seed, so the chance of training is not in it."]


def _power(rows: Sequence[Row], behind: Sequence[Difference | None], counted: str) -> list[str]:
    """How small a difference between models could be seen: half of the interval in the middle."""
    pairs = [(row, one) for row, one in zip(rows, behind, strict=True) if one is not None and row.kind != FLOOR]
    halves = [(one.high - one.low) / 2 for _, one in pairs if math.isfinite(one.high - one.low) and one.high > one.low]
    if not halves:
        return []
    half, row = median(halves), pairs[0][0]
    seeds = max(len(row.outcomes) for row, _ in pairs)
    again = f" and {seeds} {row.repeats}" if seeds > 1 else ""
    told = rounded(half, decimals_of(half))
    return [f"With {counted}{again}, a difference below about {told} {unit_of(row.metric)} can hardly be seen."]
