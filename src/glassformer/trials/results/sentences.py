"""Every sentence of a comparison, and how scores and differences stand in one."""

from collections.abc import Sequence
from typing import Any

from glassformer.statistics.paired import Difference
from glassformer.trials.results.metrics import from_to, titled, unit_of
from glassformer.trials.results.rows import Row

WORTH = "Is the Transformer worth it?"
SENTENCES = {
    # which is best
    "nothing": "No model was trained to the end, so there is nothing to compare.",
    "leader": "Best of the {models}: {row.label} ({score}{repeats}).",
    "alone": "It is the only model that was trained to the end: there is no other to compare it with.",
    "luck unknown": "Whether that is luck cannot be told: {row.label} was not judged on the same examples.",
    "beats next": "It beats the next, {row.label}, beyond chance: by {by}.",
    "ahead of next": "It is ahead of the next, {row.label}, by {by}; another seed may turn that round.",
    "level": "That is not beyond chance: {names} cannot be told from it by these examples{seeds}; the next is behind "
    "by {by}.",
    # floors and references
    "above floor": "It is better than the best floor, {floor.label} ({score}).",
    "beats floor": "It beats the best floor, {floor.label} ({score}), by {by}.",
    "below floor": "It does not beat the best floor, {floor.label} ({score}){chance}{scope}: it is not shown that "
    "anything worth a model was learned here. Train longer, with more data, more seeds or other settings{look}.",
    "look": ", and look whether the labels can be told from what is read",
    "beats reference": "It beats {name} ({score}), by {by}.",
    "below reference": "{name} ({score}; it trains in {took}, {best.label} in {best_took}) is better than every model "
    "that was judged here, by {by}{start}.",
    "level reference": "{name} ({score}) {untold}{start}.",
    "cheap reference": "{name} {untold}: start with it.",
    "untold": "cannot be told from {best.label} by these examples ({apart}), and {cost}",
    # what to use
    "use cheaper": "Use {row.label}: it {untold}.",
    "use untold": "Use {row.label}: its score is the best; how much of that is chance cannot be told.",
    "use slower": "Use {row.label}: its score is the best, and what cannot be told from it trains hardly faster.",
    "use best": "Use {row.label}: nothing that trains faster is within chance of it{scope}.",
    "already better": "But {row.label}, which was not trained to its end, is already better than {best.label}, by "
    "{by}: train it longer before you choose.",
    # the Transformer
    "worth: floor": WORTH + " Not here: {which} the best floor, {floor.label}{scope}.",
    "worth: undertrained": WORTH + " Not to be told yet: {names} not trained to {end}. Train longer: {budget}.",
    "worth: unknown": WORTH + " Not to be told: it and {other.label} were not judged on the same examples.",
    "worth: worse": WORTH + " Not here: {other.label} is better, by {by}.",
    "worth: free": WORTH + " It costs nothing: {other.label} cannot be told from it{scope}, and trains no faster.",
    "worth: level": WORTH + " Not by these numbers: {other.label} cannot be told from it{scope}, and {cost}.",
    "worth: yes": WORTH + " Yes: better than {other.label} by {by}; {cost}.",
    # how far to trust it
    "one seed": "One seed each: that another seed would have given other scores is not counted here; --seeds 3 counts "
    "it.",
    "undertrained": "Not trained to {end}, so not judged: {reasons}. Train longer: {budget}.",
    "failed": "{row.label} failed: {error}",
    "skipped": "{row.label} was skipped: {error}",
    "partly failed": "{row.label}: {failed} of {all} {row.repeats} failed: {error}",
    # more data, larger models
    "more data": "{name}: more data still helps: {step} it gained {by}. Twice the data would bring about {twice}, if "
    "it went on at this pace; curves flatten, so take that for the most.",
    "larger": "{name}: a larger model still helps: {step} it gained {by}.",
    "lost": "{name}: {step} it lost {by}: {what} did not help.",
    "little": "{name}: {step} nothing was gained beyond chance, {by}: {what} promises little.",
    "unsure": "{name}: {step} it gained {by}, which may be chance: whether {what} helps cannot be told by these "
    "examples.",
    # parts left out
    "no whole": "The whole model was not trained to the end, so the value of its parts cannot be measured.",
    "whole": "The whole model has {score}.",
    "parts worse": "Worse{scope}, the part worth most first: {parts}.",
    "parts better": "Better{scope}: {parts}.",
    "parts level": "Cannot be told from the whole{scope}: {parts}.",
    "mask": "Without the mask it reads the token it is to predict: that score is no honest one.",
    # beginning from a run
    "fine-tuned": "Is it worth it to begin from what was learned before? {name} beside {other}, which begins from "
    "nothing: {answers}{scope}.",
}


def sentence(key: str, **facts: Any) -> str:
    return SENTENCES[key].format(**facts)


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
