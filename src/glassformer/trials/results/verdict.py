"""What a comparison says in words: which is best, whether that is more than luck, and what to use."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION, TABLE, TEXT
from glassformer.config.units import duration
from glassformer.statistics.paired import Difference
from glassformer.trials.baselines.names import references_of
from glassformer.trials.outcome import FLOOR, REFERENCE
from glassformer.trials.results.chance import beyond, compared, turned
from glassformer.trials.results.metrics import EXAMPLE_F1, LABELLED, titled, unit_of
from glassformer.trials.results.rounding import from_to, rounded, times
from glassformer.trials.results.rows import Row

TASKS = {"accuracy": CLASSIFICATION, EXAMPLE_F1: MULTILABEL, "rmse": REGRESSION}
"""By metric, those for which there are references."""
TRANSFORMER = "transformer"
CHEAP, SAVED = 0.5, 1.0
"""What may be worse than the best is recommended only where it trains in at most such a part of the time, and saves at
least so many seconds."""


@dataclass(frozen=True)
class Verdict:
    """Sentences, and the rows that they speak of."""

    words: list[str]
    best: Row | None = None
    """Of all rows."""
    recommended: Row | None = None


def verdict(rows: Sequence[Row]) -> Verdict:
    """Of rows that compete with one another."""
    done = [row for row in rows if row.outcomes and not row.seen]
    trained = [row for row in done if row.is_trained]
    failed = _failures(rows)
    if not trained:
        nothing = "Nothing was trained to the end, so there is nothing to compare."
        return Verdict([nothing, *failed], done[0] if done else None)
    best = done[0]
    words = [_leader(trained[0])]
    words += _against_next(trained)
    words += _against_floors(trained[0], done)
    recommended = _chosen(best, done)
    words += _against_reference(trained[0], recommended, done)
    words += _recommendation(recommended, best, done)
    words += _transformer(trained, done)
    return Verdict([*words, *_one_seed(trained), *failed], best, recommended)


def score_in_words(row: Row) -> str:
    return f"{titled(row.metric)} {row.told}"


def _leader(best: Row) -> str:
    count = len(best.outcomes)
    seeds = f", {count} {best.repeats}{' alike' * best.alike}" if count > 1 else ""
    return f"Best of the trained models: {best.label} ({score_in_words(best)}{seeds})."


def _against_next(trained: Sequence[Row]) -> list[str]:
    if len(trained) == 1:
        return ["It is the only model that was trained to the end: there is no other to compare it with."]
    best, following = trained[0], trained[1]
    found = compared(best, following)
    if found is None:
        return [f"Whether that is luck cannot be told: {following.label} was not judged on the same examples."]
    if beyond(found):
        return [f"It beats the next, {following.label}, beyond chance: by {by(found, best)}."]
    level = [row.label for row in trained[1:] if _level(best, row)]
    return [
        f"That is not beyond chance: {_and(level)} cannot be told from it by these examples"
        f"{' and seeds' if found.seeds else ''}; the next is behind by {by(found, best)}."
    ]


def _first(kind: str, done: Sequence[Row]) -> Row | None:
    """The best of a kind."""
    return next((row for row in done if row.kind == kind), None)


def _beats(row: Row, floor: Row | None) -> bool:
    """Whether it is better, beyond chance where that can be told."""
    if floor is None:
        return True
    found = compared(row, floor)
    return row.rank < floor.rank if found is None else beyond(found)


def _against_floors(best: Row, done: Sequence[Row]) -> list[str]:
    floor = _first(FLOOR, done)
    if floor is None:
        return []
    found = compared(best, floor)
    name = f"the best floor, {floor.label} ({rounded(floor.score, floor.decimals)})"
    if _beats(best, floor):
        return [f"It is better than {name}." if found is None else f"It beats {name}, by {by(found, best)}."]
    chance = " beyond chance" if best.rank < floor.rank else ""
    look = ", and look whether the labels can be told from what is read" if best.metric in LABELLED else ""
    return [
        f"It does not beat {name}{chance}: nothing was learned here that is worth a model. Train longer, with more "
        f"data or other settings{look}."
    ]


def _against_reference(best: Row, chosen: Row | None, done: Sequence[Row]) -> list[str]:
    """The best of the trained models beside the best reference; after it the one to start with, where it is another."""
    reference = _first(REFERENCE, done)
    found = None if reference is None else compared(best, reference)
    if reference is None or found is None:
        return []
    name, score = reference_words(reference), rounded(reference.score, reference.decimals)
    start = ": start with it" if reference is chosen else ""
    if beyond(found):
        return [f"It beats {name} ({score}), by {by(found, best)}."]
    if beyond(turned(found)):
        words = [
            f"{_upper(name)} ({score}; it trains in {duration(reference.seconds)}, {best.label} in "
            f"{duration(best.seconds)}) is better than all that was trained here, by {by(turned(found), best)}{start}."
        ]
    else:
        words = [f"{_upper(name)} ({score}) {_untold(reference, best)}{start}."]
    if chosen is not None and chosen.kind == REFERENCE and chosen is not reference:
        words.append(f"{_upper(reference_words(chosen))} {_untold(chosen, reference)}: start with it.")
    return words


def _untold(row: Row, best: Row) -> str:
    """That one cannot be told from another, what may be lost or gained, and what either takes."""
    found = compared(row, best)
    assert found is not None
    way, told = ("ahead", found) if found.value > 0 else ("behind", turned(found))
    apart = f"{way} by {by_within(told, row)}" if told.high > 0 else "no example differs"
    took = (duration(row.seconds), duration(best.seconds))
    cost = f"trains in {took[0]} instead of {took[1]}" if row.seconds < best.seconds else f"trains in {took[0]}"
    return f"cannot be told from {best.label} by these examples ({apart}), and {cost}"


def _chosen(best: Row, done: Sequence[Row]) -> Row | None:
    """The fastest of those that cannot be told from the best, if that saves something; else the best. None: a floor is
    among them.
    """
    level = [row for row in done if row is best or _level(best, row)]
    if any(row.kind == FLOOR for row in level):
        return None
    fast = [row for row in level if row.seconds <= CHEAP * best.seconds and best.seconds - row.seconds >= SAVED]
    return min(fast, key=lambda row: row.seconds, default=best)


def _level(best: Row, row: Row) -> bool:
    found = compared(best, row)
    return found is not None and not beyond(found)


def _recommendation(chosen: Row | None, best: Row, done: Sequence[Row]) -> list[str]:
    if chosen is None or len(done) < 2 or chosen.kind == REFERENCE:  # of a reference it is said where it was compared
        return []
    if chosen is not best:
        return [f"Use {chosen.label}: it {_untold(chosen, best)}."]
    if any(compared(best, row) is None for row in done if row.seconds < best.seconds):
        return [f"Use {chosen.label}: its score is the best; how much of that is chance cannot be told."]
    if any(_level(best, row) for row in done if row.seconds < best.seconds):
        return [f"Use {chosen.label}: its score is the best, and what cannot be told from it trains hardly faster."]
    return [f"Use {chosen.label}: nothing that trains faster is within chance of it."]


def _transformer(trained: Sequence[Row], done: Sequence[Row]) -> list[str]:
    """Whether it is worth it, where it is one of several: never before a floor and a reference are beaten.

    What begins from a run is asked another question, and may be a Transformer by any name.
    """
    own = next((row for row in trained if row.name.startswith(TRANSFORMER) and not row.begins), None)
    others = [row for row in trained if _is_other(row)]
    if own is None or not others:
        return []
    asked = "Is the Transformer worth it?"
    floor, reference = _first(FLOOR, done), _first(REFERENCE, done)
    if floor is not None and not _beats(own, floor):
        which = "it does not beat" if _beats(trained[0], floor) else "no trained model beats"
        return [f"{asked} Not here: {which} the best floor, {floor.label}."]
    found = compared(own, others[0])
    if found is None:
        return [f"{asked} Not to be told: it and {others[0].label} were not judged on the same examples."]
    for other in [*others[:1], *([] if reference is None else [reference])]:
        against = compared(other, own)
        if against is not None and beyond(against):
            return [f"{asked} Not here: {other.label} is better, by {by(against, own)}."]
    level = [row for row in done if (_is_other(row) or row.kind == REFERENCE) and _level(own, row)]
    if level:
        other = min(level, key=lambda row: row.seconds)
        if own.seconds <= other.seconds:
            return [f"{asked} It costs nothing: {other.label} cannot be told from it, and trains no faster."]
        return [f"{asked} Not by these numbers: {other.label} cannot be told from it, and {_cost(own, other)}."]
    return [f"{asked} Yes: {by(found, own)} better than {others[0].label}, and {_cost(own, others[0])}."]


def _is_other(row: Row) -> bool:
    return row.is_trained and not row.begins and not row.name.startswith(TRANSFORMER)


def _cost(own: Row, other: Row) -> str:
    """Of training the Transformer, beside another model."""
    if own.seconds <= other.seconds:
        return f"it trains in {duration(own.seconds)}, {other.label} in {duration(other.seconds)}"
    return f"the Transformer takes {times(own.seconds, other.seconds)} times as long to train"


def _one_seed(trained: Sequence[Row]) -> list[str]:
    if any(len(row.outcomes) > 1 for row in trained):
        return []
    return ["One seed each: that another seed would have given other scores is not counted here; --seeds 3 counts it."]


def _failures(rows: Sequence[Row]) -> list[str]:
    failed = [row for row in rows if not row.outcomes]
    partly = [row for row in rows if row.outcomes and row.errors]
    words = [f"{row.label} failed: {row.errors[0]}" for row in failed]
    words += [
        f"{row.label}: {len(row.errors)} of {len(row.errors) + len(row.outcomes)} {row.repeats} failed: {row.errors[0]}"
        for row in partly
    ]
    return [word if word.endswith((".", ")")) else f"{word}." for word in words]


def reference_words(row: Row) -> str:
    """What a reference is, spelled out."""
    task = TASKS.get(row.metric, "")
    return {**references_of(task, TABLE), **references_of(task, TEXT)}.get(row.name, row.name)


def by(found: Difference, row: Row) -> str:
    """How much, between which ends, in what."""
    unit = unit_of(row.metric)
    told = from_to(found.value, found.low, found.high)
    return told if unit == titled(row.metric) else f"{told} {unit}"


def by_within(found: Difference, row: Row) -> str:
    """The same, to stand in brackets."""
    return by(found, row).replace(" (", ", ").replace(")", "")


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _upper(text: str) -> str:
    return text if text.startswith("scikit") else text[:1].upper() + text[1:]
