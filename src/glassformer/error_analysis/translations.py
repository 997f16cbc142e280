"""Errors of translators: the worst outputs by chrF, chrF by length, and odd outputs."""

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
    MAX_ERRORS,
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

MAX_SCORED = 500
"""Maximum number of translations that are scored one by one for a report."""
MAX_ANALYSED = 5_000
"""Maximum number of translations that are scored one by one for an error analysis."""
MIN_REPEATS = 3
"""Occurrences of three words (or six characters) in an output from which they count as repeated."""


def translation_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records = request.records
    unknown = unknown_tokens(request.evaluated.inputs.source, request.loaded.tokenizer)
    if not records:
        raise DataError("there is no pair to look at")
    stride = -(-len(records) // MAX_ANALYSED)
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
    # match pairs by their texts, since the tokenizers decide which pairs are too long
    first, second = match_records(pair, lambda side: zip(side.inputs.sources, side.inputs.targets, strict=True))
    stride = -(-len(first) // MAX_ANALYSED)
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
    """Return the chrF of each translation."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return np.array([metric.sentence_score(record["output"], [record["target"]]).score for record in records], float)


def worst_translations(records: Records, scores: Float[Array, " N"] | None = None) -> Panel:
    """Return the worst translations by chrF; of very many, only those with the least likely targets are scored."""
    note = ""
    wrong = [place for place, record in enumerate(records) if not record["exact"]]
    if scores is None and len(wrong) > MAX_SCORED:
        wrong.sort(key=lambda place: -records[place]["loss"] / max(1, records[place]["tokens"]))
        wrong = wrong[:MAX_SCORED]
        note = f"Among the {MAX_SCORED} whose target was least expected."
    chrf = sentence_scores([records[place] for place in wrong]) if scores is None else scores[wrong]
    scored = dict(zip(wrong, chrf.tolist(), strict=True))
    chosen = sorted(wrong, key=lambda place: (scored[place], place))[:MAX_ERRORS]
    columns = ["source", "output", "target", "chrF"]
    rows: Rows = [[*(cut(records[place][side]) for side in columns[:3]), scored[place]] for place in chosen]
    return table_or_words(
        "Worst translations", columns, rows, nothing=f"All {len(records):,} are exactly the target.", note=note
    )


def mean_chrf(records: Records, scores: Float[Array, " N"]) -> ErrorFinding:
    """Return a sentence with the mean chrF of the sentences and the share of exact ones."""
    mean = weighted_mean_interval(scores)
    exact = sum(record["exact"] for record in records)
    between = "" if len(records) < 2 else f" ({mean.low:.1f} to {mean.high:.1f})"
    facts = {"pairs": counted(len(records), "pair"), "exact": percent(exact / len(records)), "mean": mean.value}
    return ErrorFinding(sentence=sentence("chrf", **facts, between=between))


def chrf_by_source_length(records: Records, scores: Float[Array, " N"]) -> ErrorFinding:
    """Return the mean chrF by quartile of the source's length."""
    lengths, unit = lengths_of([record["source"] for record in records])
    groups = quartiles(f"{unit} of the source", lengths)
    return means("chrF by length of the source", groups, scores, "pair", "mean chrF")


def odd_outputs(records: Records, scores: Float[Array, " N"], unknown: Bool[Array, " N"] | None = None) -> ErrorFinding:
    """Count odd outputs: empty, much too long or short, copied, or with a repeated phrase.

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
        note=sentence("odd: note", times=MIN_REPEATS),
    )
    return ErrorFinding([table], takeaway)


def _odd(name: str, chosen: NDArray[np.bool_], scores: Float[Array, " N"]) -> list[Cell]:
    share = share_interval(int(chosen.sum()), len(chosen))
    here = float(scores[chosen].mean()) if chosen.any() else None
    rest = float(scores[~chosen].mean()) if not chosen.all() else None
    return [name, int(chosen.sum()), share.value, share.low, share.high, here, rest]


def repeated(text: str) -> bool:
    """Return whether three words, or in a text of one word six characters, occur three times."""
    words = text.split()
    pieces = [tuple(words[at : at + 3]) for at in range(len(words) - 2)]
    if len(words) == 1:
        pieces = [tuple(text[at : at + 6]) for at in range(len(text) - 5)]
    return max(Counter(pieces).values(), default=0) >= MIN_REPEATS
