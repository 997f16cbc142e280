"""What a comparison says in words: which is best, whether that is more than luck, and what to use."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION, TABLE, TEXT
from glassformer.inside.curves import named
from glassformer.measures.paired import Difference
from glassformer.trials.floors.names import references_of
from glassformer.trials.outcome import FLOOR, REFERENCE
from glassformer.trials.results.chance import UNITS, beyond, compared, turned
from glassformer.trials.results.rounding import duration, from_to, rounded, times, with_error
from glassformer.trials.results.rows import Row

TASKS = {"accuracy": CLASSIFICATION, "micro_f1": MULTILABEL, "rmse": REGRESSION}
"""By primary metric, those for which there are references."""
TRANSFORMER = "transformer"


@dataclass(frozen=True)
class Verdict:
    """Sentences, and the rows that they speak of."""

    words: list[str]
    best: Row | None = None
    """Of all rows."""
    recommended: Row | None = None


def verdict(rows: Sequence[Row]) -> Verdict:
    """Of rows that compete with one another."""
    done = [row for row in rows if row.outcomes]
    trained = [row for row in done if row.is_trained]
    failed = _failures(rows)
    if not trained:
        nothing = "Nothing was trained to the end, so there is nothing to compare."
        return Verdict([nothing, *failed], done[0] if done else None)
    best = done[0]
    words = [_leader(trained[0])]
    words += _against_next(trained)
    words += _against_floors(trained[0], done)
    recommended = _cheapest(best, done)
    words += _against_reference(trained[0], recommended, done)
    words += _recommendation(recommended, best, done)
    words += _transformer(trained)
    return Verdict([*words, *_one_seed(trained), *failed], best, recommended)


def score_in_words(row: Row) -> str:
    return f"{named(row.metric)} {with_error(row.score, row.half, row.decimals)}"


def _leader(best: Row) -> str:
    count = len(best.outcomes)
    seeds = f", {count} {best.repeats}" if count > 1 else ""
    return f"Best of the trained models: {best.label} ({score_in_words(best)}{seeds})."


def _against_next(trained: Sequence[Row]) -> list[str]:
    if len(trained) == 1:
        return ["It is the only model that was trained to the end: there is no other to compare it with."]
    best, following = trained[0], trained[1]
    found = compared(best, following)
    if found is None:
        return [f"Whether that is luck cannot be told: {following.label} was not judged on the same examples."]
    if beyond(found):
        return [f"It beats the next, {following.label}, beyond chance: by {_by(found, best)}."]
    level = [row.label for row in trained[1:] if (other := compared(best, row)) and not beyond(other)]
    return [
        f"That is not beyond chance: {_and(level)} {'is' if len(level) == 1 else 'are'} as good as far as these "
        f"examples{' and seeds' if found.seeds else ''} tell; the next is behind by {_by(found, best)}."
    ]


def _against_floors(best: Row, done: Sequence[Row]) -> list[str]:
    floor = next((row for row in done if row.kind == FLOOR), None)
    if floor is None:
        return []
    found = compared(best, floor)
    name = f"the best floor, {floor.label} ({rounded(floor.score, floor.decimals)})"
    if found is not None and beyond(found):
        return [f"It beats {name}, by {_by(found, best)}."]
    better = best.rank < floor.rank
    if found is None and better:
        return [f"It is better than {name}."]
    how = "does not beat" if not better else "does not beat beyond chance"
    return [
        f"It {how} {name}: nothing was learned here that is worth a model. Train longer, with more data or other "
        "settings, and look whether the labels can be told from what is read."
    ]


def _against_reference(best: Row, chosen: Row | None, done: Sequence[Row]) -> list[str]:
    reference = next((row for row in done if row.kind == REFERENCE), None)
    if chosen is not None and chosen.kind == REFERENCE:
        reference = chosen
    found = None if reference is None else compared(best, reference)
    if reference is None or found is None:
        return []
    name = reference_words(reference)
    cost = (
        f"{rounded(reference.score, reference.decimals)}; it trains in {duration(reference.seconds)}, {best.label} in "
    )
    cost += duration(best.seconds)
    use = ": use it" if reference is chosen else ""
    if beyond(found):
        return [f"It beats {name} ({rounded(reference.score, reference.decimals)}), by {_by(found, best)}."]
    if beyond(turned(found)):
        return [
            f"{_upper(name)} ({cost}) is better than all that was trained here, by {_by(turned(found), best)}{use}."
        ]
    if found.value < 0:
        return [f"{_upper(name)} ({cost}) is ahead by {_by(turned(found), best)}, which may be chance{use}."]
    return [f"{_upper(name)} ({cost}) is as good, within chance{use}."]


def _cheapest(best: Row, done: Sequence[Row]) -> Row | None:
    """Of all within chance of the best, the one that trains fastest; None: where a floor is."""
    level = [row for row in done if row is best or _level(best, row)]
    if any(row.kind == FLOOR for row in level):
        return None
    return min(level, key=lambda row: row.seconds)


def _level(best: Row, row: Row) -> bool:
    found = compared(best, row)
    return found is not None and not beyond(found)


def _recommendation(chosen: Row | None, best: Row, done: Sequence[Row]) -> list[str]:
    if chosen is None or len(done) < 2 or chosen.kind == REFERENCE:  # of a reference it is said where it was compared
        return []
    if chosen is best:
        if any(compared(best, row) is None for row in done if row.seconds < best.seconds):
            return [f"Use {chosen.label}: its score is the best; how much of that is chance cannot be told."]
        return [f"Use {chosen.label}: nothing that trains faster is within chance of it."]
    found = compared(best, chosen)
    assert found is not None
    return [
        f"Use {chosen.label}: it is behind {best.label} by {_by(found, best)}, which may be chance, and trains in "
        f"{duration(chosen.seconds)} instead of {duration(best.seconds)}."
    ]


def _transformer(trained: Sequence[Row]) -> list[str]:
    """Whether it is worth it, where it is one of several."""
    own = next((row for row in trained if row.name.startswith(TRANSFORMER)), None)
    others = [row for row in trained if not row.name.startswith(TRANSFORMER)]
    if own is None or not others:
        return []
    asked = "Is the Transformer worth it?"
    found = compared(own, others[0])
    if found is None:
        return [f"{asked} Not to be told: it and {others[0].label} were not judged on the same examples."]
    if beyond(turned(found)):
        return [f"{asked} Not here: {others[0].label} is better, by {_by(turned(found), own)}."]
    level = [row for row in others if _level(own, row)]
    if level:
        other = min(level, key=lambda row: row.seconds)
        if own.seconds <= other.seconds:
            return [f"{asked} It costs nothing: {other.label} is as good within chance, and trains no faster."]
        return [f"{asked} Not by these numbers: {other.label} is as good within chance, and {_cost(own, other)}."]
    return [f"{asked} Yes: {_by(found, own)} better than {others[0].label}, and {_cost(own, others[0])}."]


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


def _by(found: Difference, row: Row) -> str:
    """How much, between which ends, in what."""
    unit = UNITS.get(row.metric, named(row.metric))
    told = from_to(found.value, found.low, found.high)
    return told if unit == named(row.metric) else f"{told} {unit}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _upper(text: str) -> str:
    return text if text.startswith("scikit") else text[:1].upper() + text[1:]
