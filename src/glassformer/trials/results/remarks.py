"""What a reader of a comparison's table should know: marks of its rows, and how the numbers came about."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

from glassformer.trials.outcome import KINDS, TRAINED
from glassformer.trials.results.metrics import amount, rounded, sentence, titled, unit_of
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.rows import Row, compare_rows
from glassformer.trials.running.question import ABLATION

BEST, LEVEL, USE = "best", "within chance", "recommended"
FALLING, UNDERTRAINED = "↘", "undertrained"
STEPS = "training.steps"


def marks_of(row: Row, behind: Lead | None, best: bool, chosen: bool, mode: str) -> list[str]:
    few, many = row.updates
    failed, done = len(row.errors), len(row.outcomes)
    budgets = {outcome.cell.settings.get(STEPS) for outcome in row.outcomes}
    budget = next(iter(budgets)) if len(budgets) == 1 else None
    stopped = row.is_trained and isinstance(budget, int) and few < budget
    marks = {
        BEST: best,
        LEVEL: behind is not None and not behind.is_better and mode != ABLATION,
        USE: chosen,
        f"{FALLING} {UNDERTRAINED}": row.undertrained,
        KINDS[row.kind]: row.kind != TRAINED,
        f"{amount(row.learned)} parameters learned": row.learned is not None and row.learned < row.parameters,
        f"{done} {row.repeats} alike": row.alike,
        f"stopped after {few:,} of {budget or 0:,} updates": stopped,
        f"{few:,} to {many:,} updates": row.is_trained and few < many and not stopped,
        f"{failed} of {failed + done} {row.repeats} failed": failed and done,
        "skipped": row.skipped,
        "failed": failed and not done and not row.skipped,
        **{outcome.note: bool(outcome.note) for outcome in row.outcomes},
    }
    return [mark for mark, holds in marks.items() if holds]


def notes_of(rows: Sequence[Row], behind: Sequence[Lead | None], mode: str) -> list[str]:
    """Return how the numbers of the table came about."""
    done = [row for row in rows if row.outcomes]
    if not done:
        return []
    first, outcomes = done[0], [outcome for row in done for outcome in row.outcomes]
    part, better = first.outcomes[0].part, "lower" if first.lower else "higher"
    sizes = sorted({len(outcome.scores) for outcome in outcomes})
    what = "windows of text" if first.outcomes[0].weights is not None else "examples"
    examples = f"{sizes[0]:,} {what}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} {what}"
    on = f"{examples} of the {part} part" if sizes[-1] else f"the {part} part"
    notes = [sentence("note score", metric=titled(first.metric), on=on, better=better), *_uncertainty(done)]
    if any(row.undertrained for row in done):
        notes.append(sentence("note undertrained", mark=f"{FALLING} {UNDERTRAINED}"))
    if any(lead is not None for lead in behind):
        seeds = any(lead is not None and lead.seeds and row.is_trained for row, lead in zip(rows, behind, strict=True))
        together = sentence("note all pairs", rows=first.pairs.rows) if first.pairs.rows > 2 else ""
        reference = "the whole model" if mode == ABLATION else "the best"
        notes.append(
            sentence(
                "note behind",
                reference=reference,
                unit=unit_of(first.metric),
                seeds=" and seeds" if seeds else "",
                together=together,
            )
        )
        notes += _smallest_difference(done, examples)
    tokenizers = len({outcome.tokenizer for outcome in outcomes if outcome.tokenizer is not None})
    threads = {outcome.threads for outcome in outcomes if outcome.threads}
    if tokenizers > 1:
        notes.append(sentence("note bytes" if first.metric == "bits_per_byte" else "note tokenizers", count=tokenizers))
    more = {"note tokenizer": tokenizers == 1, "note threads": len(threads) > 1}
    return [*notes, *(sentence(note) for note, holds in more.items() if holds)]


def _uncertainty(done: Sequence[Row]) -> list[str]:
    """What ± means here."""
    seeds = max(len(row.outcomes) for row in done)
    if all(row.interval is None for row in done):
        return []
    if seeds == 1:
        return [sentence("note one seed")]
    what = next(row.repeats for row in done if len(row.outcomes) == seeds)
    folds = sentence("note folds") if what == "folds" else ""
    return [sentence("note interval", seeds=seeds, what=what, folds=folds), sentence("note paired", what=what)]


def _smallest_difference(done: Sequence[Row], examples: str) -> list[str]:
    """By how little two rows could be told apart here: half of the narrowest interval of all pairs that are
    judged, rounded down, so that no difference that is told lies below it; and half of the one in the middle.
    """
    first = max(done, key=lambda row: len(row.outcomes))
    judged = [row for row in done if row.is_judged]
    leads = [lead for pair in combinations(judged, 2) if (lead := compare_rows(*pair)) is not None]
    halves = sorted(half for lead in leads if 0 < (half := (lead.high - lead.low) / 2) < math.inf)
    if not halves:
        return []
    again = f" and {len(first.outcomes)} {first.repeats}" if len(first.outcomes) > 1 else ""
    least, usual = (_rounded_down(half) for half in (halves[0], median(halves)))
    more = f", and most pairs not by less than {usual}" if usual != least else ""
    unit = unit_of(first.metric)
    return [sentence("note smallest", examples=examples, again=again, least=least, unit=unit, more=more)]


def _rounded_down(half: float) -> str:
    decimals = 1 - math.floor(math.log10(half))
    return rounded(math.floor(half * 10**decimals) / 10**decimals, decimals)
