"""What a comparison says: which model is best, whether that is significant, and which model to use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.config.resolve import BUDGETS
from glassformer.rendering.takeaways import listed
from glassformer.trials.jobs import FLOOR, REFERENCE
from glassformer.trials.results.metrics import sentence
from glassformer.trials.results.rows import Row, compare_rows, is_level, relation

TRANSFORMER = "transformer"
CHEAP, SAVED = 0.5, 1.0
"""A model that is not the best is recommended only if it trains in at most this share of the best model's time, and
saves at least this number of seconds."""


@dataclass(frozen=True)
class Verdict:
    """Sentences, and the rows that they are about."""

    words: list[str]
    best: Row | None = None
    """The best of all rows."""
    recommended: Row | None = None


def verdict(rows: Sequence[Row]) -> Verdict:
    """Compare rows that compete with one another."""
    done = [row for row in rows if row.is_judged]
    trained = [row for row in done if row.is_trained]
    if not trained:
        return Verdict([sentence("nothing"), *failures(rows)])
    leader, best, recommended = trained[0], done[0], _recommended(done)
    words = [
        sentence("leader", row=leader),
        *(_compared(leader, "next model", row) for row in trained[1:2]),
        *baseline_words(leader, done),
        *([] if len(done) == 1 else [_use(recommended, best)]),
        *_transformer(rows),
        *one_seed(trained),
        *failures(rows),
    ]
    return Verdict(words, best, recommended)


def baseline_words(row: Row, done: Sequence[Row]) -> Iterator[str]:
    """Compare a row with the best trivial baseline and the best reference."""
    for kind in (FLOOR, REFERENCE):
        other = next((other for other in done if other.kind == kind), None)
        if other is not None:
            yield _compared(row, f"best {kind}", other)


def _compared(row: Row, what: str, other: Row) -> str:
    return sentence("compared", what=what, row=other, words=relation(row, other))


def _recommended(done: Sequence[Row]) -> Row | None:
    """Return the fastest row that is not significantly worse than the best if that saves time, else the best.

    None if a trivial baseline is among these rows.
    """
    best = done[0]
    level = [row for row in done if row is best or is_level(best, row)]
    if any(row.kind == FLOOR for row in level):
        return None
    fast = [row for row in level if row.seconds <= CHEAP * best.seconds and best.seconds - row.seconds >= SAVED]
    return min(fast, key=lambda row: row.seconds, default=best)


def _use(recommended: Row | None, best: Row) -> str:
    if recommended is None:
        return sentence("use none")
    if recommended is best:
        return sentence("use best", row=best)
    return sentence("use cheaper", row=recommended, best=best, words=relation(recommended, best))


def _transformer(rows: Sequence[Row]) -> Iterator[str]:
    """Compare the best Transformer with the other models, baselines and references.

    Rows that begin from a run are left out: they may be Transformers by any name.
    """
    rows = [row for row in rows if row.outcomes and not row.begins and not row.seen]
    own = [row for row in rows if row.is_trained and row.name.startswith(TRANSFORMER)]
    others = [row for row in rows if row.is_trained and row not in own]
    if not own or not others:
        return
    if own[0].undertrained or others[0].undertrained:
        late = [row.label for row in rows if row.undertrained]
        yield sentence("worth unknown", names=listed(late, len(late)))
        return
    rivals = [(row, compare_rows(own[0], row)) for row in rows if row not in own and row.is_judged]
    better = [row for row, lead in rivals if lead is not None and lead.is_worse]
    level = [row for row, lead in rivals if lead is not None and not lead.is_better]
    if better:
        rival, answer = better[0], "No"
    elif level:
        rival = min(level, key=lambda row: row.seconds)
        answer = "Yes" if own[0].seconds <= rival.seconds else "No"
    else:
        rival = others[0]
        answer = "Unknown" if compare_rows(own[0], rival) is None else "Yes"
    yield sentence("worth", answer=answer, row=own[0], other=rival, words=relation(own[0], rival))


# --- how far to trust it ---


def one_seed(trained: Sequence[Row]) -> list[str]:
    return [] if any(len(row.outcomes) > 1 for row in trained) else [sentence("one seed")]


def undertrained(rows: Sequence[Row]) -> list[str]:
    """Return which rows were not trained to the end, how that shows, and what to do."""
    late = [row for row in rows if row.undertrained]
    reasons = "; ".join(f"{row.label} ({row.undertrained})" for row in late)
    return [sentence("undertrained", reasons=reasons, budget=more_budget(late))] if late else []


def more_budget(late: Sequence[Row]) -> str:
    """Return the option that gives undertrained rows more of the budget that they had."""
    job = late[0].outcomes[0].job
    bounds = [f"--{key.split('.')[-1]}" for key in BUDGETS if job.settings.get(key) is not None]
    usual = "--cpu-seconds" if job.cpu_seconds is not None else "--epochs or --steps"
    return f"more {bounds[0] if bounds else usual}"


def failures(rows: Sequence[Row]) -> list[str]:
    """Return the first error of each row with failed training runs."""
    words = []
    for row in rows:
        if row.errors:
            kind = "skipped" if row.skipped else "partly failed" if row.outcomes else "failed"
            all_runs = len(row.errors) + len(row.outcomes)
            words.append(sentence(kind, row=row, failed=len(row.errors), all=all_runs, error=row.errors[0]))
    return [word if word.endswith((".", ")")) else f"{word}." for word in words]
