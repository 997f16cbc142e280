"""What a reader of a comparison's table should know: marks of its rows, and how the numbers came about."""

import math
from collections.abc import Sequence
from statistics import median

from glassformer.statistics.paired import Difference
from glassformer.trials.outcome import FLOOR, KINDS, TRAINED
from glassformer.trials.results.metrics import amount, decimals_of, rounded, titled, unit_of
from glassformer.trials.results.rows import Row, is_better
from glassformer.trials.running.question import ABLATION

BEST, LEVEL, USE = "best", "within chance", "recommended"
STEPS = "training.steps"
PLUS_MINUS = "±, or from and to where both sides differ"


def marks_of(row: Row, behind: Difference | None, best: bool, chosen: bool, mode: str) -> list[str]:
    few, many = row.updates
    failed, done = len(row.errors), len(row.outcomes)
    budgets = {outcome.cell.settings.get(STEPS) for outcome in row.outcomes}
    budget = next(iter(budgets)) if len(budgets) == 1 else None
    stopped = row.is_trained and isinstance(budget, int) and few < budget
    marks = {
        BEST: best,
        LEVEL: behind is not None and not is_better(behind) and mode != ABLATION,
        USE: chosen,
        KINDS[row.kind]: row.kind != TRAINED,
        f"{amount(row.learned)} parameters learned": row.learned is not None and row.learned < row.parameters,
        f"{done} {row.repeats} alike": row.alike,
        f"stopped after {few:,} of {budget or 0:,} updates": stopped,
        f"{few:,} to {many:,} updates": row.is_trained and few < many and not stopped,
        f"{failed} of {failed + done} {row.repeats} failed": failed and done,
        "failed": failed and not done,
        **{outcome.note: bool(outcome.note) for outcome in row.outcomes},
    }
    return [mark for mark, holds in marks.items() if holds]


def notes_of(rows: Sequence[Row], behind: Sequence[Difference | None], mode: str) -> list[str]:
    done = [row for row in rows if row.outcomes]
    if not done:
        return []
    first = done[0]
    outcome = first.outcomes[0]
    better = "the lower, the better" if first.lower else "the higher, the better"
    sizes = sorted({len(outcome.scores) for row in done for outcome in row.outcomes})
    counted = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    what = "windows of text" if outcome.weights is not None else "examples"
    on = f"{counted} {what} of the {outcome.part} part" if sizes[-1] else f"the {outcome.part} part"
    notes = [f"Score: {titled(first.metric)} on {on}; {better}."]
    notes += _uncertainty(done)
    if any(lead is not None for lead in behind):
        of, unit = "the whole model" if mode == ABLATION else "the best", unit_of(first.metric)
        notes.append(
            f"How far behind {of} ({unit}): on the same examples, each row for itself, with a 95 % interval"
            + (" over examples and seeds." if any(lead and lead.seeds for lead in behind) else " over examples.")
        )
        notes += _smallest_difference(rows, behind, f"{counted} {what}")
    several = len({outcome.tokenizer for row in done for outcome in row.outcomes if outcome.tokenizer is not None})
    by_bytes = ": the loss per token does not compare, bits per byte do" if first.metric == "bits_per_byte" else ""
    threads = {outcome.threads for row in done for outcome in row.outcomes if outcome.threads}
    more = {
        "One tokenizer for all.": several == 1,
        f"{several} different tokenizers{by_bytes}.": several > 1,
        "Trained with different numbers of threads: times do not compare.": len(threads) > 1,
    }
    return [*notes, *(note for note, holds in more.items() if holds)]


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


def _smallest_difference(rows: Sequence[Row], behind: Sequence[Difference | None], counted: str) -> list[str]:
    """How small a difference between models could be seen: half of the interval in the middle."""
    pairs = [(row, lead) for row, lead in zip(rows, behind, strict=True) if lead is not None and row.kind != FLOOR]
    halves = [
        (lead.high - lead.low) / 2 for _, lead in pairs if math.isfinite(lead.high - lead.low) and lead.high > lead.low
    ]
    if not halves:
        return []
    half, row = median(halves), pairs[0][0]
    seeds = max(len(row.outcomes) for row, _ in pairs)
    again = f" and {seeds} {row.repeats}" if seeds > 1 else ""
    least = rounded(half, decimals_of(half))
    return [f"With {counted}{again}, a difference below about {least} {unit_of(row.metric)} can hardly be seen."]
