"""What a comparison says: which model is best, whether that is more than luck, and what to use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.config.resolve import BUDGETS
from glassformer.config.units import two_digits
from glassformer.rendering.takeaways import listed
from glassformer.trials.baselines.names import reference_in_words
from glassformer.trials.outcome import FLOOR, REFERENCE
from glassformer.trials.results.metrics import LABELLED, sentence
from glassformer.trials.results.pairs import scope_of
from glassformer.trials.results.rows import Row, compare_rows, is_level

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
    alike = " alike" if leader.alike else ""
    words = [
        sentence(
            "leader",
            models="models that were trained to their end" if late else "trained models",
            row=leader,
            repeats=f", {len(leader.outcomes)} {leader.repeats}{alike}" if len(leader.outcomes) > 1 else "",
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
    if lead.is_better:
        return sentence("beats next" if lead.seeds else "ahead of next", row=second, lead=lead)
    level = listed([row.label for row in trained[1:] if is_level(best, row)], len(trained))
    return sentence("level", names=level, seeds=" and seeds" if lead.seeds else "", lead=lead)


# --- floors and references ---


def _first(kind: str, done: Sequence[Row]) -> Row | None:
    """The best of a kind."""
    return next((row for row in done if row.kind == kind), None)


def _beats(row: Row, floor: Row) -> bool:
    """Whether it is better, beyond chance where that can be told."""
    lead = compare_rows(row, floor)
    return row.rank < floor.rank if lead is None else lead.is_better


def _against_floor(best: Row, done: Sequence[Row]) -> Iterator[str]:
    floor = _first(FLOOR, done)
    if floor is None:
        return
    lead = compare_rows(best, floor)
    if _beats(best, floor):
        yield sentence("above floor" if lead is None else "beats floor", floor=floor, lead=lead)
        return
    chance = " beyond chance" if best.rank < floor.rank else ""
    look = sentence("look") if best.metric in LABELLED else ""
    yield sentence("below floor", floor=floor, chance=chance, look=look, scope=scope_of(lead))


def _against_reference(best: Row, recommended: Row | None, done: Sequence[Row]) -> Iterator[str]:
    """The best of the trained models beside the best reference; after it the one to start with, where it is another."""
    reference = _first(REFERENCE, done)
    lead = None if reference is None else compare_rows(best, reference)
    if reference is None or lead is None:
        return
    if lead.is_better:
        yield sentence("beats reference", name=_spelled(reference), reference=reference, lead=lead)
        return
    name, start = _begin(_spelled(reference)), ": start with it" if reference is recommended else ""
    facts = {"name": name, "reference": reference, "start": start}
    if lead.is_worse:
        yield sentence("below reference", best=best, lead=lead.reversed, **facts)
    else:
        yield sentence("level reference", untold=_untold(reference, best), **facts)
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
    way = "ahead by" if lead.value > 0 else "behind by" if lead.value else "difference"
    shown = lead if lead.value > 0 else lead.reversed
    return sentence(
        "untold cheaper" if row.seconds < best.seconds else "untold", row=row, best=best, way=way, lead=shown
    )


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
        yield sentence("use best", row=row, scope=next((lead.scope for lead in leads if lead.scope), ""))


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
    names, were = listed([row.label for row in late], len(late)), "was" if len(late) == 1 else "were"
    return sentence("worth: undertrained", names=names, were=were, end=_end_of(late), budget=more_budget(late))


def _end_of(rows: Sequence[Row]) -> str:
    return "its end" if len(rows) == 1 else "their end"


def _transformer_beside(own: Row, other: Row, best: Row, done: Sequence[Row]) -> str:
    """`other`: the best of the models that are no Transformer; `best`: of all that are trained."""
    floor, reference = _first(FLOOR, done), _first(REFERENCE, done)
    if floor is not None and not _beats(own, floor):
        which = "it does not beat" if _beats(best, floor) else "no trained model beats"
        return sentence("worth: floor", which=which, floor=floor, scope=scope_of(compare_rows(own, floor)))
    lead = compare_rows(own, other)
    if lead is None:
        return sentence("worth: unknown", other=other)
    for rival in (other, reference):
        against = None if rival is None else compare_rows(rival, own)
        if against is not None and against.is_better:
            return sentence("worth: worse", other=rival, lead=against)
    level = [row for row in done if (_is_other(row) or row.kind == REFERENCE) and is_level(own, row)]
    if not level:
        return sentence("worth: yes", lead=lead, other=other, cost=_cost(own, other))
    fastest = min(level, key=lambda row: row.seconds)
    kind = "worth: free" if own.seconds <= fastest.seconds else "worth: level"
    return sentence(kind, other=fastest, cost=_cost(own, fastest), scope=scope_of(compare_rows(own, fastest)))


def _is_other(row: Row) -> bool:
    return row.is_trained and not row.begins and not row.name.startswith(TRANSFORMER)


def _cost(own: Row, other: Row) -> str:
    """What it costs to train the Transformer, beside another model."""
    if own.seconds <= other.seconds:
        return f"it trains in {own.took}, {other.label} in {other.took}"
    times = two_digits(own.seconds / other.seconds) if other.seconds > 0 else "many"
    return f"the Transformer takes {times} times as long to train"


def _already_better(late: Sequence[Row], best: Row) -> Iterator[str]:
    """Of rows that were not trained to their end, the first that is ahead of the best of the others even so."""
    for row in late:
        lead = compare_rows(row, best)
        if lead is not None and lead.is_better:
            yield sentence("already better", row=row, best=best, lead=lead)
            return


# --- how far to trust it ---


def undertrained(rows: Sequence[Row]) -> list[str]:
    """Which rows were not trained to their end, by what one sees it, and what to do."""
    late = [row for row in rows if row.undertrained]
    if not late:
        return []
    reasons = "; ".join(f"{row.label} ({row.undertrained})" for row in late)
    return [sentence("undertrained", end=_end_of(late), reasons=reasons, budget=more_budget(late))]


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
