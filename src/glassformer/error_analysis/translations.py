"""Where a translator is wrong: the worst by chrF, by length, and outputs that are odd in a way that can be counted."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.error_analysis.classes import MOST_ERRORS
from glassformer.error_analysis.finding import CHANCE, Found, percent, some
from glassformer.error_analysis.groups import apart, means, quarters
from glassformer.error_analysis.words import lengths_of
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.text.display import cut

MOST_SCORED = 500
"""Translations whose chrF is taken one by one for a report."""
MOST_LOOKED_AT = 5_000
"""The same, where errors are looked for."""
TIMES = 3
"""A phrase of three words (or six characters) that stands so often in an output is repeated."""


def sentence_scores(records: Records) -> NDArray[np.float64]:
    """The chrF of each alone."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return np.array([metric.sentence_score(one["output"], [one["target"]]).score for one in records], float)


def bad_translations(records: Records, scores: Float[Array, " N"] | None = None) -> Panel:
    """The worst by chrF of each alone. Of very many, those that the model found least likely are looked at."""
    note = ""
    wrong = [place for place, one in enumerate(records) if not one["exact"]]
    if not wrong:
        return Words(title="Worst translations", text=f"All {len(records):,} are exactly the target.")
    if scores is None and len(wrong) > MOST_SCORED:
        wrong = sorted(wrong, key=lambda place: -records[place]["loss"] / max(1, records[place]["tokens"]))[
            :MOST_SCORED
        ]
        note = f"Among the {MOST_SCORED} whose target was least expected."
    found = sentence_scores([records[place] for place in wrong]) if scores is None else scores[wrong]
    scored = dict(zip(wrong, found.tolist(), strict=True))
    chosen = sorted(wrong, key=lambda place: (scored[place], place))[:MOST_ERRORS]
    rows = [
        [cut(one["source"]), cut(one["output"]), cut(one["target"]), scored[place]]
        for place, one in ((place, records[place]) for place in chosen)
    ]
    columns = ["source", "output", "target", "chrF"]
    return Table(title="Worst translations", columns=columns, rows=rows, note=note)


def how_good(records: Records, scores: Float[Array, " N"]) -> Found:
    """The mean of the sentences' own chrF, and how many are exact."""
    mean = weighted_mean_interval(scores)
    exact = sum(one["exact"] for one in records)
    between = "" if len(records) < 2 else f" ({mean.low:.1f} to {mean.high:.1f})"
    return Found(
        said=f"{some(len(records), 'pair')}: {percent(exact / len(records))} are exactly the target; a sentence alone "
        f"has a chrF of {mean.value:.1f} on average{between}."
    )


def by_source_length(records: Records, scores: Float[Array, " N"]) -> Found:
    """The mean chrF of short and long sources, by quarter."""
    lengths, unit = lengths_of([one["source"] for one in records])
    groups = quarters(f"{unit} of the source", lengths)
    table = means("chrF by length of the source", groups, scores, "pair", "mean chrF")
    if table is None:
        return Found()
    if len(groups) < 2 or apart(scores[groups[0].rows], scores[groups[-1].rows]) >= CHANCE:
        return Found([table])
    first, last = (float(scores[group.rows].mean()) for group in (groups[0], groups[-1]))
    than = "worse" if last < first else "better"
    said = (
        f"Long sources are translated {than}: chrF {last:.1f} for {groups[-1].name} {unit}, {first:.1f} for "
        f"{groups[0].name}."
    )
    return Found([table], said)


def oddities(records: Records, scores: Float[Array, " N"], unknown: Bool[Array, " N"] | None = None) -> Found:
    """What is plainly wrong with an output: empty, far too long or short, a copy, a phrase again and again.

    `unknown`: whether each source has a token that the tokenizer does not know.
    """
    outputs = [one["output"] for one in records]
    lengths = np.array([[len(one["output"]), max(1, len(one["target"]))] for one in records], float)
    ratio = lengths[:, 0] / lengths[:, 1]
    empty = np.array([not output.strip() for output in outputs], bool)
    traits: dict[str, NDArray[np.bool_]] = {
        "empty": empty,
        "more than twice as long as the target": ratio > 2,
        "less than half as long as the target": (ratio < 0.5) & ~empty,
        "the source, copied": np.array(
            [one["output"].strip() == one["source"].strip() != one["target"].strip() for one in records], bool
        ),
        "a phrase again and again": np.array(
            [repeated(one["output"]) and not repeated(one["target"]) for one in records], bool
        ),
    }
    if unknown is not None:
        traits["from a source with an unknown token"] = np.asarray(unknown, bool)
    rows = [_odd(name, chosen, scores) for name, chosen in traits.items()]
    table = Table(
        title="Odd outputs",
        columns=["the output is", "pairs", "share", "from", "to", "mean chrF", "chrF of the rest"],
        rows=rows,
        bars=("share",),
        note=f"A phrase again and again: three words (or six characters, in an output without blanks) that stand "
        f"{TIMES} times or more in the output but not in the target. Lengths are in characters.",
    )
    return Found([table], _odd_in_words(traits))


def _odd(name: str, chosen: NDArray[np.bool_], scores: Float[Array, " N"]) -> list[str | float | int | None]:
    share = share_interval(int(chosen.sum()), len(chosen))
    here = float(scores[chosen].mean()) if chosen.any() else None
    rest = float(scores[~chosen].mean()) if not chosen.all() else None
    return [name, int(chosen.sum()), share.value, share.low, share.high, here, rest]


def _odd_in_words(traits: Mapping[str, NDArray[np.bool_]]) -> str:
    counts = {name: int(chosen.sum()) for name, chosen in traits.items() if "unknown" not in name}
    name = max(counts, key=lambda one: counts[one])
    whole = len(traits[name])
    return f"{percent(counts[name] / whole)} of the outputs are {name}." if counts[name] else "No output is odd."


def repeated(text: str) -> bool:
    """Whether the same three words, or in a text without blanks six characters, stand there three times."""
    words = text.split()
    pieces = [tuple(words[at : at + 3]) for at in range(len(words) - 2)]
    if len(words) == 1:
        pieces = [tuple(text[at : at + 6]) for at in range(len(text) - 5)]
    return max(Counter(pieces).values(), default=0) >= TIMES
