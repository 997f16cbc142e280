"""What a reader of a comparison's table should know: marks of its rows, and how the numbers came about."""

from collections.abc import Sequence

from glassformer.trials.jobs import KINDS, TRAINED
from glassformer.trials.results.metrics import amount, sentence, titled, unit_of
from glassformer.trials.results.rows import Row
from glassformer.trials.running.question import ABLATION

BEST, LEVEL, USE = "best", "within chance", "recommended"
FALLING, UNDERTRAINED = "↘", "undertrained"


def marks_of(row: Row, *, best: bool, chosen: bool, mode: str) -> list[str]:
    """Return the remarks on a row."""
    failed, done = len(row.errors), len(row.outcomes)
    marks = [BEST] if best else []
    if row.behind is not None and not row.behind.is_better and mode != ABLATION:
        marks.append(LEVEL)
    if chosen:
        marks.append(USE)
    if row.undertrained:
        marks.append(f"{FALLING} {UNDERTRAINED}")
    if row.kind != TRAINED:
        marks.append(KINDS[row.kind])
    if row.learned is not None and row.learned < row.parameters:
        marks.append(f"{amount(row.learned)} parameters learned")
    if row.alike:
        marks.append(f"{done} {row.repeats} alike")
    if failed and done:
        marks.append(f"{failed} of {failed + done} {row.repeats} failed")
    elif failed:
        marks.append("skipped" if row.skipped else "failed")
    return [*marks, *dict.fromkeys(outcome.note for outcome in row.outcomes if outcome.note)]


def notes_of(rows: Sequence[Row], mode: str) -> list[str]:
    """Return how the numbers of the table came about."""
    done = [row for row in rows if row.outcomes]
    if not done:
        return []
    first, outcomes = done[0], [outcome for row in done for outcome in row.outcomes]
    sizes = sorted({len(outcome.scores) for outcome in outcomes})
    what = "windows of text" if first.outcomes[0].weights is not None else "examples"
    examples = f"{sizes[0]:,} {what}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} {what}"
    on = f"{examples} of the {first.outcomes[0].part} part" if sizes[-1] else f"the {first.outcomes[0].part} part"
    better = "lower" if first.lower else "higher"
    notes = [sentence("note score", metric=titled(first.metric), on=on, better=better), *_uncertainty(done)]
    if any(row.undertrained for row in done):
        notes.append(sentence("note undertrained", mark=f"{FALLING} {UNDERTRAINED}"))
    leads = [(row, row.behind) for row in rows if row.behind is not None]
    if leads:
        seeds = any(lead.seeds and row.is_trained for row, lead in leads)
        facts = {
            "reference": "the whole model" if mode == ABLATION else "the best",
            "unit": unit_of(first.metric),
            "seeds": " and seeds" if seeds else "",
            "together": sentence("note all pairs", rows=first.pairs.rows) if first.pairs.rows > 2 else "",
        }
        notes.append(sentence("note behind", **facts))
    tokenizers = len({outcome.tokenizer for outcome in outcomes if outcome.tokenizer is not None})
    if tokenizers > 1:
        notes.append(sentence("note bytes" if first.metric == "bits_per_byte" else "note tokenizers", count=tokenizers))
    elif tokenizers:
        notes.append(sentence("note tokenizer"))
    if len({outcome.threads for outcome in outcomes if outcome.threads}) > 1:
        notes.append(sentence("note threads"))
    return notes


def _uncertainty(done: Sequence[Row]) -> list[str]:
    """Return what ± means here."""
    most = max(done, key=lambda row: len(row.outcomes))
    if all(row.interval is None for row in done):
        return []
    if len(most.outcomes) == 1:
        return [sentence("note one seed")]
    folds = sentence("note folds") if most.repeats == "folds" else ""
    return [sentence("note interval", seeds=len(most.outcomes), what=most.repeats, folds=folds)]
