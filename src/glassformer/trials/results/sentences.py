"""Sentences of a comparison, and the wording of scores and differences in them."""

from collections.abc import Sequence
from functools import partial

from glassformer.config.sentences import sentence as read_sentence
from glassformer.statistics.significance import Difference
from glassformer.trials.results.metrics import from_to, titled, unit_of
from glassformer.trials.results.rows import Row

sentence = partial(read_sentence, __name__)


def score_in_words(row: Row) -> str:
    once = row.interval is not None and len(row.outcomes) == 1
    return f"{titled(row.metric)} {row.score_with_interval}{_of_these(row) if once else ''}"


def _of_these(row: Row) -> str:
    return f", on these examples, of {'these trainings' if row.repeats == 'folds' else 'this training'}"


def scope(lead: Difference | None, row: Row) -> str:
    """What a difference holds for, where that is less than one would think: seeds have no part in it."""
    return "" if lead is None or lead.seeds else _of_these(row)


def difference_in_words(lead: Difference, row: Row) -> str:
    """How much, between which ends, in what."""
    unit = unit_of(row.metric)
    amount = from_to(lead.value, lead.low, lead.high)
    return amount if unit == titled(row.metric) else f"{amount} {unit}"


def lead_in_words(lead: Difference, row: Row) -> str:
    """How much, and what that holds for."""
    return difference_in_words(lead, row) + scope(lead, row)


def difference_within(lead: Difference, row: Row) -> str:
    """The difference, to stand in brackets."""
    return difference_in_words(lead, row).replace(" (", ", ").replace(")", "")


def with_and(names: Sequence[str]) -> str:
    """a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
