"""Outputs that have collapsed: a classifier that says one class, a translator that does not read its source."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.error_analysis.translations import sentence_scores
from glassformer.statistics.paired import difference
from glassformer.training.finding import PROBLEM, WARNING, Finding

CLASS_ENOUGH, CLASSES_SHOWN = 5, 4
"""Examples of a class, of two in all: that none of fewer was found, or all taken for one class, may be chance. And
classes that are named."""
SOURCES_ENOUGH = 10
"""Different sources, below which one output for most of them may be chance."""
MOST = 0.5
"""Of the sources."""
LEAST, JUDGED = 20, 300
"""Pairs that can tell whether the source is read, and as many as are looked at."""
CHANCE = 0.05
"""How often chance alone may show as much, for a difference to be none."""


def class_collapse(
    names: Sequence[str], confusion: Sequence[Sequence[int]], advise: Advice, step: int
) -> list[Finding]:
    """`confusion`: how many examples of class i (row) were taken for class j (column)."""
    matrix = np.array(confusion)
    there, said, right = matrix.sum(1), matrix.sum(0), np.diag(matrix)
    advice = joined(advise.balanced(there.tolist()), advise.lower_rate(), f"a longer training ({advise.longer()})")
    if matrix.sum() >= 2 * CLASS_ENOUGH and (there > 0).sum() > 1 and (said > 0).sum() == 1:
        only = names[int(said.argmax())]
        words = f"The model says '{only}' of every one of {matrix.sum():,} validation examples: it tells nothing apart."
        return [Finding("collapse", step, PROBLEM, words, advice, {"class": only, "examples": int(matrix.sum())})]
    missed = [number for number in range(len(names)) if there[number] >= CLASS_ENOUGH and right[number] == 0]
    if not missed:
        return []
    named = ", ".join(f"'{names[number]}' ({there[number]:,} examples)" for number in missed[:CLASSES_SHOWN])
    more = f" and {len(missed) - CLASSES_SHOWN} more" if len(missed) > CLASSES_SHOWN else ""
    words = f"Never found on validation: {named}{more}."
    return [Finding("missed-class", step, WARNING, words, advice, {"classes": [names[number] for number in missed]})]


def output_collapse(records: Sequence[Mapping[str, Any]], advise: Advice, step: int) -> Finding | None:
    """Whether most sources get the same output, though they should not."""
    by_source = {one["source"]: one for one in records}
    if len(by_source) < SOURCES_ENOUGH:
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


def ignored_source(records: Sequence[Mapping[str, Any]], advise: Advice, step: int) -> Finding | None:
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
    blind = advise.config.model.attention == "none"  # a decoder that sees only a summary of its source
    attention = advise.put("model.attention", "additive") if blind else None
    return joined(f"a longer training ({advise.longer()})", advise.lower_rate(), attention)
