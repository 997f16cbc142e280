"""Where a translator is wrong: the worst by chrF, by length, and outputs that are odd in a way that can be counted."""

from collections import Counter

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError
from glassformer.config.messages import say
from glassformer.data.wording import counted
from glassformer.error_analysis.comparison import PairedScores, RunPair, compare_scores, match_records
from glassformer.error_analysis.finding import (
    MOST_ERRORS,
    ErrorFinding,
    ErrorRequest,
    ReportedPart,
    percent,
    sentence,
    table_or_words,
)
from glassformer.error_analysis.traits import lengths_of, means, quartiles, unknown_tokens
from glassformer.families.base import Family
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Cell, Panel, Rows, Table
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.text.display import cut

MOST_SCORED = 500
"""Translations whose chrF is taken one by one for a report."""
MOST_LOOKED_AT = 5_000
"""Translations whose chrF is taken one by one, where errors are looked for."""
TIMES = 3
"""A phrase of three words (or six characters) that stands so often in an output is repeated."""


def translation_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records = request.records
    unknown = unknown_tokens(request.evaluated.inputs.source, request.loaded.tokenizer)
    if not records:
        raise DataError("there is no pair to look at")
    stride = -(-len(records) // MOST_LOOKED_AT)
    if stride > 1:
        say(f"errors are looked for in every {stride}th of {len(records):,} pairs")
        records, unknown = records[::stride], None if unknown is None else unknown[::stride]
    scores = sentence_scores(records)
    return [
        mean_chrf(records, scores),
        chrf_by_source_length(records, scores),
        odd_outputs(records, scores, None if unknown is None else unknown > 0),
        ErrorFinding([worst_translations(records, scores)]),
    ]


def translation_brief(family: Family, report: ReportedPart) -> list[Panel]:
    return [worst_translations(report.records)]


def compare_translations(family: Family, pair: RunPair) -> list[ErrorFinding]:
    # by the texts of each pair: how many pairs there are depends on how long they are in tokens
    first, second = match_records(pair, lambda side: zip(side.inputs.sources, side.inputs.targets, strict=True))
    stride = -(-len(first) // MOST_LOOKED_AT)
    if stride > 1:
        say(f"every {stride}th of {len(first):,} pairs is looked at")
        first, second = first[::stride], second[::stride]
    rows: Rows = [
        [cut(mine["source"]), cut(mine["target"]), cut(mine["output"]), cut(theirs["output"])]
        for mine, theirs in zip(first, second, strict=True)
    ]
    scores = sentence_scores(first), sentence_scores(second)
    paired = PairedScores(scores, pair.names, "chrF", "pair", lower_is_better=False)
    return compare_scores(paired, ["source", "target", *pair.names], rows)


def sentence_scores(records: Records) -> NDArray[np.float64]:
    """The chrF of each translation alone."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return np.array([metric.sentence_score(record["output"], [record["target"]]).score for record in records], float)


def worst_translations(records: Records, scores: Float[Array, " N"] | None = None) -> Panel:
    """The worst by chrF of each alone. Of very many, those that the model found least likely are looked at."""
    note = ""
    wrong = [place for place, record in enumerate(records) if not record["exact"]]
    if scores is None and len(wrong) > MOST_SCORED:
        wrong.sort(key=lambda place: -records[place]["loss"] / max(1, records[place]["tokens"]))
        wrong = wrong[:MOST_SCORED]
        note = f"Among the {MOST_SCORED} whose target was least expected."
    chrf = sentence_scores([records[place] for place in wrong]) if scores is None else scores[wrong]
    scored = dict(zip(wrong, chrf.tolist(), strict=True))
    chosen = sorted(wrong, key=lambda place: (scored[place], place))[:MOST_ERRORS]
    columns = ["source", "output", "target", "chrF"]
    rows: Rows = [[*(cut(records[place][side]) for side in columns[:3]), scored[place]] for place in chosen]
    return table_or_words(
        "Worst translations", columns, rows, nothing=f"All {len(records):,} are exactly the target.", note=note
    )


def mean_chrf(records: Records, scores: Float[Array, " N"]) -> ErrorFinding:
    """The mean of the sentences' own chrF, and how many are exact."""
    mean = weighted_mean_interval(scores)
    exact = sum(record["exact"] for record in records)
    between = "" if len(records) < 2 else f" ({mean.low:.1f} to {mean.high:.1f})"
    facts = {"pairs": counted(len(records), "pair"), "exact": percent(exact / len(records)), "mean": mean.value}
    return ErrorFinding(sentence=sentence("chrf", **facts, between=between))


def chrf_by_source_length(records: Records, scores: Float[Array, " N"]) -> ErrorFinding:
    """The mean chrF of short and long sources, by quarter."""
    lengths, unit = lengths_of([record["source"] for record in records])
    groups = quartiles(f"{unit} of the source", lengths)
    return means("chrF by length of the source", groups, scores, "pair", "mean chrF")


def odd_outputs(records: Records, scores: Float[Array, " N"], unknown: Bool[Array, " N"] | None = None) -> ErrorFinding:
    """What is plainly wrong with an output: empty, far too long or short, a copy, a phrase again and again.

    `unknown`: whether each source has a token that the tokenizer does not know.
    """
    ratio = np.array([len(record["output"]) / max(1, len(record["target"])) for record in records])
    empty = np.array([not record["output"].strip() for record in records], bool)
    copied = [record["output"].strip() == record["source"].strip() != record["target"].strip() for record in records]
    again = [repeated(record["output"]) and not repeated(record["target"]) for record in records]
    traits: dict[str, NDArray[np.bool_]] = {
        "empty": empty,
        "more than twice as long as the target": ratio > 2,
        "less than half as long as the target": (ratio < 0.5) & ~empty,
        "the source, copied": np.array(copied, bool),
        "a phrase again and again": np.array(again, bool),
    }
    oddity, share = max(((name, float(chosen.mean())) for name, chosen in traits.items()), key=lambda pair: pair[1])
    takeaway = sentence("odd", share=percent(share), oddity=oddity) if share else "No output is odd."
    if unknown is not None:
        traits["from a source with an unknown token"] = unknown
    table = Table(
        title="Odd outputs",
        columns=["the output is", "pairs", "share", "from", "to", "mean chrF", "chrF of the rest"],
        rows=[_odd(name, chosen, scores) for name, chosen in traits.items()],
        bars=("share",),
        note=sentence("odd: note", times=TIMES),
    )
    return ErrorFinding([table], takeaway)


def _odd(name: str, chosen: NDArray[np.bool_], scores: Float[Array, " N"]) -> list[Cell]:
    share = share_interval(int(chosen.sum()), len(chosen))
    here = float(scores[chosen].mean()) if chosen.any() else None
    rest = float(scores[~chosen].mean()) if not chosen.all() else None
    return [name, int(chosen.sum()), share.value, share.low, share.high, here, rest]


def repeated(text: str) -> bool:
    """Whether the same three words, or in a text without blanks six characters, stand there three times."""
    words = text.split()
    pieces = [tuple(words[at : at + 3]) for at in range(len(words) - 2)]
    if len(words) == 1:
        pieces = [tuple(text[at : at + 6]) for at in range(len(text) - 5)]
    return max(Counter(pieces).values(), default=0) >= TIMES
