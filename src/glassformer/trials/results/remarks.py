"""What a reader of a comparison's table should know: marks of its rows, and how the numbers came about."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

from glassformer.statistics.significance import Difference
from glassformer.trials.outcome import KINDS, TRAINED
from glassformer.trials.results.metrics import amount, rounded, titled, unit_of
from glassformer.trials.results.pairs import is_better
from glassformer.trials.results.rows import Row, compare_rows
from glassformer.trials.running.question import ABLATION

BEST, LEVEL, USE = "best", "within chance", "recommended"
FALLING, UNDERTRAINED = "↘", "undertrained"
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
    if any(row.undertrained for row in done):
        notes.append(
            f"{FALLING} {UNDERTRAINED}: the loss was still falling at the end, or training stopped within the first "
            "epoch or after very few updates. These rows are not ranked: their scores show how far training got, not "
            "how good the model is."
        )
    leads = [lead for row, lead in zip(rows, behind, strict=True) if lead is not None and row.is_trained]
    if any(lead is not None for lead in behind):
        of, unit = "the whole model" if mode == ABLATION else "the best", unit_of(first.metric)
        competing = first.pairs.rows
        together = f", so wide that those of all pairs of {competing} rows hold at once" if competing > 2 else ""
        notes.append(
            f"How far behind {of} ({unit}): on the same examples, with a 95 % interval over examples"
            + (" and seeds" if any(lead.seeds for lead in leads) else "")
            + f"{together}."
        )
        notes += _smallest_difference(done, f"{counted} {what}")
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
    return [
        f"{PLUS_MINUS}: a 95 % interval over the examples, of this training; one seed, so the chance of training is "
        "not in it."
    ]


def _smallest_difference(done: Sequence[Row], counted: str) -> list[str]:
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
    return [
        f"With {counted}{again}, no two rows could be told apart by less than {least} {unit_of(first.metric)}{more}."
    ]


def _rounded_down(half: float) -> str:
    decimals = 1 - math.floor(math.log10(half))
    return rounded(math.floor(half * 10**decimals) / 10**decimals, decimals)
