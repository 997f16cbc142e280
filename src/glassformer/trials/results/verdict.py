"""What a comparison says: which model is best, whether that is more than luck, and what to use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.config.resolve import BUDGETS
from glassformer.config.units import duration, two_digits
from glassformer.trials.baselines.names import reference_in_words
from glassformer.trials.outcome import FLOOR, REFERENCE
from glassformer.trials.results.metrics import LABELLED, rounded
from glassformer.trials.results.pairs import is_better, reverse
from glassformer.trials.results.rows import Row, compare_rows, is_level
from glassformer.trials.results.sentences import (
    difference_in_words,
    difference_within,
    lead_in_words,
    scope,
    score_in_words,
    sentence,
    with_and,
)

TRANSFORMER = "transformer"
CHEAP, SAVED = 0.5, 1.0
"""What may be worse than the best is recommended only where it trains in at most such a part of the time, and saves at
least so many seconds."""


# --- the verdict ---


@dataclass(frozen=True)
class Verdict:
    """Sentences, and the rows that they speak of."""

    words: list[str]
    best: Row | None = None
    """The best of all rows."""
    recommended: Row | None = None


def verdict(rows: Sequence[Row]) -> Verdict:
    """What is said of rows that compete with one another."""
    done = [row for row in rows if row.is_judged]
    trained = [row for row in done if row.is_trained]
    if not trained:
        return Verdict([sentence("nothing"), *_failures(rows)])
    leader, best = trained[0], done[0]
    late = [row for row in rows if row.undertrained]
    recommended = _recommended(best, done)
    seeds = len(leader.outcomes)
    repeats = f", {seeds} {leader.repeats}{' alike' * leader.alike}" if seeds > 1 else ""
    words = [
        sentence(
            "leader",
            models="models that were trained to their end" if late else "trained models",
            row=leader,
            score=score_in_words(leader),
            repeats=repeats,
        ),
        _against_next(trained),
        *_against_floor(leader, done),
        *_against_reference(leader, recommended, done),
        *_recommendation(recommended, best, done),
        *_already_better(late, best),
        *_transformer(trained, done, late),
        *([] if any(len(row.outcomes) > 1 for row in trained) else [sentence("one seed")]),
        *_failures(rows),
    ]
    return Verdict(words, best, recommended)


def _against_next(trained: Sequence[Row]) -> str:
    if len(trained) == 1:
        return sentence("alone")
    best, second = trained[:2]
    lead = compare_rows(best, second)
    if lead is None:
        return sentence("luck unknown", row=second)
    if is_better(lead):
        return sentence("beats next" if lead.seeds else "ahead of next", row=second, by=lead_in_words(lead, best))
    by = difference_in_words(lead, best)
    level = [row.label for row in trained[1:] if is_level(best, row)]
    return sentence("level", names=with_and(level), seeds=" and seeds" if lead.seeds else "", by=by)


# --- floors and references ---


def _first(kind: str, done: Sequence[Row]) -> Row | None:
    """The best of a kind."""
    return next((row for row in done if row.kind == kind), None)


def _beats(row: Row, floor: Row) -> bool:
    """Whether it is better, beyond chance where that can be told."""
    lead = compare_rows(row, floor)
    return row.rank < floor.rank if lead is None else is_better(lead)


def _against_floor(best: Row, done: Sequence[Row]) -> Iterator[str]:
    floor = _first(FLOOR, done)
    if floor is None:
        return
    lead, score = compare_rows(best, floor), rounded(floor.score, floor.decimals)
    if not _beats(best, floor):
        chance = " beyond chance" if best.rank < floor.rank else ""
        look = sentence("look") if best.metric in LABELLED else ""
        yield sentence("below floor", floor=floor, score=score, chance=chance, look=look, scope=scope(lead, best))
    elif lead is None:
        yield sentence("above floor", floor=floor, score=score)
    else:
        yield sentence("beats floor", floor=floor, score=score, by=lead_in_words(lead, best))


def _against_reference(best: Row, recommended: Row | None, done: Sequence[Row]) -> Iterator[str]:
    """The best of the trained models beside the best reference; after it the one to start with, where it is another."""
    reference = _first(REFERENCE, done)
    lead = None if reference is None else compare_rows(best, reference)
    if reference is None or lead is None:
        return
    score = rounded(reference.score, reference.decimals)
    start = ": start with it" if reference is recommended else ""
    if is_better(lead):
        yield sentence("beats reference", name=_spelled(reference), score=score, by=lead_in_words(lead, best))
        return
    name = _begin(_spelled(reference))
    if is_better(reverse(lead)):
        by, took = lead_in_words(reverse(lead), best), [duration(row.seconds) for row in (reference, best)]
        yield sentence(
            "below reference", name=name, score=score, took=took[0], best=best, best_took=took[1], by=by, start=start
        )
    else:
        yield sentence("level reference", name=name, score=score, untold=_untold(reference, best), start=start)
    if recommended is not None and recommended.kind == REFERENCE and recommended is not reference:
        yield sentence("cheap reference", name=_begin(_spelled(recommended)), untold=_untold(recommended, reference))


def _spelled(reference: Row) -> str:
    return reference_in_words(reference.name, reference.outcomes[0].primary)


def _begin(text: str) -> str:
    """A text as a sentence begins."""
    return text if text.startswith("scikit") else text[:1].upper() + text[1:]


def _untold(row: Row, best: Row) -> str:
    """That one cannot be told from another, what may be lost or gained, and what either takes."""
    lead = compare_rows(row, best)
    assert lead is not None
    way, shown = ("ahead", lead) if lead.value > 0 else ("behind", reverse(lead))
    apart = f"{way} by {difference_within(shown, row)}" if lead.value else f"difference {difference_within(shown, row)}"
    cost = f"trains in {duration(row.seconds)}"
    if row.seconds < best.seconds:
        cost += f" instead of {duration(best.seconds)}"
    return sentence("untold", best=best, apart=apart, cost=cost)


# --- what to use ---


def _recommended(best: Row, done: Sequence[Row]) -> Row | None:
    """The fastest of those that cannot be told from the best, if that saves something; else the best. None: a floor is
    among them.
    """
    level = [row for row in done if row is best or is_level(best, row)]
    if any(row.kind == FLOOR for row in level):
        return None
    fast = [row for row in level if row.seconds <= CHEAP * best.seconds and best.seconds - row.seconds >= SAVED]
    return min(fast, key=lambda row: row.seconds, default=best)


def _recommendation(row: Row | None, best: Row, done: Sequence[Row]) -> Iterator[str]:
    if row is None or len(done) < 2 or row.kind == REFERENCE:  # of a reference it is said where it was compared
        return
    faster = [other for other in done if other.seconds < best.seconds]
    if row is not best:
        yield sentence("use cheaper", row=row, untold=_untold(row, best))
    elif any(compare_rows(best, other) is None for other in faster):
        yield sentence("use untold", row=row)
    elif any(is_level(best, other) for other in faster):
        yield sentence("use slower", row=row)
    else:
        leads = [lead for other in faster if (lead := compare_rows(best, other)) is not None]
        once = next((lead for lead in leads if not lead.seeds), None)
        yield sentence("use best", row=row, scope=scope(once, row))


def _transformer(trained: Sequence[Row], done: Sequence[Row], late: Sequence[Row]) -> Iterator[str]:
    """Whether it is worth it, where it is one of several: never before a floor and a reference are beaten.

    What begins from a run is asked another question, and may be a Transformer by any name.
    """
    own, own_late = (
        [row for row in rows if row.name.startswith(TRANSFORMER) and not row.begins] for rows in (trained, late)
    )
    others, others_late = ([row for row in rows if _is_other(row)] for rows in (trained, late))
    if own and others:
        yield _transformer_beside(own[0], others[0], trained[0], done)
    elif (own or own_late) and (others or others_late):
        missing = [] if own else own_late
        yield _not_yet([*missing, *([] if others else others_late)])


def _not_yet(late: Sequence[Row]) -> str:
    return sentence(
        "worth: undertrained",
        names=f"{with_and([row.label for row in late])} {'was' if len(late) == 1 else 'were'}",
        end="its end" if len(late) == 1 else "their end",
        budget=more_budget(late),
    )


def _transformer_beside(own: Row, other: Row, best: Row, done: Sequence[Row]) -> str:
    """`other`: the best of the models that are no Transformer; `best`: of all that are trained."""
    floor, reference = _first(FLOOR, done), _first(REFERENCE, done)
    if floor is not None and not _beats(own, floor):
        which = "it does not beat" if _beats(best, floor) else "no trained model beats"
        return sentence("worth: floor", which=which, floor=floor, scope=scope(compare_rows(own, floor), own))
    lead = compare_rows(own, other)
    if lead is None:
        return sentence("worth: unknown", other=other)
    for rival in (other, reference):
        against = None if rival is None else compare_rows(rival, own)
        if against is not None and is_better(against):
            return sentence("worth: worse", other=rival, by=lead_in_words(against, own))
    level = [row for row in done if (_is_other(row) or row.kind == REFERENCE) and is_level(own, row)]
    if level:
        fastest = min(level, key=lambda row: row.seconds)
        once = scope(compare_rows(own, fastest), own)
        if own.seconds <= fastest.seconds:
            return sentence("worth: free", other=fastest, scope=once)
        return sentence("worth: level", other=fastest, cost=_cost(own, fastest), scope=once)
    return sentence("worth: yes", by=lead_in_words(lead, own), other=other, cost=_cost(own, other))


def _is_other(row: Row) -> bool:
    return row.is_trained and not row.begins and not row.name.startswith(TRANSFORMER)


def _cost(own: Row, other: Row) -> str:
    """What it costs to train the Transformer, beside another model."""
    if own.seconds <= other.seconds:
        return f"it trains in {duration(own.seconds)}, {other.label} in {duration(other.seconds)}"
    times = two_digits(own.seconds / other.seconds) if other.seconds > 0 else "many"
    return f"the Transformer takes {times} times as long to train"


def _already_better(late: Sequence[Row], best: Row) -> Iterator[str]:
    """Of rows that were not trained to their end, the first that is ahead of the best of the others even so."""
    for row in late:
        lead = compare_rows(row, best)
        if lead is not None and is_better(lead):
            yield sentence("already better", row=row, best=best, by=lead_in_words(lead, row))
            return


# --- how far to trust it ---


def undertrained(rows: Sequence[Row]) -> list[str]:
    """Which rows were not trained to their end, by what one sees it, and what to do."""
    late = [row for row in rows if row.undertrained]
    if not late:
        return []
    reasons = "; ".join(f"{row.label} ({row.undertrained})" for row in late)
    end = "its end" if len(late) == 1 else "their end"
    return [sentence("undertrained", end=end, reasons=reasons, budget=more_budget(late))]


def more_budget(late: Sequence[Row]) -> str:
    """What rows lack that were not trained to their end: more of what bounds them."""
    cell = late[0].outcomes[0].cell
    bounds = [f"--{key.split('.')[-1]}" for key in BUDGETS if cell.settings.get(key) is not None]
    usual = "--cpu-seconds" if cell.cpu_seconds is not None else "--epochs or --steps"
    return f"more {bounds[0] if bounds else usual}"


def _failures(rows: Sequence[Row]) -> list[str]:
    words = [
        sentence("skipped" if row.skipped else "failed", row=row, error=row.errors[0])
        for row in rows
        if not row.outcomes
    ]
    words += [
        sentence("partly failed", row=row, failed=len(row.errors), all=len(row.errors) + len(row.outcomes), error=error)
        for row in rows
        for error in row.errors[:1]
        if row.outcomes
    ]
    return [word if word.endswith((".", ")")) else f"{word}." for word in words]
