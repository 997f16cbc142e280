"""Checks of the data before the first update: unknown and truncated tokens, and the sizes of the classes."""

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np

from glassformer.diagnosis.advice import Advice, Findings, finding
from glassformer.families.base import Family, Prepared
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import StreamFamily
from glassformer.families.predict import texts_in
from glassformer.families.translation import TranslationFamily
from glassformer.finetuning.settings import bound_positions
from glassformer.training.events import NOTE, WARNING, Finding

MIN_UNKNOWN, HIGH_UNKNOWN = 0.05, 0.15
"""Shares of unknown tokens for a note and for a warning: one token in twenty, and one in seven."""
MIN_CUT, HIGH_CUT = 0.1, 0.5
"""Shares of truncated texts for a note and for a warning."""
MAX_CLASS_SHARE, MAX_CLASS_RATIO = 0.8, 20.0
"""Share of the largest class, and its ratio to the smallest, from which accuracy is misleading."""


# --- by family ---


@singledispatch
def data_findings(family: Family, prepared: Prepared, advise: Advice) -> Findings:
    """Check the parts of the data."""
    return iter(())


@data_findings.register
def data_findings_of_streams(family: StreamFamily, prepared: Prepared, advise: Advice) -> Findings:
    task = prepared.task
    counts = {name: (part.unknown, len(part.ids)) for name, part in task.parts.items()}
    yield unknown_tokens(_rates(counts), advise)


@data_findings.register
def data_findings_of_pairs(family: TranslationFamily, prepared: Prepared, advise: Advice) -> Findings:
    parts = prepared.task.parts
    counts = {name: (sum(part.unknown), len(part.source.ids) + len(part.target.ids)) for name, part in parts.items()}
    yield unknown_tokens(_rates(counts), advise)
    cut, dropped = sum(part.cut for part in parts.values()), sum(len(part.dropped) for part in parts.values())
    pairs = sum(len(part) for part in parts.values()) + dropped
    yield truncated_texts(cut or dropped, pairs, advise, dropped=not cut)


@data_findings.register
def data_findings_of_labels(family: LabellingFamily, prepared: Prepared, advise: Advice) -> Findings:
    classes = family.class_counts(prepared.task)
    texts = {name: text for name, part in prepared.task.parts.items() if (text := texts_in(part)) is not None}
    counts = {name: (part.unknown, len(part.ids)) for name, part in texts.items()}
    yield unknown_tokens(_rates(counts), advise)
    yield truncated_texts(sum(part.cut for part in texts.values()), sum(map(len, texts.values())), advise)
    yield class_imbalance(list(classes), list(classes.values()), advise)


def _rates(counts: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Return the share of unknown tokens by part. `counts`: unknown tokens and all tokens of each part."""
    return {name: unknown / total for name, (unknown, total) in counts.items() if total}


# --- each finding ---


def unknown_tokens(rates: Mapping[str, float], advise: Advice) -> Finding | None:
    """Report the share of unknown tokens by part."""
    worst = max(rates.values(), default=0.0)
    if worst < MIN_UNKNOWN:
        return None
    shares = ", ".join(f"{rate:.1%} of {name}" for name, rate in rates.items())
    key = "unknown: some" if rates.get("train") else "unknown: never"
    severity = WARNING if worst >= HIGH_UNKNOWN else NOTE
    return finding(advise, key, severity, dict(rates), shares=shares)


def truncated_texts(cut: int, of: int, advise: Advice, *, dropped: bool = False) -> Finding | None:
    """Report texts longer than the context, which are cut there, or pairs that are left out."""
    if not of or cut / of < MIN_CUT:
        return None
    config, context = advise.config, advise.config.model.context
    longer = f"--model.context {2 * context}"
    if config.is_finetuned and bound_positions(config):
        longer = "shorter texts: the model that was taken has no more positions"
    key = "cut: dropped" if dropped else "cut: short"
    severity = WARNING if cut / of >= HIGH_CUT else NOTE
    return finding(advise, key, severity, {"cut": cut, "of": of, "context": context}, try_first=longer, share=cut / of)


def class_imbalance(names: Sequence[str], counts: Sequence[int], advise: Advice) -> Finding | None:
    """Report classes of very different size. `counts`: of the training part."""
    total = sum(counts)
    if len(names) < 2 or not total:
        return None
    large, small = int(np.argmax(counts)), int(np.argmin(counts))
    share, ratio = counts[large] / total, counts[large] / max(1, counts[small])
    if share < MAX_CLASS_SHARE and ratio < MAX_CLASS_RATIO:
        return None
    numbers = {"share": share, "ratio": ratio, "largest": names[large], "smallest": names[small]}
    weights = advise.balanced(list(counts))
    return finding(
        advise, "imbalance", NOTE, numbers, try_first=weights, large=counts[large], small=counts[small], total=total
    )
