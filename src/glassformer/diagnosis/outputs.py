"""A translator that says the same of everything, or nothing of what it reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from glassformer.diagnosis.advice import Advice, joined
from glassformer.error_analysis.translations import sentence_scores
from glassformer.statistics.paired import difference
from glassformer.training.finding import PROBLEM, WARNING, Finding

ENOUGH = 10
"""Different sources, below which one output for most of them may be chance."""
MOST = 0.5
"""Of the sources."""
LEAST, JUDGED = 20, 300
"""Pairs that can tell whether the source is read, and as many as are looked at."""
CHANCE = 0.05
"""How often chance alone may show as much, for a difference to be none."""


def one_output(records: Sequence[Mapping[str, Any]], advise: Advice, step: int) -> Finding | None:
    """Whether most sources get the same output, though they should not."""
    by_source = {one["source"]: one for one in records}
    if len(by_source) < ENOUGH:
        return None
    ((output, times),) = Counter(one["output"] for one in by_source.values()).most_common(1)
    wanted = sum(one["target"] == output for one in by_source.values())
    if times - wanted <= MOST * len(by_source):
        return None
    exact = sum(one["output"] == one["target"] for one in by_source.values()) / len(by_source)
    shown = output if len(output) <= 60 else f"{output[:59]}…"
    words = (
        f"The translator has collapsed to one output: '{shown}' for {times:,} of {len(by_source):,} different sources "
        f"({exact:.1%} of all outputs are right), so it hardly reads its source."
    )
    numbers = {"output": output, "times": times, "of": len(by_source), "exact": exact}
    return Finding("collapse", step, PROBLEM, words, _advice(advise), numbers)


def unread(records: Sequence[Mapping[str, Any]], advise: Advice, step: int) -> Finding | None:
    """Whether outputs are as close to another source's target as to their own: then they tell nothing of the source."""
    judged = [dict(one) for one in {one["target"]: one for one in records}.values()][:JUDGED]
    if len(judged) < LEAST:
        return None
    others = [{**one, "target": after["target"]} for one, after in pairwise([*judged, judged[0]])]
    own, other = sentence_scores(judged), sentence_scores(others)
    gain = difference(own[None], other[None])
    if gain.value > 0 and gain.p < CHANCE:
        return None
    words = (
        f"On {len(judged):,} validation pairs the outputs are no closer to their own targets (mean chrF "
        f"{own.mean():.1f}) than to those of other sources ({other.mean():.1f}, p = {gain.p:.2g}): the translator does "
        "not yet read its source."
    )
    numbers = {"own": float(own.mean()), "other": float(other.mean()), "p": gain.p}
    return Finding("no-better", step, WARNING, words, _advice(advise), numbers)


def _advice(advise: Advice) -> str:
    return joined(f"a longer training ({advise.longer()})", advise.lower_rate(), _looks(advise))


def _looks(advise: Advice) -> str | None:
    """For a decoder that sees only a summary of its source."""
    return advise.put("model.attention", "additive") if advise.config.model.attention == "none" else None
