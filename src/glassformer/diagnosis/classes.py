"""Classes that are rare, never found, or all that is ever said."""

from collections.abc import Sequence

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import NOTE, PROBLEM, WARNING, Finding

LARGEST, RATIO = 0.8, 20.0
"""Share of the largest class, and how many times it is as large as the smallest: from there on accuracy flatters."""
ENOUGH = 5
"""Examples of a class, of two in all: that none of fewer was found, or all taken for one class, may be chance."""
SHOWN = 4


def imbalance(names: Sequence[str], counts: Sequence[int], advise: Advice) -> Finding | None:
    """`counts` of the training part."""
    total = sum(counts)
    if len(names) < 2 or not total:
        return None
    large, small = int(np.argmax(counts)), int(np.argmin(counts))
    share, ratio = counts[large] / total, counts[large] / max(1, counts[small])
    if share < LARGEST and ratio < RATIO:
        return None
    words = (
        f"The classes are of very different size: {counts[large]:,} of {total:,} ({share:.0%}) are '{names[large]}', "
        f"{counts[small]:,} are '{names[small]}'. Whoever always says '{names[large]}' is right that often."
    )
    advice = joined("judge by macro F1, not by accuracy", advise.balanced(list(counts)))
    numbers = {"share": share, "ratio": ratio, "largest": names[large], "smallest": names[small]}
    return Finding("imbalance", 0, NOTE, words, advice, numbers)


def collapse(names: Sequence[str], confusion: Sequence[Sequence[int]], advise: Advice, step: int) -> list[Finding]:
    """`confusion`: how many examples of class i (row) were taken for class j (column)."""
    matrix = np.array(confusion)
    there, said, right = matrix.sum(1), matrix.sum(0), np.diag(matrix)
    advice = joined(advise.balanced(there.tolist()), advise.lower_rate(), f"a longer training ({advise.longer()})")
    if matrix.sum() >= 2 * ENOUGH and (there > 0).sum() > 1 and (said > 0).sum() == 1:
        only = names[int(said.argmax())]
        words = f"The model says '{only}' of every one of {matrix.sum():,} validation examples: it tells nothing apart."
        return [Finding("collapse", step, PROBLEM, words, advice, {"class": only, "examples": int(matrix.sum())})]
    missed = [number for number in range(len(names)) if there[number] >= ENOUGH and right[number] == 0]
    if not missed:
        return []
    named = ", ".join(f"'{names[number]}' ({there[number]:,} examples)" for number in missed[:SHOWN])
    more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
    words = f"Never found on validation: {named}{more}."
    return [Finding("missed-class", step, WARNING, words, advice, {"classes": [names[number] for number in missed]})]
